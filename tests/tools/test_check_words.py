"""The words that must not be written are found, and the project does not contain them."""

from __future__ import annotations

import pytest
from tools.check_words import Allowed, banned_words

from tools import check_words


def found(text):
    return [word for _, word, _ in banned_words(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A forecast of what was Learnt", ["forecast", "Learnt"]),
        ("n_forecasts = 3", ["forecasts"]),
        ("the file is taken\n    # apart by rows", ["taken # apart"]),
        ("predictions of learned rows, a newspaper, swish", []),
    ],
)
def test_banned_words_are_found_as_words(text, words):
    assert found(text) == words


def test_a_finding_names_the_line_and_what_to_write(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("A page.\nIt forecasts.\n")
    assert check_words.main([str(page)]) == 1
    assert capsys.readouterr().out == "page.md:2: 'forecasts': write predict, prediction\n"


def test_an_exception_allows_a_line_and_must_be_needed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("A quoted “forecast”.\n")
    needed = Allowed("page.md", "quoted", "a quotation")
    monkeypatch.setattr(check_words, "EXCEPTIONS", (needed,))
    assert check_words.main([]) == 0
    monkeypatch.setattr(check_words, "EXCEPTIONS", (needed, Allowed("other.md", "x", "none")))
    assert check_words.main([]) == 1
    assert "other.md" in capsys.readouterr().out


def test_pages_modules_and_the_core_are_checked():
    names = {file.relative_to(check_words.ROOT).as_posix() for file in check_words.checked_files()}
    assert names >= {
        "README.md", "CHANGELOG.md", "docs/guide.md", "src/amforest/classifier.py",
        "src/amforest/_core.pyi", "cpp/include/amforest/tree.hpp", "experiments/paper/page.html",
    }  # fmt: skip


def test_the_project_uses_its_words(capsys):
    assert check_words.main([]) == 0, capsys.readouterr().out
