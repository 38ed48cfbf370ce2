"""Whatever fails and whoever is killed, a file holds all of its old or all of its new content."""

import errno
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from amforest.model_io import atomic_write
from amforest.model_io.atomic_write import read_all, remove_stale, write_atomically

OLD, PIECES = b"old content", [b"new", b" content", b", longer"]
NEW = b"".join(PIECES)
CALLS = ["open", "write", "fsync", "rename", "close"]

# The module without its package: many processes are started, and the package loads twice as long.
IMPORTS = f"""
import itertools, os, resource, sys
sys.path.insert(0, {os.path.dirname(atomic_write.__file__)!r})
from atomic_write import write_atomically
path = sys.argv[1]
"""
WRITE = f"""
try:
    write_atomically(path, [*{PIECES[:-1]}, memoryview({PIECES[-1]}).cast("H")])
except OSError as error:
    print(error.errno, error)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the file that is to be replaced, and nothing else."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model").write_bytes(OLD)
    return folder


def command(code, path):
    return [sys.executable, "-c", IMPORTS + code, str(path)]


def run(code, path, before=(), **environment):
    """Run the code in another process; path is the file it shall write."""
    return subprocess.run(
        [*before, *command(code, path)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def says(code, path):
    """What a process prints that had this error."""
    return f"{code} [Errno {code}] {os.strerror(code)}: '{path}'\n"


# Without faults


@pytest.mark.parametrize("as_path", [str, Path])
def test_what_was_written_is_read(as_path, folder):
    path = as_path(folder / "model")
    assert write_atomically(path, PIECES) == hashlib.sha256(NEW).hexdigest()
    assert read_all(path) == NEW
    assert os.listdir(folder) == ["model"]


def test_pieces_are_any_memory(folder):
    array = np.arange(6.0).reshape(2, 3)
    pieces = (b"", array.data, np.zeros((0, 2)).data, memoryview(b"end"))
    digest = write_atomically(folder / "another", iter(pieces))
    assert read_all(folder / "another") == array.tobytes() + b"end"
    assert digest == hashlib.sha256(array.tobytes() + b"end").hexdigest()


def test_an_empty_file_is_written_and_read(folder):
    write_atomically(folder / "model", [])
    assert read_all(folder / "model") == b""


def test_until_the_end_the_new_content_is_in_a_hidden_file_of_the_owner(folder):
    def pieces():
        yield b"new"
        (temporary,) = set(os.listdir(folder)) - {"model"}
        assert re.fullmatch(r"\.model\..+\.tmp", temporary)
        assert (folder / temporary).stat().st_mode & 0o777 == 0o600
        assert read_all(folder / "model") == OLD

    write_atomically(folder / "model", pieces())
    assert read_all(folder / "model") == b"new"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_the_owner_may_read_and_write_the_file(umask, folder):
    (folder / "model").chmod(0o644)
    before = os.umask(umask)
    try:
        write_atomically(folder / "model", PIECES)
    finally:
        os.umask(before)
    assert (folder / "model").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("target", ["folder/model", "folder/none yet"])
def test_a_link_stays_and_what_it_points_to_is_replaced(target, folder):
    latest = folder.parent / "latest"
    latest.symlink_to(target)
    write_atomically(latest, PIECES)
    assert os.readlink(latest) == target
    assert read_all(folder.parent / target) == NEW
    assert sorted(os.listdir(folder.parent)) == ["folder", "latest"]


def test_of_many_writers_at_once_one_wins(folder):
    contents = [[bytes([k]) * 1000] * 10 for k in range(20)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda pieces: write_atomically(folder / "model", pieces), contents))
    assert read_all(folder / "model") in [b"".join(pieces) for pieces in contents]
    assert os.listdir(folder) == ["model"]


def test_stale_files_are_removed_and_others_stay(folder):
    stale = [".model.0123456789abcdef.tmp", ".model.2.amf.0123456789abcdef.tmp"]
    others = ["model", ".model.tmp", ".model.0123.tmp", stale[0][1:], ".a" + stale[0]]
    for name in stale + others:
        (folder / name).write_bytes(b"")
    remove_stale(folder, "model")
    assert sorted(os.listdir(folder)) == sorted(others)


# What is refused


@pytest.mark.parametrize("call", [read_all, lambda path: write_atomically(path, PIECES)])
def test_a_folder_is_no_file(call, folder):
    with pytest.raises(IsADirectoryError, match=re.escape(f"'{folder}'")):
        call(folder)
    assert os.listdir(folder.parent) == ["folder"]


def test_a_pipe_is_neither_read_nor_replaced(folder):
    os.mkfifo(folder / "pipe")
    for call in (read_all, lambda path: write_atomically(path, PIECES)):
        with pytest.raises(OSError, match=r"Not a regular file: '.*pipe'"):
            call(folder / "pipe")
    assert (folder / "pipe").is_fifo()


def test_an_endless_device_is_not_read():
    with pytest.raises(OSError, match="Not a regular file: '/dev/zero'"):
        read_all("/dev/zero")


def test_a_file_that_ends_early_is_not_read():
    path = "/sys/kernel/mm/transparent_hugepage/enabled"  # says that it has 4096 bytes
    if not os.path.exists(path):
        pytest.skip("Linux' sysfs is not here")
    with pytest.raises(OSError, match=rf"became shorter .*: \d+ of 4096 bytes: '{path}'"):
        read_all(path)


def test_a_missing_file_or_folder_is_named(folder):
    for call in (read_all, lambda path: write_atomically(path, PIECES)):
        with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*none/model'"):
            call(folder / "none" / "model")


# Faults from within the process


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_leaves_the_old_file_and_nothing_else(error, folder):
    def pieces():
        yield b"new"
        if error is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        raise ZeroDivisionError

    opened = set(os.listdir("/dev/fd"))
    with pytest.raises(error):
        write_atomically(folder / "model", pieces())
    assert read_all(folder / "model") == OLD
    assert os.listdir(folder) == ["model"]
    assert set(os.listdir("/dev/fd")) <= opened


def test_a_temporary_file_that_vanishes_is_an_error_about_the_target(folder, monkeypatch):
    def pieces():
        yield b"new"
        remove_stale(folder, "model")

    monkeypatch.chdir(folder)
    with pytest.raises(FileNotFoundError, match=r"\[Errno 2\] .* directory: 'model'$"):
        write_atomically("model", pieces())
    assert read_all("model") == OLD


# Faults of the system


def test_a_file_size_limit_leaves_the_old_file(folder):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (12, 12))"
    assert run(limit + WRITE, folder / "model").stdout == says(errno.EFBIG, folder / "model")
    assert read_all(folder / "model") == OLD
    assert os.listdir(folder) == ["model"]


def test_a_full_disk_leaves_the_old_file(folder):
    # In a name space of its own, so that the disk goes with the process, however it ends.
    mount = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
    before = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(folder)]
    try:
        probe = [*before, sys.executable, "-c", ""]
        subprocess.run(probe, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a small disk: {getattr(error, 'stderr', error)}")
    code = f"""
