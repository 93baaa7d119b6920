"""The HTML page: all that the document says, escaped, in one file, always the same for the same records."""

import re
from html.parser import HTMLParser

import pytest

from reports import blocks
from reports.render import web_page
from tests.reports.conftest import NAME, REASON


class Reader(HTMLParser):
    """Reads a page: its elements, what stands in them, and whether every one is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.elements, self.words, self.open = [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "wbr", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & {*self.open}:
            self.words += data


@pytest.fixture(scope="module")
def reader(whole) -> Reader:
    return Reader(whole.page)


def test_the_page_is_well_formed_and_reaches_for_nothing(reader, whole):
    assert reader.open == []
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("h1") == 1
    assert not {"iframe", "object", "base", "form", "audio", "video"} & {*tags}
    for tag, attributes in reader.elements:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    style = whole.page.partition("</style>")[0]
    assert "@import" not in style
    assert not re.search(r"url\((?!data:)", style)
    # Only the script of the page may run.
    policy = next(attributes["content"] for tag, attributes in reader.elements if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-")
    assert policy.count("sha256-") == whole.page.count("<script>") == 1


def test_what_stands_in_records_is_never_markup(reader, whole):
    assert NAME in reader.words
    assert REASON in reader.words
    assert NAME not in whole.page
    assert "<b>no" not in whole.page


def test_the_page_says_all_that_the_document_says(reader, whole):
    for block in whole.content["blocks"]:
        said = [block.get(name, "") for name in ("text", "about", "caption")]
        said += [*block.get("items", []), *block.get("notes", [])]
        said += [cell for row in block.get("rows", []) for cell in row]
        said += [item for answer in block.get("answers", []) for item in answer["items"]]
        assert all(text in reader.words for text in said)


def test_the_list_of_contents_leads_to_every_chapter_and_no_two_places_share_a_name(reader, whole):
    chapters = [attributes["id"] for tag, attributes in reader.elements if tag == "h2"]
    links = [attributes["href"] for tag, attributes in reader.elements if tag == "a"]
    assert links == ["#content", *(f"#{chapter}" for chapter in chapters)]
    assert len(chapters) > 3
    ids = re.findall(r' id="([^"]+)"', whole.page)
    assert len({*ids}) == len(ids)
    assert {*re.findall(r'(?:href="|url\()#([a-z]\d+s\d+)', whole.page)} <= {*ids}


def test_every_figure_has_words_for_who_cannot_see_it_and_names_that_a_key_chooses(reader, whole):
    figures = [block for block in whole.content["blocks"] if block["kind"] == "figure"]
    drawn = [attributes for tag, attributes in reader.elements if tag == "svg"]
    expected = [block["alt"] for block in figures for _ in range(2 if block["narrow_file"] else 1)]
    assert [(each["aria-label"], each["role"]) for each in drawn] == [(alt, "group") for alt in expected]
    names = [attributes for _, attributes in reader.elements if "data-pick" in attributes]
    assert {each["data-pick"] for each in names} >= {"amber_single", NAME}
    assert all((each["role"], each["tabindex"], each["aria-pressed"]) == ("button", "0", "false") for each in names)


def test_figures_have_the_page_s_own_colors(whole):
    drawn = "".join(re.findall(r"<svg.*?</svg>", whole.page, re.DOTALL))
    assert not re.search(r"(?<!,)#[0-9a-f]{6}", drawn)
    assert all(color in drawn for color in ("var(--ink)", "white var(--lift)", "var(--paper) var(--sink)"))


def test_cells_that_are_warned_of_stand_out_and_columns_of_folded_tables_say_what_they_mean():
    parts = [
        blocks.table(["name", "n"], [["a", "1"], ["b", "deviates"]], ["A note."], warned="deviates"),
        blocks.data("cells", "One row & no more.", {"n": 'of "what"'}, [["1"]]),
    ]
    page = web_page.build({"title": "", "subtitle": "", "date": "", "blocks": parts}, {}).decode()
    assert '<td class="left short warned">deviates</td>' in page
    assert ' title="of &quot;what&quot;"><button type="button">n</button></th>' in page
    assert "<summary>cells (1 row)</summary>\n<p>One row &amp; no more.</p>" in page
