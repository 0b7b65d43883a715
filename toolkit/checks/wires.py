"""Which two ends of a history belong to one byte stream.

Each node numbers its own links, and addresses do not say which dial an accepted stream came from. The frames
do: what one end received is the beginning of what the other end sent.
"""

from collections.abc import Iterable
from typing import NamedTuple

from toolkit.checks.records import Record


class LinkKey(NamedTuple):
    """A link's name in the whole history."""

    node: str
    incarnation: int
    link: str


class LinkLog:
    """The records of one end of a byte stream, each with its place in the history."""

    __slots__ = ("closed", "dialled", "far", "key", "opened", "peer", "rx", "session", "tx")

    def __init__(self, key: LinkKey) -> None:
        self.key = key
        self.tx: list[tuple[int, Record]] = []
        self.rx: list[tuple[int, Record]] = []
        self.opened: int | None = None
        """Index of the dial or the accept."""
        self.closed: int | None = None
        self.dialled = False
        self.peer = ""
        """The address at the other end."""
        self.session: int | None = None
        """The session that it carried last."""
        self.far: LinkLog | None = None
        """The other end, if it is in the history too."""

    def add(self, index: int, record: Record) -> None:
        """Take in a record that names this link."""
        if record["session"] is not None:
            self.session = record["session"]
        if record.kind == "frame":
            (self.tx if record["direction"] == "tx" else self.rx).append((index, record))
        elif record.kind == "link":
            self._add_action(index, record)

    def _add_action(self, index: int, record: Record) -> None:
        action = record["action"]
        if action == "close":
            self.closed = index
        elif self.opened is None:
            self.opened = index
            self.dialled = action == "dial"
            self.peer = record["peer"]


def pair_links(links: Iterable[LinkLog]) -> None:
    """Find the other end of every accepted link among the links that were being dialled at that time."""
    started = sorted(((log.opened, log) for log in links if log.opened is not None), key=lambda entry: entry[0])
    dialling: list[LinkLog] = []
    for opened, log in started:
        if log.dialled:
            dialling.append(log)
            continue
        dialling = [dial for dial in dialling if dial.far is None and not _closed_before(dial, opened)]
        best = max(dialling, key=lambda dial: _likeness(dial, log), default=None)
        if best is not None and _likeness(best, log) > 0:
            best.far, log.far = log, best


def _closed_before(log: LinkLog, index: int) -> bool:
    return log.closed is not None and log.closed < index


def _likeness(a: LinkLog, b: LinkLog) -> int:
    """Positive if more than half of the frames that arrived are what the other end sent.

    Not all: a proxy may have changed, added or dropped some, and behind such a place nothing is the same.
    """
    return 2 * (_arrived(a, b) + _arrived(b, a)) - len(a.rx) - len(b.rx)


def _arrived(sender: LinkLog, receiver: LinkLog) -> int:
    """How many frames arrived before the first that is not what was sent."""
    count = 0
    for (_, sent), (_, received) in zip(sender.tx, receiver.rx, strict=False):
        if not same_frame(sent, received):
            break
        count += 1
    return count


def same_frame(sent: Record, received: Record) -> bool:
    """Whether these are the two ends' records of one frame; a field only one end has recorded says nothing."""
    if any(sent[name] != received[name] for name in ("index", "tag", "length")):
        return False
    there = received["fields"]
    return all(there.get(name, value) == value for name, value in sent["fields"].items())