write_atomically(path, [{OLD}])
try:
    write_atomically(path, [bytes(40_000)] * 2)
except OSError as error:
    print(error.errno, error)
print(open(path, "rb").read(), os.listdir(os.path.dirname(path)))
"""
    path = folder / "model"
    assert run(code, path, before).stdout == says(errno.ENOSPC, path) + f"{OLD} ['model']\n"


# Faults of each system call in turn


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """The library that makes calls fail."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("shim") / "faulty_io.so"
    source = Path(__file__).with_name("faulty_io.c")
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True)
    return str(library)


@pytest.fixture
def faulty(shim, folder):
    """Write with a fault; return the process and its calls on the folder."""

    def write(call="", at=0, action="", before=""):
        (folder / "model").write_bytes(OLD)
        faults = {"FAULTY_CALL": call, "FAULTY_AT": str(at), "FAULTY_ACTION": str(action)}
        process = run(
            before + WRITE,
            folder / "model",
            LD_PRELOAD=shim,
            FAULTY_FOLDER=str(folder),
            **faults,
        )
        return process, process.stderr.split()

    return write


def every_fault(faulty, call, action):
    """Let the first call fail, then the second, until there is none."""
    for at in count(1):
        process, calls = faulty(call, at, action)
        if f"{call}!" not in calls:
            assert at > 1
            return
        yield process, calls


def whole(calls):
    """What the file must hold after these calls: those that failed have other names."""
    return NEW if "rename" in calls else OLD


def test_the_content_is_on_disk_before_it_gets_its_name(faulty):
    _, calls = faulty()
    assert calls == [
        "open",  # the folder
        *["open", "write", "write", "write", "fsync", "close"],
        "rename",
        *["fsync", "close"],  # the folder
    ]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("action", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_after_a_fault_the_file_is_whole_and_the_error_names_it(call, action, faulty, folder):
    for process, calls in every_fault(faulty, call, action):
        assert process.stdout == says(action, folder / "model")
        assert read_all(folder / "model") == whole(calls)
        assert os.listdir(folder) == ["model"]


@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_interrupted_calls_are_made_again(call, faulty, folder):
    for process, _ in every_fault(faulty, call, errno.EINTR):
        assert process.stdout == ""
        assert read_all(folder / "model") == NEW


@pytest.mark.parametrize("call", ["rename", "close"])
def test_interrupted_calls_that_cannot_be_made_again_fail(call, faulty, folder):
    for process, calls in every_fault(faulty, call, errno.EINTR):
        assert process.stdout == says(errno.EINTR, folder / "model")
        assert read_all(folder / "model") == whole(calls)


def test_short_writes_go_on(faulty, folder):
    for process, calls in every_fault(faulty, "write", "short"):
        assert process.stdout == ""
        assert [call.rstrip("!") for call in calls].count("write") == 4
        assert read_all(folder / "model") == NEW


def test_writes_without_progress_do_not_go_on_for_ever(faulty, folder):
    for process, _ in every_fault(faulty, "write", "none"):
        assert process.stdout == says(errno.EIO, folder / "model")
        assert read_all(folder / "model") == OLD


def test_an_error_is_told_even_if_the_temporary_file_must_stay(faulty, folder):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (12, 12))"
    process, calls = faulty("unlink", 1, errno.EROFS, before=limit)
    assert "unlink!" in calls
    assert process.stdout == says(errno.EFBIG, folder / "model")
    assert read_all(folder / "model") == OLD


# Killed


@pytest.mark.parametrize("call", CALLS)
def test_a_writer_killed_before_any_call_leaves_a_whole_file(call, faulty, folder):
    for process, calls in every_fault(faulty, call, "kill"):
        assert process.returncode == -signal.SIGKILL
        assert read_all(folder / "model") == whole(calls)
        remove_stale(folder, "model")
        assert os.listdir(folder) == ["model"]


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(folder):
    code = """
for k in itertools.count(1):
    write_atomically(path, [k.to_bytes(8, "little") * 8192] * 4)
    if k == 1:
        print("ready", flush=True)
"""
    moments = random.Random(0)
    for _ in range(30):
        with subprocess.Popen(command(code, folder / "model"), stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(moments.uniform(0, 0.03))
            writer.kill()
        content = read_all(folder / "model")
        assert content == content[:8] * 32_768
    remove_stale(folder, "model")
    assert os.listdir(folder) == ["model"]
