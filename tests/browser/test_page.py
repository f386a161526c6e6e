"""The page in Chromium: what a reader sees and does. Skipped where there is no Chromium."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

CONTRAST = """
const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const light = ([r, g, b]) => { const f = [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
const behind = (element) => { for (let e = element; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
const bad = [];
for (const element of document.body.querySelectorAll("*:not(script):not(style):not(svg *)")) {
  const own = Array.from(element.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest(".matrix td")) continue;
  const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) bad.push(element.className + " " + element.textContent.trim().slice(0, 30) + " " + ratio.toFixed(2));
}
return bad;
"""  # noqa: E501 # a program of another language


def _click(browser, element):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    browser.execute_script(
        "arguments[0].focus();"
        "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))",
        element,
    )


def _find(browser, selector):
    return browser.find_element("css selector", selector)


def _visible_rows(browser, table):
    script = (
        "return Array.from(document.getElementById(arguments[0]).tBodies[0].rows)"
        ".filter((row) => !row.hidden).map((row) => Array.from(row.cells).map((cell) => cell.textContent.trim()))"
    )
    return browser.execute_script(script, table)


def _opened(browser):
    script = (
        "return Array.from(document.querySelectorAll('.opened article'))"
        ".filter((one) => one.checkVisibility()).map((one) => one.querySelector('h3').textContent)"
    )
    return browser.execute_script(script)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_console_errors_and_loads_nothing_else(open_page, width, scheme):
    browser = open_page(width=width, scheme=scheme)
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
    )
    assert [name for name in loaded if not name.startswith("data:")] == []
    assert browser.title.endswith("→ int8")  # and not what a name of the model asks for


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(open_page, width):
    browser = open_page(width=width)
    script = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    whole, seen = browser.execute_script(script)
    assert whole == seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_of_wcag_aa(open_page, scheme):
    browser = open_page(scheme=scheme)
    assert browser.execute_script(CONTRAST) == []


def test_a_click_on_a_heading_sorts_and_another_one_reverses(open_page):
    browser = open_page()
    heading = _find(browser, "#tensor-table thead th:nth-child(3)")
    for order in ("ascending", "descending"):
        _click(browser, heading.find_element("css selector", "button"))
        assert heading.get_attribute("aria-sort") == order
        values = [float(row[2]) for row in _visible_rows(browser, "tensor-table")]
        assert len(set(values)) > 3
        assert values == sorted(values, reverse=order == "descending")


def test_the_search_filters_a_table_and_counts_what_it_shows(open_page):
    browser = open_page()
    total = len(_visible_rows(browser, "tensor-table"))
    search = _find(browser, "input[aria-controls=tensor-table]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", search)
    search.send_keys("weight w2")
    rows = _visible_rows(browser, "tensor-table")
    assert [(row[0], row[1]) for row in rows] == [("w2", "weight")]
    output = search.find_element("xpath", "ancestor::*[contains(@class, 'tools')]//output")
    assert output.text == f"1 of {total}"


def test_a_list_filters_by_kind(open_page):
    browser = open_page()
    before = {row[1] for row in _visible_rows(browser, "tensor-table")}
    choice = _find(browser, "select[aria-controls=tensor-table]")
    browser.execute_script(
        "arguments[0].value = 'weight'; arguments[0].dispatchEvent(new Event('change'))", choice
    )
    assert before == {"activation", "weight"}
    assert {row[1] for row in _visible_rows(browser, "tensor-table")} == {"weight"}


def test_a_node_of_the_graph_opens_with_its_histogram(open_page):
    browser = open_page()
    _click(browser, _find(browser, "a[data-node=node-Conv_c2]"))
    assert _opened(browser) == ["Conv_c2"]
    assert browser.current_url.endswith("#node-Conv_c2")
    article = _find(browser, "article[id=node-Conv_c2]")
    bars = article.find_element("css selector", "svg .bars")
    assert bars.rect["width"] > 100
    methods = {
        m.get_attribute("class") for m in article.find_elements("css selector", ".threshold")
    }
    assert methods >= {"threshold m-chosen chosen", "threshold m-kl", "threshold m-minmax"}
    assert _find(browser, "a.selected").get_attribute("data-node") == "node-Conv_c2"


def test_a_permalink_opens_its_node(open_page):
    browser = open_page("#node-MatMul_y")
    assert _opened(browser) == ["MatMul_y"]


def test_a_node_with_a_hostile_name_opens_by_its_link_in_the_table(open_page):
    browser = open_page()
    _click(browser, browser.find_element("partial link text", "</script><img"))
    (opened,) = _opened(browser)
    assert opened.startswith("</script><img src=x")
    assert browser.title.endswith("→ int8")


def test_keys_step_through_the_nodes_and_close_them(open_page):
    browser = open_page("#node-Conv_c1")
    active = browser.switch_to.active_element
    active.send_keys("n")
    (second,) = _opened(browser)
    assert second != "Conv_c1"
    browser.switch_to.active_element.send_keys("p")
    assert _opened(browser) == ["Conv_c1"]
    browser.switch_to.active_element.send_keys("\ue00c")
    assert _opened(browser) == []


def test_every_link_and_button_can_be_reached_by_the_keyboard(open_page):
    browser = open_page()
    unreachable = browser.execute_script(
        "return Array.from(document.querySelectorAll('a[href], button, input, select'))"
        ".filter((one) => one.checkVisibility() && one.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_the_graph_is_coloured_by_precision_or_by_error(open_page):
    browser = open_page()
    script = (
        "return getComputedStyle(document.querySelector(\"a[data-node='node-Erf_e'] rect\")).fill"
    )
    before = browser.execute_script(script)
    _click(browser, _find(browser, "input[value=by-error]"))
    assert browser.execute_script(script) != before


def test_the_graph_zooms_and_fits(open_page):
    browser = open_page()
    picture = _find(browser, ".canvas svg")
    first = picture.rect["height"]
    _click(browser, _find(browser, "button[data-zoom=in]"))
    assert picture.rect["height"] > first
    _click(browser, _find(browser, "button[data-zoom=fit]"))
    assert picture.rect["height"] <= _find(browser, ".canvas").rect["height"]


def test_the_button_changes_between_light_and_dark(open_page):
    browser = open_page()
    script = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(script) == "rgb(255, 255, 255)"
    _click(browser, _find(browser, "#theme"))
    assert browser.execute_script(script) != "rgb(255, 255, 255)"


def test_print_shows_whole_tables_and_no_controls(open_page):
    browser = open_page(media="print")
    assert not _find(browser, "nav").is_displayed()
    assert not _find(browser, ".tools").is_displayed()
    region = _find(browser, "#tensor-table").find_element("xpath", "..")
    heights = browser.execute_script(
        "return [arguments[0].scrollHeight, arguments[0].clientHeight]", region
    )
    assert heights[0] <= heights[1]
