"""The axes of the matrix, its cells, and the reasons why some cells are unsupported or not applicable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import product

from messenger.errors import LocalError


class Role(StrEnum):
    """The role of Ceph's programs."""

    SERVER = "server"
    """Ceph is the server: our client connects to real daemons."""
    CLIENT = "client"
    """Ceph is the client: unmodified ``rados`` and ``ceph`` connect to our embedded daemons."""
    PEER = "peer"
    """Both are OSDs: ours, as osd.9, connects to the cluster messenger of a real OSD, in a lossless session."""


class Case(StrEnum):
    """The situation that a cell tests; :data:`ABOUT` describes each."""

    HANDSHAKE = "handshake"
    TRAFFIC = "traffic"
    RECONNECT = "reconnect"
    REPLAY = "replay"
    STANDBY = "standby"
    RESET = "reset"
    RESTART = "restart"
    REKEY = "rekey"
    LOSS_1 = "loss1"
    LOSS_10 = "loss10"


class Verdict(StrEnum):
    """The verdict on a cell."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"


RELEASES = ("nautilus", "pacific", "reef", "tentacle")
HOST = "host"
"""The release installed on this machine; part of a run only if it is named."""
WIRES = ("v1", "v2-crc", "v2-secure", "v2-compressed")
AUTHS = ("none", "aes", "aes256k")
_BOTH_LOSSY = (Role.SERVER, Role.CLIENT)

ABOUT: Mapping[Case, str] = {
    Case.HANDSHAKE: "A session opens with the cell's protocol, mode and authentication; a message is delivered.",
    Case.TRAFFIC: "Many messages of several sizes are delivered both ways; content is read back and compared.",
    Case.RECONNECT: "The connection is reset under traffic. A lossless session resumes by SESSION_RECONNECT (v1: "
    "connect_seq above 0), a lossy one is replaced; no acknowledged write is lost, none is applied twice.",
    Case.REPLAY: "Messages that were not acknowledged when the link broke are sent again on the next link.",
    Case.STANDBY: "A link breaks with nothing to send: no side connects until there is; then the session resumes.",
    Case.RESET: "One side loses the session and opens another from the same address: it begins at seq 1.",
    Case.RESTART: "The server restarts with another nonce under load; the client finds it and continues.",
    Case.REKEY: "Tickets of a few seconds are renewed on an open session, and a link opened afterwards uses them.",
    Case.LOSS_1: "Traffic while 1 % of the packets are lost each way.",
    Case.LOSS_10: "Traffic while 10 % of the packets are lost each way.",
}
"""A sentence that describes each case."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A cell: one combination of the axes."""

    release: str
    wire: str
    auth: str
    role: Role
    case: Case

    @property
    def id(self) -> str:
        """``tentacle/v2-secure/aes/server/reconnect``."""
        return f"{self.release}/{self.wire}/{self.auth}/{self.role}/{self.case}"

    @property
    def protocol(self) -> str:
        """``v1`` or ``v2``."""
        return self.wire.partition("-")[0]

    @property
    def mode(self) -> str:
        """``crc``, ``secure`` or ``compressed``; v1 has crc only."""
        return self.wire.partition("-")[2] or "crc"

    @property
    def setup(self) -> tuple[str, str, str, bool]:
        """The key of cells that share a cluster: release, wire, auth, and True if its daemons are ours."""
        return self.release, self.wire, self.auth, self.role is Role.CLIENT


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a cell is not run."""

    verdict: Verdict
    owner: str
    """``Ceph``, ``protocol`` or ``machine``."""
    text: str

    def __str__(self) -> str:
        return f"{self.owner}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A reason and the cells that it applies to: those with one of the values on each axis that is not empty."""

    reason: Reason
    release: Sequence[str] = ()
    wire: Sequence[str] = ()
    auth: Sequence[str] = ()
    role: Sequence[Role] = ()
    case: Sequence[Case] = ()

    def holds(self, cell: Cell) -> bool:
        """True if the reason applies to this cell."""
        axes = ("release", "wire", "auth", "role", "case")
        return all(not getattr(self, axis) or getattr(cell, axis) in getattr(self, axis) for axis in axes)


def _unsupported(owner: str, text: str) -> Reason:
    return Reason(Verdict.UNSUPPORTED, owner, text)


def _meaningless(text: str) -> Reason:
    return Reason(Verdict.NOT_APPLICABLE, "protocol", text)


RULES = (
    _Rule(
        _unsupported("protocol", "without authentication there are no keys to encrypt with"),
        wire=("v2-secure",),
        auth=("none",),
    ),
    _Rule(
        _unsupported("Ceph", "this release has no keys of type aes256k"),
        release=("nautilus", "pacific", "reef"),
        auth=("aes256k",),
    ),
    _Rule(
        _unsupported("Ceph", "this release has no compression"),
        release=("nautilus", "pacific"),
        wire=("v2-compressed",),
    ),
    _Rule(
        _unsupported("Ceph", "daemons compress between OSDs only, not with clients"),
        wire=("v2-compressed",),
        role=(Role.SERVER,),
    ),
    _Rule(
        _meaningless("a client's session is lossy: it replays nothing, the application sends again (reconnect)"),
        role=_BOTH_LOSSY,
        case=(Case.REPLAY,),
    ),
    _Rule(
        _meaningless("a client's session is lossy: it ends with its link instead of standing by"),
        role=_BOTH_LOSSY,
        case=(Case.STANDBY,),
    ),
    _Rule(
        _meaningless("a client's session is lossy: the server keeps nothing of it that could be reset"),
        role=_BOTH_LOSSY,
        case=(Case.RESET,),
    ),
    _Rule(_meaningless("without authentication there are no tickets"), auth=("none",), case=(Case.REKEY,)),
)
"""Reasons why cells cannot be run on any machine; the first rule that applies counts."""


def reason_of(cell: Cell) -> Reason | None:
    """Return the reason why a cell cannot be run on any machine; None if it can be run."""
    return next((rule.reason for rule in RULES if rule.holds(cell)), None)


def cells(releases: Sequence[str] = RELEASES) -> Iterator[Cell]:
    """Yield all cells of these releases, including those that cannot be run."""
    for release, wire, auth, role, case in product(releases, WIRES, AUTHS, Role, Case):
        yield Cell(release, wire, auth, role, case)


def select(only: Sequence[str] = (), releases: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of these releases that match one of the patterns.

    Args:
        only: patterns of ids; the beginning of an id selects all cells below it (``reef/v1``), ``*`` matches any
            text (``*/server/loss*``). Empty for all cells.
        releases: names of releases; empty for the four that have images.

    Raises:
        LocalError: a release is unknown, or a pattern matches no cell.
    """
    for release in releases:
        if release not in (*RELEASES, HOST):
            raise LocalError(f"--release: unknown release {release!r}; known: {', '.join((*RELEASES, HOST))}")
    wanted = list(cells(releases or RELEASES))
    for pattern in only:
        if not any(_matches(cell, pattern) for cell in wanted):
            raise LocalError(
                f"--only {pattern!r} matches no cell; ids are RELEASE/WIRE/AUTH/ROLE/CASE, and --list shows all"
            )
    return [cell for cell in wanted if not only or any(_matches(cell, pattern) for pattern in only)]


def _matches(cell: Cell, pattern: str) -> bool:
    return fnmatchcase(cell.id, pattern) or fnmatchcase(cell.id, f"{pattern.rstrip('/')}/*")
