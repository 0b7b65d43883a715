"""Citations of docs/protocol.md: headings by section number, and links to them for the generated pages."""

import re
from collections import Counter
from pathlib import Path

PROTOCOL = Path(__file__).with_name("protocol.md")
CITATION = re.compile(r"(?:docs/protocol\.md )?§(\d+(?:\.\d+)*)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)
NUMBERED = re.compile(r"(\d+(?:\.\d+)*)\.? ")


def headings(text: str) -> list[str]:
    """Return the headings of a Markdown page, in order, without lines of code blocks."""
    return HEADING.findall(FENCED.sub("", text))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it.

    >>> slug("4.9 Session state")
    '49-session-state'
    """
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return all anchors of a page; the anchor of a repeated heading ends in a number."""
    seen: Counter[str] = Counter()
    found = set()
    for each in map(slug, headings(text)):
        found.add(f"{each}-{seen[each]}" if seen[each] else each)
        seen[each] += 1
    return found


def sections() -> dict[str, str]:
    """Return the anchors of docs/protocol.md by section number, such as ``{"4.9": "49-session-state"}``."""
    numbered = ((NUMBERED.match(heading), heading) for heading in headings(PROTOCOL.read_text(encoding="utf-8")))
    return {number[1]: slug(heading) for number, heading in numbered if number}


def linked(text: str) -> str:
    """Turn each citation of the protocol page into a link that works from a page in docs/.

    Raises:
        KeyError: the page has no section of that number.
    """
    anchor = sections()
    return CITATION.sub(lambda cited: f"[§{cited[1]}](protocol.md#{anchor[cited[1]]})", text)
