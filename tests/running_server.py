"""The real server in a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import httpx

from amforest.serving import Client


class RunningServer:
    """`amforest serve` with some options; a context that ends it.

    Attributes
    ----------
    url : str
    http : httpx.Client
    client : amforest.serving.Client
    """

    def __init__(self, *options: Any, token: str | None = None, env: dict[str, str] | None = None):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "amforest", "serve", "--port", "0", *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | (env or {}),
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline().decode()
        assert first.startswith("Serving on http://"), self.errors()
        self.url = first.removeprefix("Serving on ").strip()
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self.client = Client(self.url, token)

    def errors(self) -> str:
        """Return what the process has written to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode()

    def post(self, path: str, body: Any, **how: Any) -> httpx.Response:
        """Send JSON."""
        return self.http.post(path, json=body, **how)

    def kill(self) -> None:
        """Kill it: nothing can be saved any more."""
        self.process.kill()
        self._close()

    def terminate(self) -> int:
        """Send SIGTERM, and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self._close()
        return status

    def memory(self) -> int:
        """Return the bytes of memory that the process has."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _close(self) -> None:
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.http.close()
        self.client.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()
        elif not self._errors.closed:
            self._close()
