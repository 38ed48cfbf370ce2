"""The page of the server and the playground, in a real browser."""

from __future__ import annotations

import json
import re

import pytest

from running_server import RunningServer
from serving.browser import await_change, open_browser, open_page
from serving.visits import numbers, visits

TOKEN = "token-of-the-test"
ROWS, LABELS = visits(900)
CHARTS = ("first-chart", "second-chart", "memories-chart", "throughput-chart", "importances-chart")
SAMPLES = "document.getElementById('tile-samples')?.textContent ?? null"
ROWS_SHOWN = "document.getElementById('state').dataset.rows ?? null"
WEIGHTS = "document.getElementById('memories').dataset.weights ?? null"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(browser):
    with RunningServer("--target", "bought", token=TOKEN, env={"AMFOREST_TOKEN": TOKEN}) as running:
        running.client.learn(ROWS[:300], LABELS[:300])
        yield running


@pytest.fixture(scope="module")
def playground(browser):
    with RunningServer(command="playground") as running:
        yield running


def log_in(page):
    page.fill("#token", TOKEN)
    page.click("#token-form button")


def draws(page, name):
    page.wait_for_selector(f"#{name} .main-svg")
    return page.locator(f"#{name} .trace path, #{name} .bars path, #{name} .point path").count() > 0


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (400, "dark")])
def test_the_page_draws_all_charts_and_its_numbers_move_while_rows_are_learned(
    server, browser, width, scheme
):
    with open_page(browser, server.url, width, scheme) as page:
        log_in(page)
        shown = await_change(page, SAMPLES, None)
        learned = int(shown.replace(",", "")) + 300
        server.client.learn(ROWS[300:600], LABELS[300:600])
        while (n := int(shown.replace(",", ""))) != learned:  # it may show some of them first
            assert n < learned
            shown = await_change(page, SAMPLES, shown)
        assert all(draws(page, name) for name in CHARTS)


@pytest.mark.parametrize("width", [1200, 400])
def test_the_form_predicts_a_row_and_shows_what_each_column_contributes(server, browser, width):
    with open_page(browser, server.url, width) as page:
        log_in(page)
        page.fill("label:has-text('basket') input", "80")
        page.fill("label:has-text('page') input", "books")
        page.select_option("label:has-text('returning') select", "true")
        page.click("#row-form button")
        page.wait_for_selector("#answer table")
        row = {"basket": 80.0, "page": "books", "returning": True}
        (predicted,) = server.client.predict([row])["predictions"]
        (contributions,) = server.client.explain([row])["contributions"][0].values()
        assert page.inner_text("#answer .answer strong") == predicted == "yes"
        shown = page.locator("#answer table").nth(1).locator("tbody tr td:first-child")
        assert set(shown.all_inner_texts()[:12]) <= contributions.keys()
        assert shown.first.inner_text() == max(contributions, key=lambda k: abs(contributions[k]))


def test_the_form_predicts_a_number_with_its_interval(browser):
    rows, labels = numbers(300)
    with RunningServer("--target", "y") as server:
        server.client.learn(rows, labels)
        with open_page(browser, server.url, 1200) as page:
            page.fill("label:has-text('a') input", "0.5")
            page.click("#row-form button")
            page.wait_for_selector("#answer *")
            answer = server.client.predict([{"a": 0.5}])
            lower, upper = answer["intervals"][0]
            shown = page.inner_text("#answer")
            words = [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", shown)]
            # The number, the end of 90 %, and the ends.
            expected = [answer["predictions"][0], 90, lower, upper]
            assert words[:4] == pytest.approx(expected, rel=1e-3)
            assert page.locator("#answer tbody tr").count() == 2


def test_the_page_of_the_api_lists_the_paths(server, browser):
    with open_page(browser, f"{server.url}/docs", 1200) as page:
        page.wait_for_selector(".opblock")
        paths = page.locator(".opblock-summary-path").all_inner_texts()
        shown = {path.replace("\u200b", "") for path in paths}
        assert shown >= {"/predict", "/learn", "/label", "/explain", "/model", "/snapshot"}


def test_what_was_refused_is_shown_as_text_and_never_as_html(server, browser):
    evil = "<img src=x onerror=alert(1)>"
    answer = server.http.post(
        "/predict", json={"row": {"basket": evil}}, headers={"authorization": f"Bearer {TOKEN}"}
    )
    assert answer.status_code == 422
    with open_page(browser, server.url, 400) as page:
        log_in(page)
        page.wait_for_selector("#refused td")
        assert evil in page.inner_text("#refused")
        assert page.locator("#refused img").count() == 0


@pytest.mark.parametrize("width", [1200, 400])
def test_clicks_add_points_to_the_playground_in_every_view(playground, browser, width):
    with open_page(browser, playground.url, width) as page:
        rows = "200"  # the first points; a page that is slow never shows less
        page.wait_for_function(f"before => ({ROWS_SHOWN}) === before", arg=rows)
        for view in ("prediction", "partition", "depth"):
            page.click(f"[data-view={view}]")
            before = page.evaluate("document.getElementById('adaptive').toDataURL()")
            page.click("#adaptive", position={"x": 40, "y": 60})
            after = await_change(page, ROWS_SHOWN, rows)
            assert int(after) == int(rows) + 10
            rows = after
            assert page.evaluate("document.getElementById('adaptive').toDataURL()") != before
        assert all(draws(page, name) for name in ("losses", "memories"))


def test_rotating_the_concept_gives_weight_to_short_memories(playground, browser):
    with open_page(browser, playground.url, 1200) as page:
        page.wait_for_function(f"() => ({WEIGHTS}) !== null")
        rows = "200"
        for rotation in (0, 0, 180, 180):
            page.wait_for_function(f"before => ({ROWS_SHOWN}) === before", arg=rows)
            if rotation == 180 and int(rows) == 600:
                before = page.evaluate(WEIGHTS)
            page.fill("#rotation", str(rotation))
            page.click("#leap")
            rows = str(int(rows) + 200)
        page.wait_for_function(f"before => ({ROWS_SHOWN}) === before", arg=rows)
        names = page.locator("#memory option").all_text_contents()
        old, new = json.loads(before), json.loads(page.evaluate(WEIGHTS))
        short = [names.index(name) for name in ("60", "15")]
        assert sum(new[k] for k in short) > sum(old[k] for k in short)
