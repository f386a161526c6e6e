"""docs/glossary.md: every term has a module that exists; the file system is the oracle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"
FEWEST = 40  # entries
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def read_entries() -> dict[str, str]:
    """The text of each entry by its term, in the order of the page."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    entries = [section.partition("\n") for section in sections]
    assert len({term for term, _, _ in entries}) == len(entries), "a term has two entries"
    return {term: text.strip() for term, _, text in entries}


ENTRIES = read_entries()


def relative_links(text: str) -> list[str]:
    """The link addresses that name a file of this repository."""
    return [link for link in _LINK.findall(text) if "://" not in link]


def test_the_terms_are_many_and_sorted():
    assert len(ENTRIES) >= FEWEST
    assert list(ENTRIES) == sorted(ENTRIES, key=str.casefold)


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_explains_its_term_and_links_a_module(term: str):
    explanation, separator, rest = ENTRIES[term].partition("Module")
    assert explanation.strip().partition("\n")[0]
    assert separator
    modules = [link for link in relative_links(rest) if link.startswith("../ptq/")]
    assert modules
    assert all(link.endswith(".py") for link in modules)


@pytest.mark.parametrize("term", ENTRIES)
def test_every_relative_link_of_an_entry_resolves(term: str):
    missing = [
        link
        for link in relative_links(ENTRIES[term])
        if not (PAGE.parent / link.partition("#")[0]).is_file()
    ]
    assert missing == []


@pytest.mark.parametrize("term", ENTRIES)
def test_a_link_to_a_file_shows_the_path_of_that_file(term: str):
    shown = re.findall(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)", ENTRIES[term])
    assert [label.replace("\\", "") for label, _ in shown] == [path for _, path in shown]
