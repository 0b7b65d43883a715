"""What a model does not explain."""

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from toolkit.checks.sessions import SessionLog

if TYPE_CHECKING:
    from toolkit.checks.index import Index


class About(Enum):
    """What a problem is about; it decides which invariant reports it."""

    ACK = auto()
    """What is acknowledged against what was received."""
    SEQ = auto()
    """in_seq, out_seq, acked_seq and what is kept for replay."""
    RECEIPT = auto()
    """What is on the wire against what applications send and get."""
    ATTEMPT = auto()
    """connect_seq, global_seq, peer_global_seq."""
    COOKIE = auto()
    """client_cookie, server_cookie."""


class Problem(NamedTuple):
    """A record that the model does not explain."""

    record: int
    """Its place in the history."""
    text: str
    about: About


class Problems:
    """The problems of one session.

    Args:
        index: of the history.
        log: the session.
    """

    __slots__ = ("_index", "_log", "found")

    def __init__(self, index: "Index", log: SessionLog) -> None:
        self._index = index
        self._log = log
        self.found: list[Problem] = []

    def add(self, record: int, about: About, text: str) -> None:
        """The record at that place is wrong."""
        self.found.append(Problem(record, f"{self._index.name(self._log)}: {text}", about))
