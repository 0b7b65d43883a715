"""The scope of an exploration: the two nodes, their messages, and the possible faults."""

from dataclasses import dataclass
from enum import StrEnum

from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)

A, B = 0, 1
NAMES = ("a", "b")


class FaultKind(StrEnum):
    """Kinds of faults; each occurrence uses one of the faults that the scope allows."""

    BREAK = "break"
    """A byte stream breaks: bytes on their way are lost, and each side notices at its own step."""
    REFUSE = "refuse"
    """A dial is refused."""
    HALF_OPEN = "half-open"
    """From now on nothing arrives on a byte stream, without an error."""
    CRASH = "crash"
    """A process ends and restarts with the same address and nonce, without its sessions."""
    MARK_DOWN = "mark-down"
    """An application marks its session down."""


class Grain(StrEnum):
    """How much of a byte stream passes in one step."""

    FRAME = "frame"
    """Each frame (on v1, each piece) is a step."""
    SESSION = "session"
    """Everything before the session phase passes in the step of the dial; after that each frame is a step."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The policies of the two nodes, and whether each of them dials."""

    policies: tuple[Policy, Policy]
    dials: tuple[bool, bool]

    @property
    def lossy(self) -> bool:
        """True if messages may be lost with their session."""
        return any(policy.lossy for policy in self.policies)


PAIRINGS = {
    "lossless_peer": Pairing((LOSSLESS_PEER, LOSSLESS_PEER), (True, True)),
    "lossless_peer-one": Pairing((LOSSLESS_PEER, LOSSLESS_PEER), (True, False)),
    "lossless_peer_reuse": Pairing((LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE), (True, True)),
    "lossless_client": Pairing((LOSSLESS_CLIENT, STATEFUL_SERVER), (True, False)),
    "lossy_client": Pairing((LOSSY_CLIENT, STATELESS_SERVER), (True, False)),
    "lossy_peer": Pairing((LOSSY_CLIENT, LOSSY_CLIENT), (True, True)),
}
"""The pairings by their names on the command line; with ``-one`` only the first node dials by itself."""

NETWORK_FAULTS = (FaultKind.BREAK, FaultKind.REFUSE)


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of one exploration."""

    protocol: Protocol = Protocol.V2
    pairing: str = "lossless_peer"
    messages: tuple[int, int] = (1, 1)
    """Number of messages that each node sends."""
    faults: int = 1
    kinds: tuple[FaultKind, ...] = NETWORK_FAULTS
    grain: Grain = Grain.FRAME
    overtakes: int = 1
    """Number of times that a pause between dials may end while frames are on their way, see :mod:`.world`."""

    def __post_init__(self) -> None:
        if self.pairing not in PAIRINGS:
            raise LocalError(f"unknown policy {self.pairing!r}; known: {', '.join(PAIRINGS)}")
        if self.faults < 0 or min(self.messages) < 0 or self.overtakes < 0:
            raise LocalError("messages, faults and overtakes must be 0 or more")

    @property
    def pair(self) -> Pairing:
        """The policies of the two nodes."""
        return PAIRINGS[self.pairing]

    @property
    def is_strict(self) -> bool:
        """True if no message may be lost and no session may end, because no side loses its state in this scope.

        If both sides dial and have resetcheck, either may mistake a late dial for that of a restarted peer.
        """
        pair = self.pair
        mistakes = all(pair.dials) and any(policy.resetcheck for policy in pair.policies)
        return not (pair.lossy or mistakes or {FaultKind.CRASH, FaultKind.MARK_DOWN} & set(self.kinds))

    @property
    def may_repeat(self) -> bool:
        """True if a message may arrive twice: without resetcheck, a side that lost its state accepts replays."""
        policies = self.pair.policies
        return not self.is_strict and any(not (policy.lossy or policy.resetcheck) for policy in policies)

    def __str__(self) -> str:
        kinds = "+".join(self.kinds)
        a, b = self.messages
        return f"{self.protocol} {self.pairing} {a}+{b} messages, {self.faults} faults ({kinds}), by {self.grain}"
