"""The glossary explains words that the report uses, each once."""

from reports.words import glossary
from tests.reports.materials import material_of
from tests.reports.pieces import headings


def test_words_stand_in_alphabetical_order_with_whole_sentences():
    assert [*glossary.WORDS] == sorted(glossary.WORDS)
    assert all(meaning[0].isupper() and meaning.endswith(".") for meaning in glossary.WORDS.values())


def test_the_glossary_shows_every_word():
    [heading, table] = glossary.section(material_of())
    assert headings([heading]) == ["Glossary"]
    assert dict(table["rows"]) == glossary.WORDS
