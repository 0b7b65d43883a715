"""Citations of docs/protocol.md name its sections, and relative links of pages lead to files and headings."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.citations import FENCED, anchors, sections
from tests.test_tidy import ROOT, files

HERE = Path(__file__).relative_to(ROOT).as_posix()
PAGE = "docs/protocol.md"
SECTIONS = frozenset(sections())
CITED = re.compile(r"(?P<before>[\w./ ]{0,30})§+ ?(?P<number>\d[\d.]*(?<!\.))")
OF_ANOTHER = re.compile(r"RFC \d+ $")
CODE_SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH_OF_A_PAGE = re.compile(r"\b(?:docs|clusters|captures|notebooks)/[\w/.-]+\.md\b")


def bad_citations(text: str) -> list[str]:
    """Citations in a program: the first one names the page, all of them a section of it."""
    cited = [match for match in CITED.finditer(text) if not OF_ANOTHER.search(match["before"])]
    bad = [f"§{match['number']}" for match in cited if match["number"] not in SECTIONS]
    if cited and not cited[0]["before"].endswith(f"{PAGE} "):
        bad.append(f"{cited[0][0].strip()} does not name {PAGE}")
    return bad


def plain(text: str) -> str:
    """A page in Markdown without its code."""
    return CODE_SPAN.sub("", FENCED.sub("", text))


def unlinked(text: str) -> list[str]:
    """Citations in a page in Markdown that are not the text of a link to the section."""
    outside = re.sub(r"\[§([\d.]+)\]\((?:[^)#\s]*protocol\.md)?#[^)\s]+\)", r"", plain(text))
    wrong = [
        match[1]
        for match in re.finditer(r"\[§([\d.]+)\]\([^)#\s]*#([^)\s]+)\)", plain(text))
        if sections().get(match[1]) != match[2]
    ]
    return [f"§{number}" for number in wrong] + re.findall(r"§[\d.]*", outside)


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Relative links of a page that lead to no file, or to no heading of it."""
    for target in LINK.findall(plain(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path
        led_to = file.read_text(encoding="utf-8") if path and file.is_file() else text
        if not file.exists() or (anchor and anchor not in anchors(led_to)):
            yield target


def markdown(path: str, text: str) -> str:
    """A page, or the Markdown cells of a notebook."""
    if not path.endswith(".ipynb"):
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


PAGES = {path: markdown(path, text) for path, text in files("*.md", "*.ipynb")}


@pytest.mark.parametrize("pattern", ["*.py", "*.lua", "*.toml", "*.yaml"])
def test_citations_name_a_section(pattern: str) -> None:
    found = {path: bad_citations(text) for path, text in files(pattern)}
    found.pop(HERE, None)
    assert {path: bad for path, bad in found.items() if bad} == {}


def test_pages_that_programs_name_exist() -> None:
    named = {
        (path, page) for path, text in files("*.py", "*.toml", "Makefile") for page in PATH_OF_A_PAGE.findall(text)
    }
    assert [(path, page) for path, page in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("path", PAGES)
def test_links_of_pages_lead_somewhere(path: str) -> None:
    assert list(broken_links(ROOT / path, PAGES[path])) == []
    assert unlinked(PAGES[path]) == []


def test_the_protocol_page_has_each_section_once() -> None:
    assert len(anchors((ROOT / PAGE).read_text(encoding="utf-8"))) > len(SECTIONS) > 60
    assert {"0", "4.9", "6.4.1", "10"} <= SECTIONS


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("(docs/protocol.md §4.9, §3.6)", []),
        ("(RFC 5961 §3)", []),
        ("(docs/protocol.md §4.13)", ["§4.13"]),
        ("(docs/protocol.md §4.9, § 99)", ["§99"]),
        ("(protocol.md §4.9)", ["protocol.md §4.9 does not name docs/protocol.md"]),
        ("as in design.md §1; docs/protocol.md §4.9", ["as in design.md §1 does not name docs/protocol.md"]),
    ],
)
def test_a_bad_citation_is_found(text: str, bad: list[str]) -> None:
    assert bad_citations(text) == bad


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("see [§4.9](protocol.md#49-session-state) and `§1`", []),
        ("see §4.9", ["§4.9"]),
        ("see [§4.9](protocol.md#48-message)", ["§4.9"]),
        ("see [§4.99](protocol.md#499-nothing)", ["§4.99"]),
    ],
)
def test_a_citation_in_a_page_is_a_link_to_its_section(text: str, bad: list[str]) -> None:
    assert unlinked(text) == bad


@pytest.mark.parametrize("target", ["nowhere.md", "protocol.md#no-such-heading", "#no-such-heading"])
def test_a_broken_link_is_found(target: str) -> None:
    good = (
        "# A title\n[here](protocol.md#49-session-state) [there](#a-title) [site](https://ceph.io) [up](../docs)"
    )
    assert list(broken_links(ROOT / "docs" / "core.md", f"{good} [bad]({target})")) == [target]
