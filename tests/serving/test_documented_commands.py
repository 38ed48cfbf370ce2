"""The commands of docs/serving.md against the real server."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from running_server import RunningServer

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^\$ (curl (?:[^\n]|\n(?=    |\t))*)\n((?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)


def documented():
    """Yield each curl command of the page, and what it is said to print."""
    text = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        yield from COMMAND.findall(block)


def as_pattern(shown):
    """Return a pattern for a shown output, where … stands for anything."""
    return ".*".join(re.escape(part) for part in shown.strip().split("…"))


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_print_what_it_says(tmp_path):
    commands = list(documented())
    assert len(commands) >= 8
    id_of_last = ""
    with RunningServer("--target", "bought", "--checkpoint", tmp_path / "saved") as server:
        for command, shown in commands:
            line = command.replace("http://localhost:8000", server.url)
            line = line.replace("localhost:8000", server.url).replace('"ID"', f'"{id_of_last}"')
            done = subprocess.run(
                ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=True
            )
            assert re.match(as_pattern(shown), done.stdout.strip(), re.DOTALL), done.stdout
            if found := re.search(r'"ids":\["([^"]+)"', done.stdout):
                id_of_last = found[1]
    assert (tmp_path / "model.amf").stat().st_size > 1000


def test_the_image_has_a_user_a_health_check_and_the_command():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER amforest$", lines, re.MULTILINE)
    assert "HEALTHCHECK" in lines
    assert '["amforest", "serve", "--host", "0.0.0.0"' in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_of_systemd_is_valid():
    unit = ROOT / "deploy/amforest.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "amforest.service" not in done.stderr, done.stderr
