"""A download has the right checksum or leaves no file; errors say what to do."""

import hashlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

from amforest import datasets
from amforest.datasets import download

DATA = os.environ.get("AMFOREST_DATA")
TRUE_FILES = download.FILES
CAR = b"vhigh,vhigh,2,2,small,low,unacc\nlow,low,4,4,big,high,vgood\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def zipped(name, content):
    """Return an archive of one file."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


FILES = {
    "car": zipped("car.csv", CAR),
    "adult": zipped("adult.csv", b"nothing"),
    "bank": zipped("bank.csv", b"nothing either"),
}
CAR_ZIP = FILES["car"]


@contextmanager
def serving(answer):
    """Serve at a local address the response that a function writes to a request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.paths.append(self.path)
            answer(self)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.paths = []
        server.url = f"http://127.0.0.1:{server.server_port}/data"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def sends(content, *, length=None):
    """Return a handler that sends bytes, perhaps fewer than the length that it announces."""

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", str(length or len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


def sends_files(request):
    """Send the requested file."""
    sends(FILES[request.path.removeprefix("/data/").removesuffix(".csv.zip")])(request)


@pytest.fixture(autouse=True)
def small_files(monkeypatch, tmp_path):
    """Use small files instead of the real ones, an empty cache, and a URL without a server."""
    files = {stem: (len(file), sha256(file)) for stem, file in FILES.items()}
    monkeypatch.setattr(download, "FILES", files)
    monkeypatch.delenv("AMFOREST_DATA", raising=False)
    monkeypatch.setenv("AMFOREST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AMFOREST_DATA_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def serve(monkeypatch):
    """Return a context manager that runs a handler at the URL of downloads."""

    @contextmanager
    def serve(answer):
        with serving(answer) as server:
            monkeypatch.setenv("AMFOREST_DATA_URL", server.url)
            yield server

    return serve


def cached():
    return sorted(path.name for path in datasets.cache_folder().glob("*"))


@pytest.mark.parametrize("end", ["", "/"])
def test_loading_downloads_its_file_once(serve, monkeypatch, end):
    with serve(sends_files) as server:
        monkeypatch.setenv("AMFOREST_DATA_URL", server.url + end)
        for _ in range(2):
            assert datasets.load("car").classes == ("unacc", "vgood")
    assert server.paths == ["/data/car.csv.zip"]
    assert cached() == ["car.csv.zip"]


def test_fetching_downloads_the_missing_files(serve):
    with serve(sends_files) as server:
        datasets.load("car")
        assert not datasets.are_available()
        assert datasets.fetch() == datasets.cache_folder()
    assert datasets.are_available()
    assert server.paths == [f"/data/{stem}.csv.zip" for stem in ("car", "adult", "bank")]
    assert cached() == ["adult.csv.zip", "bank.csv.zip", "car.csv.zip"]
    assert datasets.fetch() == datasets.cache_folder()  # the server is closed
    assert datasets.load("car", download=False).X.shape == (2, 12)


def test_a_damaged_file_in_the_cache_is_replaced(serve):
    with serve(sends_files) as server:
        path = datasets.fetch() / "car.csv.zip"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(FileNotFoundError, match=r"car\.csv\.zip is missing or damaged"):
            datasets.load("car", download=False)
        assert len(datasets.load("car").y) == 2
    assert server.paths[3:] == ["/data/car.csv.zip"]


def test_files_downloaded_before_an_error_are_kept(serve):
    def lacks_bank(request):
        request.send_error(404) if "bank" in request.path else sends_files(request)

    with serve(lacks_bank), pytest.raises(FileNotFoundError, match=r"bank\.csv.*HTTP Error 404"):
        datasets.fetch()
    assert cached() == ["adult.csv.zip", "car.csv.zip"]


@pytest.mark.parametrize(
    ("tampered", "reason"),
    [
        (CAR_ZIP[:-1], r"it has \d+ of \d+ bytes"),
        (CAR_ZIP + b"!", r"it has more than \d+ bytes"),
        (bytes([CAR_ZIP[0] ^ 1]) + CAR_ZIP[1:], "it is another file: its SHA-256 is .* instead of"),
        (b"", r"it has 0 of \d+ bytes"),
    ],
)
def test_another_content_is_an_error_and_leaves_no_file(serve, tampered, reason):
    with serve(sends(tampered)), pytest.raises(FileNotFoundError, match=reason):
        datasets.load("car")
    assert cached() == []


def test_an_endless_response_is_cut_off(serve):
    def endless(request):
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(bytes(1 << 16))
        except OSError:  # the client has closed the connection
            pass

    with serve(endless), pytest.raises(FileNotFoundError, match="more than"):
        datasets.load("car")


def test_a_connection_that_breaks_is_an_error(serve):
    answer = sends(CAR_ZIP[:100], length=len(CAR_ZIP))
    with serve(answer), pytest.raises(FileNotFoundError, match=r"it has 100 of \d+ bytes"):
        datasets.load("car")
    assert cached() == []


def test_a_silent_server_times_out(serve, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    enough = threading.Event()
    with serve(lambda request: enough.wait(10)):
        with pytest.raises(FileNotFoundError, match="timed out"):
            datasets.load("car")
        enough.set()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense", "http://[", "ftp://127.0.0.1:9"])
def test_the_error_names_the_data_set_the_url_and_the_remedy(monkeypatch, url):
    monkeypatch.setenv("AMFOREST_DATA_URL", url)
    for get in (lambda: datasets.load("car"), datasets.fetch):
        with pytest.raises(FileNotFoundError) as caught:
            get()
        message = str(caught.value)
        assert message.startswith(f"cannot download car.csv.zip from {url}/car.csv.zip (")
        assert message.endswith("set AMFOREST_DATA to a folder that holds car.csv.zip")


def test_without_a_download_the_error_says_what_to_do():
    remedy = r"set AMFOREST_DATA to a folder that holds car\.csv\.zip, or allow the download"
    with pytest.raises(FileNotFoundError, match=remedy):
        datasets.load("car", download=False)
    assert not datasets.cache_folder().exists()


def test_a_cache_that_cannot_be_created_is_an_error_before_the_download(serve, tmp_path):
    (tmp_path / "cache").touch()
    with serve(sends_files) as server, pytest.raises(OSError, match=r"cache .*AMFOREST_CACHE"):
        datasets.load("car")
    assert server.paths == []


def test_nothing_is_downloaded_to_a_given_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("AMFOREST_DATA", str(tmp_path))
    assert datasets.fetch() == tmp_path
    with pytest.raises(FileNotFoundError, match=r"car\.csv\.zip does not exist"):
        datasets.load("car")
    assert not list(tmp_path.iterdir())


def test_environment_variables_set_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AMFOREST_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert datasets.cache_folder() == tmp_path / ".cache" / "amforest"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_folder() == tmp_path / "xdg" / "amforest"
    monkeypatch.setenv("AMFOREST_CACHE", str(tmp_path / "own"))
    assert datasets.cache_folder() == tmp_path / "own"


@pytest.mark.slow
def test_an_interrupted_download_leaves_no_file(serve):
    """The first bytes of a file arrive, then the user presses Ctrl-C."""
    started, finished = threading.Event(), threading.Event()

    def slow(request):
        sends(bytes(1 << 17), length=TRUE_FILES["adult"][0])(request)
        started.set()
        finished.wait(30)

    command = [sys.executable, "-c", "from amforest import datasets; datasets.fetch()"]
    with serve(slow):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert started.wait(60)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        finished.set()
    assert "KeyboardInterrupt" in errors
    assert cached() == []


@pytest.mark.parametrize("has_rich", [True, False])
def test_progress_is_shown_in_a_terminal(serve, monkeypatch, has_rich):
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(download, "find_spec", lambda name: None)
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal, serve(sends_files):
        monkeypatch.setattr(sys, "stderr", terminal)
        datasets.fetch()
        shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert "Downloading data" in shown
    if not has_rich:  # one count over all files
        percents = [int(n) for n in re.findall(r"(\d+) %", shown)]
        assert percents == sorted({0, *percents, 100})


def test_without_a_terminal_no_progress_is_shown(serve, capsys):
    with serve(sends_files):
        datasets.fetch()
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not DATA, reason="needs the UCI data sets")
def test_sizes_and_checksums_are_those_of_the_files():
    for stem, (n_bytes, checksum) in TRUE_FILES.items():
        content = (Path(DATA) / f"{stem}.csv.zip").read_bytes()
        assert (len(content), sha256(content)) == (n_bytes, checksum)


def test_every_data_set_has_a_checksum():
    stems = {"cardiotocography" if name == "cardio" else name for name in datasets.NAMES}
    assert set(TRUE_FILES) == stems
