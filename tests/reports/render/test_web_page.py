"""The HTML page: all that the document says, escaped, in one file, always the same for the same records."""

import base64
import io
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from fontTools.ttLib import TTFont

from reports import blocks
from reports.render import shell, web_page
from tests.reports.render.made_up_page import NAME, REASON, composed, page


class Reader(HTMLParser):
    """Reads a page: its elements, what stands in them, and whether every one is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "path", "wbr", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & {*self.open}:
            self.words.append(data)


def page_of(*parts: blocks.Block) -> str:
    """A page of these blocks."""
    content = {"title": "Title", "subtitle": "subtitle", "date": "2026-01-02", "blocks": [*parts]}
    return web_page.build(content, {}).decode()


@pytest.fixture(scope="module")
def whole() -> str:
    return page().decode()


@pytest.fixture(scope="module")
def reader(whole) -> Reader:
    return Reader(whole)


def test_the_page_is_well_formed_and_reaches_for_nothing(reader, whole):
    assert reader.open == []
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("h1") == 1
    assert not {"iframe", "object", "base", "form", "audio", "video"} & {*tags}
    for tag, attributes in reader.elements:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    assert "@import" not in whole.partition("</style>")[0]
    assert not re.search(r"url\((?!data:)", whole.partition("</style>")[0])


def test_only_the_scripts_of_the_page_may_run(reader, whole):
    policy = next(attributes["content"] for tag, attributes in reader.elements if "http-equiv" in attributes)
    assert policy.startswith(
        "default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; script-src 'sha256-"
    )
    assert policy.count("sha256-") == whole.count("<script>") == 1


def test_what_stands_in_records_is_never_markup(reader, whole):
    words = "".join(reader.words)
    assert NAME in words
    assert REASON in words
    assert NAME not in whole
    assert "<b>no" not in whole


def test_the_page_says_all_that_the_document_says(reader):
    words = "".join(reader.words)
    for block in composed()[0]["blocks"]:
        said = [
            block.get("text", ""),
            block.get("about", ""),
            *block.get("items", []),
            *block.get("notes", []),
            block.get("caption", ""),
        ]
        said += [cell for row in block.get("rows", []) for cell in row]
        said += [item for answer in block.get("answers", []) for item in answer["items"]]
        assert all(text in words for text in said)


def test_the_list_of_contents_leads_to_every_chapter(reader):
    elements = reader.elements
    chapters = [attributes["id"] for tag, attributes in elements if tag == "h2"]
    assert [attributes["href"] for tag, attributes in elements if tag == "a"] == [
        *["#content", *(f"#{chapter}" for chapter in chapters)]
    ]
    assert len({*chapters}) == len(chapters) > 3


def test_every_figure_has_words_for_who_cannot_see_it_and_names_that_a_key_chooses(reader):
    elements = reader.elements
    figures = [block for block in composed()[0]["blocks"] if block["kind"] == "figure"]
    drawn = [attributes for tag, attributes in elements if tag == "svg"]
    assert [each["aria-label"] for each in drawn] == [
        block["alt"] for block in figures for _ in range(2 if block["narrow_file"] else 1)
    ]
    assert all(each["role"] == "group" for each in drawn)
    names = [attributes for _, attributes in elements if "data-pick" in attributes]
    assert {each["data-pick"] for each in names} >= {"amber_single", NAME}
    assert all((each["role"], each["tabindex"], each["aria-pressed"]) == ("button", "0", "false") for each in names)


def test_no_two_figures_share_a_name_and_every_reference_leads_to_one(whole):
    ids = re.findall(r' id="([^"]+)"', whole)
    assert len({*ids}) == len(ids)
    assert {*re.findall(r'(?:href="|url\()#([a-z]\d+s\d+)', whole)} == {
        each for each in ids if re.fullmatch(r"[a-z]\d+s\d+", each)
    }


def test_figures_have_the_page_s_own_colors_and_its_font_has_their_letters(whole):
    drawn = "".join(re.findall(r"<svg.*?</svg>", whole, re.DOTALL))
    assert not re.search(r"(?<!,)#[0-9a-f]{6}", drawn)
    assert {"var(--ink)", "var(--faint)", "var(--paper)", "white var(--lift)", "var(--paper) var(--sink)"} <= {
        *re.findall(r"var\(--\w+\)(?: var\(--\w+\))?|white var\(--lift\)", drawn)
    }
    font = TTFont(io.BytesIO(base64.b64decode(re.findall(r"font/woff;base64,([^)]+)", whole)[0])))
    letters = unescape("".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawn)))
    assert {*map(ord, letters)} <= {*font.getBestCmap()}


def test_every_kind_of_block_has_its_html():
    page = page_of(
        blocks.heading("Chapter"),
        blocks.heading("Section", level=2),
        blocks.heading("Part", level=3),
        blocks.text("A paragraph."),
        blocks.items(["one", "two"]),
        blocks.answers([("Which to take", ["This one."])]),
        blocks.new_page(),
        blocks.table(["name", "n"], [["a", "1"], ["b", "deviates"]], ["A note."], warned="deviates"),
    )
    assert Reader(page).open == []
    assert '<h2 id="0-chapter">Chapter</h2>' in page
    assert '<h3 id="1-section">Section</h3>' in page
    assert '<h4 id="2-part">Part</h4>' in page
    assert "<li>one</li>" in page
    assert "<dt>Which to take</dt>" in page
    assert '<td class="left short warned">deviates</td>' in page
    assert '<th scope="col" class="left short"><button type="button">n</button></th>' in page
    assert "<p>A note.</p>" in page


def test_a_kind_of_block_that_the_page_does_not_know_is_an_error():
    with pytest.raises(ValueError, match="riddle"):
        page_of({"kind": "riddle"})


def test_the_words_of_a_figure_are_never_markup():
    figure = blocks.figure("one", bytes, "A <caption>.", 'What "it" shows.', stacks=True)
    content, _ = shell.compose("", [], [figure])
    image = b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"><text>a &lt; b</text></svg>'
    page = web_page.build(content, {"one.svg": image, "narrow-one.svg": image}).decode()
    assert page.count('aria-label="What &quot;it&quot; shows."') == 2
    assert "a &lt; b</text>" in page
    assert "<figcaption>A &lt;caption&gt;.</figcaption>" in page


def test_a_folded_table_tells_its_rows_and_what_its_columns_are():
    page = page_of(blocks.data("cells", "One row & no more.", {"n": 'of "what"'}, [["1"]]))
    assert Reader(page).open == []
    assert "<summary>cells (1 row)</summary>\n<p>One row &amp; no more.</p>" in page
    assert '<input type="search" placeholder="Search" aria-label="Search cells">' in page
    assert ' title="of &quot;what&quot;"><button type="button">n</button></th>' in page


def test_a_table_without_a_header_has_nothing_to_sort_by():
    page = page_of(blocks.table(["", ""], [["processor", "some CPU"]], wide={1: 1}))
    assert "<thead>" not in page
    assert '<td class="left wide">some CPU</td>' in page


def test_a_cell_with_a_color_has_it_as_its_ground_and_its_color_is_never_markup():
    table = blocks.table(["a", "b"], [["one", "two"]], tints={(0, 1): '#123456"><b>'})
    page = page_of(table)
    assert page.count("color-mix(in srgb, #123456&quot;&gt;&lt;b&gt; 28%, transparent)") == 1
    assert "<b>" not in page
