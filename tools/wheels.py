"""Build the sdist and a wheel from it, and test the wheel outside the checkout.

    python tools/wheels.py build            an sdist and a wheel, into dist/
    python tools/wheels.py test WHEEL       all tests with the wheel in an empty environment
    python tools/wheels.py test WHEEL --quick --python python3.13
                                            the tests that cibuildwheel runs, with another Python;
                                            options that are not listed here go to pytest

Everything but `dist/` is in temporary folders, in which nothing of the checkout can be imported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MOST_BYTES = 2_000_000  # of a wheel
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


class WheelError(Exception):
    """A file is not what it should be."""


def build() -> Path:
    """Build an sdist from the checkout and a wheel from the sdist; return the wheel."""
    before = {path: path.stat().st_mtime_ns for path in DIST.glob("*")}
    run([sys.executable, "-m", "build", "--outdir", DIST, ROOT])
    new = [path for path in DIST.glob("*") if before.get(path) != path.stat().st_mtime_ns]
    (sdist,) = (path for path in new if path.name.endswith(".tar.gz"))
    (wheel,) = (path for path in new if path.suffix == ".whl")
    check(sdist, wheel)
    return wheel


def check(sdist: Path, wheel: Path) -> None:
    """Check what is in both files, and the size of the wheel."""
    with tarfile.open(sdist) as archive:
        top = sdist.name.removesuffix(".tar.gz")
        about = archive.extractfile(f"{top}/PKG-INFO")
        version = _version_of(b"" if about is None else about.read())
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        data = f"amforest-{version}.dist-info"
        if f"{data}/METADATA" not in names:
            raise WheelError(f"{wheel.name} has another version than {sdist.name}")
    others = [name for name in names if name.split("/")[0] not in ("amforest", data)]
    cores = [name for name in names if name.startswith("amforest/_core.") and name[-1] in "od"]
    size = wheel.stat().st_size
    if others:
        raise WheelError(f"{wheel.name} has files that are not the package's: {others[:5]}")
    if len(cores) != 1:
        raise WheelError(f"{wheel.name} has {len(cores)} compiled cores, not one")
    if f"{data}/licenses/LICENSE" not in names or "amforest/py.typed" not in names:
        raise WheelError(f"{wheel.name} lacks its licence or py.typed")
    if size >= MOST_BYTES:
        raise WheelError(f"{wheel.name} has {size:,} bytes; it must have less than {MOST_BYTES:,}")
    print(f"{sdist.name}: {sdist.stat().st_size:,} bytes")
    print(f"{wheel.name}: {size:,} bytes, {len(names)} files, the core as {cores[0]}")


def test(wheel: Path, python: str, *, quick: bool, arguments: Sequence[str]) -> None:
    """Install a wheel into an empty environment, and run tests in a folder with them alone."""
    wanted = SETTINGS["cibuildwheel"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([python, "-m", "venv", folder / "venv"])
        commands = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        extra = wanted["test-requires"] if quick else []
        package = f"{wheel.resolve()}{'' if quick else '[test]'}"
        run([commands / "python", "-m", "pip", "install", "--quiet", package, *extra])
        for source in wanted["test-sources"]:
            _copy(ROOT / source, folder / source)
        tests = wanted["test-command"].split() if quick else ["pytest", "-n", "auto", "tests"]
        if not quick:
            tests += ["-m", "not slow"]
        environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
        run([commands / tests[0], *tests[1:], *arguments], cwd=folder, env=environment)


def run(
    command: Iterable[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None
) -> None:
    """Run a command, which must succeed."""
    done = subprocess.run([str(part) for part in command], check=False, cwd=cwd, env=env)
    if done.returncode:
        raise SystemExit(done.returncode)


def _version_of(metadata: bytes) -> str:
    version = message_from_bytes(metadata)["Version"]
    if version is None:
        raise WheelError("the sdist has no version")
    return str(version)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def main() -> None:
    """Parse the command line, and do it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="an sdist, and a wheel from it")
    tester = commands.add_parser("test", help="a wheel, in an empty environment")
    tester.add_argument("wheel", type=Path)
    tester.add_argument("--python", default=sys.executable, help="that runs the tests")
    tester.add_argument("--quick", action="store_true", help="the tests that cibuildwheel runs")
    given, arguments = parser.parse_known_args()
    if arguments and given.command == "build":
        parser.error(f"unrecognized arguments: {' '.join(arguments)}")
    try:
        if given.command == "build":
            build()
        else:
            test(given.wheel, given.python, quick=given.quick, arguments=arguments)
    except WheelError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
