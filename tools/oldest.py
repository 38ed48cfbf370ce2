"""Print the lowest version of each requirement of the project, as constraints.

python tools/oldest.py build        of what builds it
python tools/oldest.py check FILE   fail if a file of pins has a later version of one than its
                                    lower bound: that bound would never be tested
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^]]*\])?>=(?P<version>[\w.]+)")


def lower_bounds(requirements: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the lowest version of each requirement but those of extras.

    Raises
    ------
    ValueError
        If another one has no lower bound.
    """
    for requirement in requirements:
        if requirement.startswith("amforest["):
            continue
        found = REQUIREMENT.match(requirement)
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound; expected NAME>=VERSION")
        yield found["name"], found["version"]


def untested(pins: str, requirements: list[str]) -> Iterator[str]:
    """Yield a line for each requirement whose pin is not its lower bound."""
    pinned = dict(line.split("==", 1) for line in pins.split() if "==" in line)
    for name, version in lower_bounds(requirements):
        if name in pinned and _without_zeros(pinned[name]) != _without_zeros(version):
            yield f"{name}>={version} is not tested: the other requirements need {pinned[name]}"


def _without_zeros(version: str) -> str:
    """Return a version without zeros at its end: 3.0 is 3."""
    return re.sub(r"(\.0)+$", "", version)


def main() -> None:
    """Parse the command line, and print or check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    commands.add_parser("check").add_argument("file", type=Path)
    given = parser.parse_args()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if given.command == "build":
        for name, version in lower_bounds(settings["build-system"]["requires"]):
            print(f"{name}=={version}")
        return
    project = settings["project"]
    extras = project["optional-dependencies"]
    tested = {extra for extra in extras if extra not in ("bench", "recipes")}
    requirements = project["dependencies"] + [line for extra in tested for line in extras[extra]]
    if lines := list(untested(given.file.read_text(encoding="utf-8"), requirements)):
        raise SystemExit("\n".join(sorted(lines)))


if __name__ == "__main__":
    main()
