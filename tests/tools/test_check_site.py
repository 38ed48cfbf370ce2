"""The checks of the built site: each finds what it is for."""

import pytest

import amforest
from tools import check_site


@pytest.fixture
def site(tmp_path):
    names = [
        f"{module.__name__}.{name}"
        for module in check_site.public_modules()
        for name in module.__all__
    ]
    (tmp_path / "api.html").write_text("".join(f'<dt id="{name}">{name}</dt>' for name in names))
    (tmp_path / "index.html").write_text(
        '<h1 id="top">A</h1><a href="api.html#amforest.load">x</a>'
    )
    (tmp_path / "llms.txt").write_text("- [API](api.html)")
    (tmp_path / "site.css").write_text("h1 { background: url(data:image/png;base64,AA) }")
    return tmp_path


def problems(site, capsys):
    is_wrong = check_site.main(str(site))
    lines = capsys.readouterr().err.split("\n")
    assert is_wrong == bool(any(lines))
    return [line for line in lines if line]


def test_a_good_site_has_no_problems(site, capsys):
    assert problems(site, capsys) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="b.html">b</a>', "b.html does not exist"),
        ('<a href="../b.html">b</a>', "../b.html does not exist"),
        ('<img src="picture.png">', "picture.png does not exist"),
        ('<a href="#bottom">b</a>', "#bottom is no anchor of that page"),
        ('<a href="index.html#bottom">b</a>', "index.html#bottom is no anchor of that page"),
        ('<script src="https://cdn.org/x.js"></script>', "loads https://cdn.org/x.js"),
        ('<link rel="stylesheet" href="//cdn.org/x.css">', "loads //cdn.org/x.css"),
        ('<img srcset="https://cdn.org/x.png 2x">', "loads https://cdn.org/x.png"),
        ("<style>@import 'https://cdn.org/x.css'</style>", "@import 'https://cdn.org/x.css"),
        ('<p style="background: url(//cdn.org/x)">x</p>', "url(//cdn.org/x"),
    ],
)
def test_a_bad_element_is_a_problem(site, capsys, html, problem):
    page = site / "index.html"
    page.write_text(page.read_text() + html)
    (found,) = problems(site, capsys)
    assert found.startswith("index.html")
    assert found.endswith(problem)


@pytest.mark.parametrize("html", ['<a href="https://b.org/#x">b</a>', '<a href="mailto:a@b">b</a>'])
def test_a_link_to_elsewhere_is_no_problem(site, capsys, html):
    page = site / "index.html"
    page.write_text(page.read_text() + html)
    assert problems(site, capsys) == []


def test_a_font_from_elsewhere_is_a_problem(site, capsys):
    (site / "site.css").write_text('@font-face { src: url("https://cdn.org/f.woff") }')
    assert problems(site, capsys) == ['site.css loads url("https://cdn.org/f.woff']


def test_a_text_that_does_not_exist_is_a_problem(site, capsys):
    (site / "llms.txt").write_text("- [Guide](guide.md)")
    assert problems(site, capsys) == ["llms.txt: guide.md does not exist"]


def test_a_public_name_without_an_entry_is_a_problem(site, capsys):
    page = site / "api.html"
    page.write_text(page.read_text().replace('"amforest.AMFClassifier"', '"other"'))
    assert problems(site, capsys) == ["amforest.AMFClassifier is not in the API reference"]


def test_one_entry_is_enough_for_an_object_with_two_names(site, capsys):
    page = site / "api.html"
    page.write_text(page.read_text().replace('"amforest.model_io.Checkpoint"', '"other"'))
    assert problems(site, capsys) == []


def test_public_modules_are_those_without_underscore():
    names = {module.__name__ for module in check_site.public_modules()}
    assert {"amforest", "amforest.river", "amforest.plotting", "amforest.reference"} <= names
    assert amforest in check_site.public_modules()
    assert not any("._" in name for name in names)
