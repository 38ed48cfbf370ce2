"""The real server in a process of its own, on a free port of this machine."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import httpx

from amforest.serving import Client

# The processes are forked from one that has imported everything: that takes seconds.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "amforest.cli.app",
        "amforest.cli.serve",
        "amforest.cli.consume",
        "amforest.serving.playground",
        "amforest.serving.server",
        "amforest.serving.brokers.redis_broker",
        "amforest.serving.brokers.mqtt_broker",
        "pyarrow.ipc",
    ]
)
START_SECONDS = 120


def run_command(command: str, options: list[str], env: dict[str, str], *files: str) -> None:
    """Run the command in this process, with files as its outputs."""
    for number, path in enumerate(files, 1):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    os.environ.update(env)
    from amforest.cli.app import app

    app([command, "--port", "0", *options])


class RunningServer:
    """`amforest serve`, or another command, with some options; a context that ends it.

    Attributes
    ----------
    url : str
    http : httpx.Client
    client : amforest.serving.Client
    """

    def __init__(
        self,
        *options: Any,
        command: str = "serve",
        token: str | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        output, errors = (Path(self._folder.name) / name for name in ("output", "errors"))
        self._errors = errors
        arguments = (command, list(map(str, options)), env or {}, str(output), str(errors))
        self.process = FORKS.Process(target=run_command, args=arguments)
        self.process.start()
        try:
            self._await_line(output)
        except BaseException:
            self.process.kill()
            self._folder.cleanup()
            raise
        first = output.read_text(encoding="utf-8").splitlines()[0]
        assert re.fullmatch(r"Serving on http://127\.0\.0\.1:\d+", first), first
        self.url = first.removeprefix("Serving on ")
        self.http = httpx.Client(base_url=self.url, timeout=120)
        self.client = Client(self.url, token, timeout=120)

    def _await_line(self, output: Path) -> None:
        end = time.monotonic() + START_SECONDS
        while not (output.exists() and output.read_bytes().endswith(b"\n")):
            assert self.process.exitcode is None, self.errors()
            assert time.monotonic() < end, self.errors()
            time.sleep(0.005)

    def errors(self) -> str:
        """Return what the process has written to its standard error."""
        return " ".join(self._errors.read_text(encoding="utf-8").split())

    def post(self, path: str, body: Any, **how: Any) -> httpx.Response:
        """Send JSON."""
        return self.http.post(path, json=body, **how)

    def kill(self) -> None:
        """Kill it: nothing can be saved any more."""
        self.process.kill()
        self._close()

    def terminate(self) -> int:
        """Send SIGTERM, and return the exit status."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGTERM)
        self._close()
        assert self.process.exitcode is not None
        return self.process.exitcode

    def memory(self) -> int:
        """Return the bytes of memory that the process has."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _close(self) -> None:
        self.process.join(120)
        self.http.close()
        self.client.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.exitcode is None:
            self.kill()
