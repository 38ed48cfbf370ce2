"""Pipes are read as rows arrive, files at constant memory; both can be interrupted and closed."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import amforest
from amforest.reading import StreamError, open_stream

# Imports amforest.reading without the estimators: the tests start many processes.
ALONE = f"""
import sys, types
sys.modules["amforest"] = types.ModuleType("amforest")
sys.modules["amforest"].__path__ = [{os.path.dirname(amforest.__file__)!r}]
"""
READ_STDIN = """
from amforest.reading import StreamError, open_stream
try:
    stream = open_stream("-", format=sys.argv[1])
    for batch in stream:
        print(batch.file, batch.table.to_pylist(), batch.lines.tolist(), flush=True)
    print(stream.schema, stream.bytes_read, stream.bytes_total)
except StreamError as error:
    print(error)
"""


def run(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", ALONE + code, *map(str, arguments)],
        capture_output=True,
        timeout=60,
        check=True,
        **options,
    ).stdout.decode()


def open_pipe(code):
    """Run code in another process; return it and the descriptor of its output."""
    read, write = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=write)
    os.close(write)
    return process, read


def test_each_row_of_a_slow_pipe_arrives_within_a_second():
    code = """
import time
print("written,k", flush=True)
for k in range(5):
    print(f"{time.time()},{k}", end="", flush=True)
    time.sleep(0.15)
    print(flush=True)  # only now the row is complete
    time.sleep(0.25)
print("1e9,5", end="")
"""
    writer, pipe = open_pipe(code)
    with writer, open_stream(pipe) as stream:
        assert stream.bytes_total is None
        batches = [(time.time(), batch) for batch in stream]
    os.close(pipe)
    assert [len(batch) for _, batch in batches] == [1] * 6
    for arrived, batch in batches[:-1]:
        assert 0.1 < arrived - batch.table["written"][0].as_py() < 1.2
    assert [batch.table["k"][0].as_py() for _, batch in batches] == [0, 1, 2, 3, 4, 5]
    assert [batch.lines.tolist() for _, batch in batches] == [[k] for k in range(2, 8)]


def test_a_fast_pipe_is_read_in_large_blocks():
    code = "import sys; sys.stdout.write('x,y\\n' + 1_000_000 * '1.5,red\\n')"
    writer, pipe = open_pipe(code)
    with writer, open_stream(pipe) as stream:
        sizes = [len(batch) for batch in stream]
    os.close(pipe)
    assert sum(sizes) == 1_000_000
    assert len(sizes) < 60  # 122 times what the pipe holds


@pytest.mark.parametrize("is_nonblocking", [False, True])
def test_a_pipe_may_pause_before_its_first_row_and_within_a_line(is_nonblocking):
    read, write = os.pipe()
    os.set_blocking(read, not is_nonblocking)

    def feed():
        for piece in (b"x,", b"y\r", b"\n1,", b'"a\n', b'b"\n', b"2,c"):
            os.write(write, piece)
            time.sleep(0.05)
        os.close(write)

    thread = threading.Thread(target=feed)
    thread.start()
    with open_stream(read) as stream:
        rows = [row for batch in stream for row in batch.table.to_pylist()]
    thread.join()
    os.close(read)
    assert rows == [{"x": 1.0, "y": "a\nb"}, {"x": 2.0, "y": "c"}]


def test_a_named_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=[b"x\n1\n2\n"])
    thread.start()
    with open_stream(path) as stream:
        assert [x for batch in stream for x in batch.table["x"].to_pylist()] == [1.0, 2.0]
    thread.join()


# The standard input


def test_the_standard_input_is_csv_by_default():
    data = b"x,y\n1,a\n2,b\n"
    out = "<stdin> [{'x': 1.0, 'y': 'a'}, {'x': 2.0, 'y': 'b'}] [2, 3]\n"
    out += "{'x': 'number', 'y': 'category'} 12 None\n"
    assert run(READ_STDIN, "csv", input=data) == out
    assert "'x': 5.0" in run(READ_STDIN, "ndjson", input=b'{"x": 5}')
    assert run(READ_STDIN, "csv", input=b"") == "<stdin> is empty\n"


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_streams_and_files_are_read_from_pipes(new):
    table = pa.table({"x": [1, 2], "y": pa.array(["a", "b"]).dictionary_encode()})
    buffer = pa.BufferOutputStream()
    with new(buffer, table.schema) as writer:
        writer.write_table(table)
    out = run(READ_STDIN, "arrow", input=buffer.getvalue().to_pybytes())
    assert out.startswith("<stdin> [{'x': 1.0, 'y': 'a'}, {'x': 2.0, 'y': 'b'}] [1, 2]\n")


def test_parquet_cannot_be_read_from_a_pipe(tmp_path):
    pyarrow.parquet.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    assert run(READ_STDIN, "parquet", input=data) == "<stdin>: Parquet cannot be read from a pipe\n"


def test_after_ctrl_c_n_rows_counts_the_rows_that_were_yielded():
    code = """
