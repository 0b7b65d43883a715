"""Records that the model of a session does not explain."""

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from toolkit.checks.sessions import SessionLog

if TYPE_CHECKING:
    from toolkit.checks.index import Index


class About(Enum):
    """Subject of a problem; it decides which invariant reports it."""

    ACK = auto()
    """Acknowledgements compared with what was received."""
    SEQ = auto()
    """in_seq, out_seq, acked_seq and the messages kept for replay."""
    RECEIPT = auto()
    """Messages on the wire compared with the applications' sends and deliveries."""
    ATTEMPT = auto()
    """connect_seq, global_seq, peer_global_seq."""
    COOKIE = auto()
    """client_cookie, server_cookie."""


class Problem(NamedTuple):
    """A record that the model does not explain."""

    record: int
    """Its position in the history."""
    text: str
    about: About


class Problems:
    """The problems of one session.

    Args:
        index: the history.
        log: the session.
    """

    __slots__ = ("_index", "_log", "found")

    def __init__(self, index: "Index", log: SessionLog) -> None:
        self._index = index
        self._log = log
        self.found: list[Problem] = []

    def add(self, record: int, about: About, text: str) -> None:
        """Add a problem that the record at position ``record`` shows."""
        self.found.append(Problem(record, f"{self._index.name(self._log)}: {text}", about))
