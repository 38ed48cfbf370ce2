"""What is written, locked and read where the system lacks calls of Linux, such as on Windows."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amforest.model_io import file_lock
from amforest.model_io.atomic_write import read_all, sync_folder, write_atomically
from amforest.model_io.file_lock import lock_file
from amforest.serving.journal import Journal

POSIX_ONLY = ["O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "fdatasync", "pread", "pwrite"]


@pytest.fixture
def no_posix(monkeypatch):
    """Take from `os` what Windows does not have."""
    for name in POSIX_ONLY:
        monkeypatch.delattr(os, name)


@pytest.fixture
def synced(monkeypatch):
    """The kinds of files that are synced."""
    kinds = []
    real = os.fsync

    def fsync(fd):
        kinds.append("folder" if Path(f"/proc/self/fd/{fd}").resolve().is_dir() else "file")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return kinds


def test_a_file_is_written_and_read_without_the_calls_of_posix(tmp_path, no_posix, synced):
    write_atomically(tmp_path / "model", [b"a", b"bc"])
    assert read_all(tmp_path / "model") == b"abc"
    assert os.listdir(tmp_path) == ["model"]
    assert synced == ["file"]


def test_a_folder_is_synced_where_that_is_possible(tmp_path, synced):
    write_atomically(tmp_path / "model", [b"abc"])
    sync_folder(tmp_path)
    assert synced == ["file", "folder", "folder"]


def test_a_failed_write_leaves_the_old_file_without_the_calls_of_posix(tmp_path, no_posix):
    write_atomically(tmp_path / "model", [b"old"])

    def pieces():
        yield b"new"
        raise MemoryError

    with pytest.raises(MemoryError):
        write_atomically(tmp_path / "model", pieces())
    assert read_all(tmp_path / "model") == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_a_journal_keeps_its_entries_without_the_calls_of_posix(tmp_path, no_posix):
    path = tmp_path / "journal"
    entries = [(1, b"first"), (2, b"second"), (3, b"")]
    journal = Journal(path)
    journal.append(entries[:2])
    assert list(journal.entries()) == entries[:2]
    journal.append(entries[2:])  # behind what was read
    journal.close()
    again = Journal(path)
    assert list(again.entries()) == entries
    assert again.n_dropped == 0
    again.close()


def test_a_file_is_locked_until_it_is_closed(tmp_path):
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert lock_file(first)
    assert not lock_file(second)
    os.close(first)
    assert lock_file(second)
    os.close(second)


# The C library of Windows locks bytes from the position of the file on, and refuses by EACCES.
# Locks by `lockf` are of one process: another one holds them here.
WINDOWS = f"""
import fcntl, os, sys, types
sys.platform = "win32"
def locking(fd, mode, n_bytes):
    assert mode == "non-blocking"
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, n_bytes, 0, os.SEEK_CUR)
    except OSError:
        raise PermissionError(13, "Permission denied") from None
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK="non-blocking", locking=locking)
sys.path.insert(0, {os.path.dirname(file_lock.__file__)!r})
from file_lock import lock_file
fd = os.open(sys.argv[1], os.O_RDWR)
os.lseek(fd, 3, os.SEEK_SET)
print(lock_file(fd), os.lseek(fd, 0, os.SEEK_CUR))
"""


@pytest.mark.parametrize("locked_byte", [None, 2**31 - 2])
def test_windows_locks_one_byte_behind_the_content(locked_byte, tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b"content")
    with open(path, "r+b") as file:
        if locked_byte is not None:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, locked_byte)
        done = subprocess.run(
            [sys.executable, "-c", WINDOWS, path], capture_output=True, text=True, check=True
        )
    assert done.stdout == f"{locked_byte is None} 3\n"
    assert path.read_bytes() == b"content"
