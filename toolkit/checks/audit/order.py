"""The rule about frames that answer nothing (docs/protocol.md §3.2, §4.1)."""

from math import inf

from messenger.link import Protocol
from toolkit.checks.audit.rule import Book, Rule, Side
from toolkit.checks.replies import unasked, word_of
from toolkit.checks.wires import LinkLog

ASKED = Rule(
    "handshake_order",
    "3.2 4.1",
    Side.BOTH,
    "Each frame of a handshake answers a received frame, at most once per frame received; messages and acks wait "
    "until the link is open.",
)
RULES = (ASKED,)
_FIRST = {"HELLO": Protocol.V2, "IDENTIFY": Protocol.V1}
"""The frame after the banner, which distinguishes the protocols."""


def judge_order(link: LinkLog, book: Book) -> None:
    """Judge the frames that one end of a link has sent."""
    protocol = link_protocol(link)
    if protocol is None:
        return
    words = tuple([word_of(record.fields) for _, record in link.talk])
    sent = next((position for position, record in link.data if record.fields["direction"] == "tx"), inf)
    before = words[: sum(position < sent for position, _ in link.talk)] if sent < inf else words
    wrong = unasked(protocol, link.dialled, before, sent < inf)
    place = link.talk[0][0]
    text = ""
    if wrong is not None:
        number, text = wrong
        place = link.talk[number][0] if number < len(before) else int(sent)
    book.judge(ASKED, link, place, holds=wrong is None, text="{}", values=text)


def link_protocol(link: LinkLog) -> Protocol | None:
    """Return the link's protocol, by this end's own frames first; None if they do not show it."""
    beginning = (record["tag"] for _, record in (*link.tx[:2], *link.rx[:2]))
    return next((_FIRST[tag] for tag in beginning if tag in _FIRST), None)
