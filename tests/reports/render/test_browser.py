"""The HTML page in a real browser: it draws everything, asks nobody for anything, and answers to mouse and keyboard."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from reports.blocks import DASH

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
LOOKS = [(390, "light"), (820, "dark"), (1440, "light")]
MINUS = "\N{MINUS SIGN}"

on_a_desk = pytest.mark.parametrize("page", [(1440, "light")], indirect=True)
on_a_phone = pytest.mark.parametrize("page", [(390, "light")], indirect=True)


def figures(page: Page) -> Locator:
    """The figures as the window's width has them."""
    return page.locator("figure.chart svg:visible")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("No browser: the program chromium isn't found")
    with sync_playwright() as playwright:
        # As root, and where users can't make namespaces, Chromium can't have its sandbox.
        yield playwright.chromium.launch(executable_path=program, chromium_sandbox=False)


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What happens in any window that mustn't."""
    return []


@pytest.fixture(scope="module", params=LOOKS, ids=lambda look: f"{look[0]}-{look[1]}")
def page(browser, whole, complaints, tmp_path_factory, request) -> Iterator[Page]:
    """The page in a window of some width, with a light or a dark ground; tests leave it as they find it."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(whole.page, encoding="utf-8")
    width, scheme = request.param
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: complaints.append(request.url) if request.url != file.as_uri() else None)
    page.goto(file.as_uri())
    yield page
    page.close()


def test_the_page_has_every_figure_once_within_its_width_and_asks_nobody_for_anything(page, complaints):
    width = page.viewport_size["width"]
    assert figures(page).count() == page.locator("figure.chart").count() > 3
    for figure in figures(page).all():
        box = figure.locator("xpath=..").bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # A narrow window has drawings of its own, and where there is room the contents are open beside the text.
    assert (page.locator("figure.chart .narrow svg:visible").count() > 0) == (width == 390)
    assert (page.locator("nav details").get_attribute("open") is not None) == (width == 1440)
    assert complaints == []


def test_the_text_of_figures_is_as_large_as_can_be_read_and_stays_within_them(page):
    for figure in figures(page).all():
        boxes = figure.locator("text").evaluate_all(
            """texts => texts.map(text => {
                const { a, b } = text.getScreenCTM(), { left, right } = text.getBoundingClientRect();
                return [left, right, parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b), text.textContent];
            })"""
        )
        box = figure.bounding_box()
        for left, right, size, text in boxes:
            assert size > 7.5, text
            assert box["x"] - 2 <= left <= right <= box["x"] + box["width"] + 2, text


def speeds(page: Page) -> Locator:
    """The table of the first page."""
    tables = page.locator("table").filter(has=page.get_by_role("button", name="relative", exact=True))
    return tables.first


def column(table: Locator, number: int) -> list[str]:
    return table.locator("tbody tr").evaluate_all(f"rows => rows.map(row => row.cells[{number}].textContent)")


@on_a_desk
def test_a_click_on_a_header_sorts_and_a_third_one_restores_the_order(page):
    table = speeds(page)
    header = table.locator("thead th").filter(has_text="samples/s")
    place = header.evaluate("cell => cell.cellIndex")
    before = column(table, place)
    header.locator("button").click()
    upwards = column(table, place)
    known = [text for text in upwards if text != DASH]
    assert known == sorted(known, key=lambda text: float(text.replace(",", "")))
    assert header.get_attribute("aria-sort") == "ascending"
    header.locator("button").press("Enter")
    assert column(table, place) == [*reversed(known), *upwards[len(known) :]]
    assert header.get_attribute("aria-sort") == "descending"
    header.locator("button").click()
    assert column(table, place) == before
    assert header.get_attribute("aria-sort") is None


@on_a_desk
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["12†", "2", "1,000", DASH], ["2", "12†", "1,000", DASH]),
        (["1.0e-5", DASH, "2.2e-7", "not finite"], ["2.2e-7", "1.0e-5", "not finite", DASH]),
        (["10.3 to 11.6", "9.5 to 9.9", ""], ["9.5 to 9.9", "10.3 to 11.6", ""]),
        (["0.04", f"{MINUS}0.10", "< 0.001"], [f"{MINUS}0.10", "< 0.001", "0.04"]),
        (["16 %", "9 %"], ["9 %", "16 %"]),
        (["ring 10", "ring 9", "base"], ["base", "ring 9", "ring 10"]),
    ],
)
def test_what_stands_in_tables_is_sorted_as_it_is_meant(page, given, expected):
    rows = "".join(f"<tr><td>{text.replace('<', '&lt;')}</td></tr>" for text in given)
    table = f"<table><thead><tr><th><button>x</button></th></tr></thead><tbody>{rows}</tbody></table>"
    sort = """table => {
        const made = new DOMParser().parseFromString(table, "text/html").querySelector("table");
        makeSortable(made);
        made.querySelector("button").click();
        return [...made.tBodies[0].rows].map(row => row.cells[0].textContent);
    }"""
    assert page.evaluate(sort, table) == expected


@on_a_desk
def test_a_folded_table_is_opened_and_shows_the_rows_that_hold_what_is_sought(page):
    table = page.locator("details.data").filter(has_text="endings (").first
    rows = table.locator("tbody tr:visible")
    expect(rows).to_have_count(0)
    table.locator("summary").press("Enter")
    table.get_by_label("Search endings").fill("Amber_Broken")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("amber_broken")
    table.get_by_label("Search endings").fill("")
    assert rows.count() > 1
    table.locator("summary").press("Enter")


@on_a_phone
def test_wide_figures_and_tables_scroll_in_their_own_boxes_and_the_first_key_leads_past_the_contents(page):
    for box in (page.locator("figure.chart .scroll").first, speeds(page).locator("xpath=..")):
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


@on_a_desk
def test_a_median_tells_its_numbers_under_the_mouse(page):
    figures(page).first.locator("[data-tip*='samples/s, median'] path").first.hover()
    expect(page.locator("#tooltip")).to_contain_text("launches (n)")
    page.locator("h1").hover()
    expect(page.locator("#tooltip")).to_be_hidden()


@on_a_desk
def test_a_strategy_that_is_chosen_by_a_key_or_a_click_is_picked_out_until_it_is_chosen_again(page, complaints):
    figure = page.locator("figure.chart").first
    name, faded = figure.locator("[data-pick=amber_ring]:visible").first, figure.locator(".faded:visible")
    own, other = (figure.locator(f"[data-key={key}]:visible").first for key in ("amber_ring", "amber_single"))
    for choose in (lambda: name.press("Enter"), name.click, lambda: name.press(" ")):
        choose()
        expect(name).to_have_attribute("aria-pressed", "true")
        page.locator("h1").hover()
        expect(other).to_have_class("faded")
        assert own.get_attribute("class") in (None, "")
        name.press("Escape")
        page.locator("h1").hover()
        expect(name).to_have_attribute("aria-pressed", "false")
        expect(faded).to_have_count(0)
    assert complaints == []
