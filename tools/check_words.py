"""Check the project's words, those of CONTRIBUTING.md: `python tools/check_words.py [FILE ...]`.

Users search the documentation with the words they know, so one thing has one name. Without
arguments all pages, modules and sources of the core are checked. A line may keep a word for a
reason that is given in `EXCEPTIONS`; an exception that no line needs is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# What must not be written, as a regular expression of words, and what to write instead.
BANNED = {
    r"forecast\w*": "predict, prediction",
    r"learnt|unlearnt": "learned",
    r"wish(es|ed|ing)?": "want, requested",
    r"(take|takes|took|taken|taking) apart": "parse, split",
    r"(put|puts|putting) together": "build, combine",
    r"gather(s|ed|ing)?": "collect, build",
    r"begun": "started",
    r"news": "what is new: rows, labels, points",
    r"intensit(y|ies)": "extension",
    r"whilst|whereby|whence|hither\w*|there(of|in|to|upon)|here(by|in)": "plain words",
    r"upon": "on",
    r"in the place of": "instead of",
    r"for ever": "forever, always",
    r"(leave|leaves|left|leaving) out": "drop, skip, omit",
    r"leaves? over": "residual, does not explain",
    r"learns? no more": "no longer learn",
    r"(tell|tells|told|telling)( \w+)? apart": "distinguish, identify",
    r"(go|goes|going|went) on learning": "continue to learn",
    r"teach(es|ing)?|taught": "train, give a label",
    r"by the letter": "exactly",
    r"some \d+": "about",
}  # fmt: skip

CHECKED = (
    "*.md", ".github/**/*.md", "docs/**/*.md",
    *(f"{folder}/**/*.{suffix}"
      for folder in ("src", "examples", "benchmarks", "experiments", "tools")
      for suffix in ("py", "pyi", "js", "css", "html", "md")),
    *(f"cpp/**/*.{suffix}" for suffix in ("hpp", "cpp")),
)  # fmt: skip


class Allowed(NamedTuple):
    """Lines of a file that may keep a word."""

    file: str  # a pattern of paths
    line: str  # a regular expression that is found in the line
    reason: str


EXCEPTIONS = (
    Allowed("CONTRIBUTING.md", r"not forecast", "the rule itself"),
    Allowed("tools/check_words.py", r"^    (r\"|Allowed)", "the rules themselves"),
    Allowed("src/amforest/export/onnx_*.py", r"\"Gather\"", "an operator of ONNX"),
)


class Finding(NamedTuple):
    """A word that must not be written."""

    file: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.word!r}: write {self.instead}"


def main(arguments: list[str]) -> int:
    """Print what is found; 1 if anything is."""
    files = [Path(name).resolve() for name in arguments] or sorted(checked_files())
    findings = list(chain.from_iterable(check(file) for file in files))
    print(*findings, sep="\n", end="\n" if findings else "")
    unused = [] if arguments else list(unused_exceptions(files))
    for exception in unused:
        print(f"No line needs the exception {exception}: remove it")
    return int(bool(findings or unused))


def checked_files() -> Iterator[Path]:
    """All files whose words are checked."""
    return chain.from_iterable(ROOT.glob(pattern) for pattern in CHECKED)


def check(file: Path) -> Iterator[Finding]:
    """Find words in a file that must not be written, in lines that are no exceptions."""
    name = file.relative_to(ROOT).as_posix()
    for found in _find(file):
        if not any(_allows(exception, name, found.text) for exception in EXCEPTIONS):
            yield Finding(name, found.line, found.word, found.instead)


def banned_words(text: str) -> Iterator[tuple[int, str, str]]:
    """Find the banned words of a text: where, which, and what to write instead."""
    for words, instead in _patterns():
        for found in words.finditer(text):
            yield found.start(), " ".join(found[0].split()), instead


def unused_exceptions(files: Iterable[Path]) -> Iterator[Allowed]:
    """Find exceptions that no banned word in any file needs."""
    needed = {
        exception
        for file in files
        for found in _find(file)
        for exception in EXCEPTIONS
        if _allows(exception, file.relative_to(ROOT).as_posix(), found.text)
    }
    return (exception for exception in EXCEPTIONS if exception not in needed)


class _Found(NamedTuple):
    """A banned word and its line."""

    line: int
    text: str
    word: str
    instead: str


@cache
def _find(file: Path) -> list[_Found]:
    text = file.read_text("utf-8")
    lines = text.splitlines()
    found = []
    for start, word, instead in banned_words(text):
        line = text.count("\n", 0, start)
        found.append(_Found(line + 1, lines[line], word, instead))
    return sorted(found)


def _allows(exception: Allowed, name: str, line: str) -> bool:
    return fnmatch(name, exception.file) and re.search(exception.line, line) is not None


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Underscores end words, as in `n_rows`; lines may end between the words of a phrase."""
    gap = r"\s+(?:(?:#|//|\*|>)\s+)?"
    return [
        (re.compile(rf"(?<![^\W_])(?:{words.replace(' ', gap)})(?![^\W_])", re.IGNORECASE), instead)
        for words, instead in BANNED.items()
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
