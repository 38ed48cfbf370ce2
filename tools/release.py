"""Tag a release: `python tools/release.py 0.2.0`.

The version of a build comes from the tag, so a release is a tag on a commit that passed the tests.
This checks what must hold before, runs the tests, sets the tag with the notes from CHANGELOG.md,
and prints what to push. It pushes nothing. Pushing the tag starts `.github/workflows/release.yml`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+")
BRANCH = "main"


class ReleaseError(Exception):
    """Something that must hold before a release does not."""


def main(arguments: list[str] | None = None) -> int:
    """Check, test and tag; 1 if the release is refused."""
    options = _parser().parse_args(arguments)
    try:
        notes = check(options.root, options.version, date.today())
        if not options.skip_tests:
            _test(options.root, options.test_command)
            _check_clean(options.root)
        if options.dry_run:
            print(f"Version {options.version} can be released. Its notes:\n\n{notes}")
            return 0
        _git(options.root, "tag", "--annotate", "--cleanup=verbatim", "--file=-",
             f"v{options.version}", text=f"amforest {options.version}\n\n{notes}\n")  # fmt: skip
    except ReleaseError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    print(f"Tagged v{options.version}. To publish it:")
    print(f"    git push --atomic origin {BRANCH} v{options.version}")
    print(f"To take it back: git tag --delete v{options.version}")
    return 0


def check(root: Path, version: str, today: date) -> str:
    """Return the notes of a version that can be released from the tree in `root`."""
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"the version is {version!r}: give three numbers, as in 0.2.0")
    branch = _git(root, "branch", "--show-current")
    if branch != BRANCH:
        raise ReleaseError(f"the branch is {branch or 'detached'}: switch to {BRANCH}")
    _check_clean(root)
    _check_is_new(root, version)
    _check_citation(root, version)
    return _notes(root, version, today)


def _check_clean(root: Path) -> None:
    """Refuse changes that are not committed, and files that git does not know."""
    changed = _git(root, "status", "--porcelain")
    if changed:
        raise ReleaseError(f"the tree is dirty: commit or remove\n{changed}")


def _check_is_new(root: Path, version: str) -> None:
    """Refuse a version that is released already, or older than one that is."""
    tags = [tag.removeprefix("v") for tag in _git(root, "tag", "--list", "v*").split()]
    if version in tags:
        raise ReleaseError(f"the tag v{version} exists: choose the next version")
    released = [tag for tag in tags if VERSION.fullmatch(tag)]
    newest = max(released, key=_numbers, default=None)
    if newest is not None and _numbers(version) < _numbers(newest):
        raise ReleaseError(f"version {newest} is released already: {version} is older")


def _check_citation(root: Path, version: str) -> None:
    """Refuse a CITATION.cff of another version."""
    found = re.search(r"^version: (.*)$", (root / "CITATION.cff").read_text("utf-8"), re.M)
    if found is None or found[1].strip("\"' ") != version:
        raise ReleaseError(f"CITATION.cff has no line 'version: {version}': set and commit it")


def _notes(root: Path, version: str, today: date) -> str:
    """Return the section of CHANGELOG.md on this version, which names the day of the release."""
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.M)[1:]
    heading = re.compile(rf"{re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)\n")
    for section in sections:
        if (found := heading.match(section)) is None:
            continue
        if found[1] != today.isoformat():
            raise ReleaseError(f"CHANGELOG.md dates {version} {found[1]}, and today is {today}")
        if notes := section[found.end() :].strip():
            return notes
        raise ReleaseError(f"the section on {version} in CHANGELOG.md is empty")
    raise ReleaseError(f"CHANGELOG.md has no section '## {version} ({today})'")


def _test(root: Path, command: str) -> None:
    """Run the tests on the tree that is to be tagged."""
    print(f"Running {command} …", flush=True)
    result = subprocess.run(command, cwd=root, shell=True, check=False)
    if result.returncode != 0:
        raise ReleaseError(f"{command} failed with exit code {result.returncode}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _git(root: Path, *arguments: str, text: str | None = None) -> str:
    """Run git in `root`; its output without the spaces around."""
    result = subprocess.run(
        ["git", *arguments], cwd=root, input=text, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ReleaseError(f"git {arguments[0]} failed: {result.stderr.strip()}")
    return result.stdout.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Check, test and tag a release.")
    parser.add_argument("version", help="the version to release, as 0.2.0")
    parser.add_argument("--skip-tests", action="store_true", help="do not run the tests")
    parser.add_argument("--dry-run", action="store_true", help="set no tag, print the notes")
    parser.add_argument(
        "--test-command", default="make test", help="what tests the tree (default: %(default)s)"
    )
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).parents[1], help=argparse.SUPPRESS
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