from amforest.reading import open_stream
n_rows = 0
try:
    stream = open_stream("-")
    for batch in stream:
        n_rows += len(batch)
        print("ready", flush=True)
except KeyboardInterrupt:
    print(n_rows, stream.n_rows)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", ALONE + code], **pipes) as process:
        process.stdin.write(b"x\n1\n2\n3")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"2 2\n"
        process.stdin.close()
        assert process.wait(10) == 0


# Files


def test_a_file_that_grows_is_followed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,a\n")

    def grow():
        for text in ("2,", "b\n3,c\n", "4,d"):
            time.sleep(0.15)
            with path.open("a") as file:
                file.write(text)

    thread = threading.Thread(target=grow)
    thread.start()
    with open_stream(path, follow=True) as stream:
        assert stream.bytes_total is None
        rows = []
        while len(rows) < 3:
            rows += next(stream).table["x"].to_pylist()
    thread.join()
    assert rows == [1.0, 2.0, 3.0]
    with pytest.raises(StreamError, match="follow needs a single file of CSV or JSON"):
        open_stream([path, path], follow=True)


def test_files_are_closed_at_the_end_on_exit_and_after_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + 9 * "1\n")
    pyarrow.parquet.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    opened = set(os.listdir("/dev/fd"))
    list(open_stream([tmp_path / "t.csv", tmp_path / "t.parquet"]))
    with open_stream(tmp_path / "t.csv", block_bytes=2) as stream:
        next(stream)
    with pytest.raises(StreamError):
        open_stream(tmp_path / "t.csv", target="y")
    assert set(os.listdir("/dev/fd")) <= opened


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet"])
def test_memory_does_not_grow_with_the_file(name, tmp_path):
    numbers = np.random.default_rng(0).normal(size=(5_000, 8)).round(6)
    path = tmp_path / name
    if name == "t.parquet":
        table = pa.table({f"c{j}": np.tile(numbers[:, j], 200) for j in range(8)})
        pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False)
    else:
        names = [f"c{j}" for j in range(8)]
        if name == "t.csv":
            header = ",".join(names) + "\n"
            rows = "".join(",".join(map(str, row)) + "\n" for row in numbers.tolist())
        else:
            header = ""
            quoted = [[f'"{n}":{x}' for n, x in zip(names, row, strict=True)] for row in numbers]
            rows = "".join("{" + ",".join(row) + "}\n" for row in quoted)
        with path.open("w") as file:
            file.write(header)
            for _ in range(40_000_000 // len(rows)):
                file.write(rows)
    code = """
import resource
from amforest.reading import open_stream
stream = open_stream(sys.argv[1], block_bytes=2**20)
next(stream)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
n_rows = sum(map(len, stream))
print(stream.bytes_read, n_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    n_bytes, n_rows, growth = map(int, run(code, path).split())
    assert n_bytes == path.stat().st_size > 25_000_000
    assert n_rows > 150_000
    assert growth < 15_000  # kB


def test_without_pyarrow_the_error_says_what_to_install():
    code = """
sys.modules["pyarrow"] = None
try:
    import amforest.reading
except ImportError as error:
    print(error)
"""
    assert run(code) == "amforest.reading needs pyarrow: pip install 'amforest[cli]'\n"
