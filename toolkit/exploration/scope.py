"""The scope of an exploration: the two nodes, what they send, and which faults may hit them."""

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
    """What may happen to the two nodes, each time at the price of one fault."""

    BREAK = "break"
    """A byte stream breaks: what is on the way is lost, each side notices in its own time."""
    REFUSE = "refuse"
    """A dial is refused."""
    HALF_OPEN = "half-open"
    """From now on nothing arrives on a byte stream, without an error."""
    CRASH = "crash"
    """A process ends and comes back with the same address and nonce, and no memory."""
    MARK_DOWN = "mark-down"
    """An application ends its session."""


class Grain(StrEnum):
    """What is one step of a byte stream."""

    FRAME = "frame"
    """Each frame (of v1: each piece)."""
    SESSION = "session"
    """What precedes the session phase passes at once when a dial arrives; then each frame."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The policies of the two nodes towards each other, and which of them dial."""

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
"""By the name that the command line has for them; with ``-one`` only the first node dials on its own accord."""

NETWORK_FAULTS = (FaultKind.BREAK, FaultKind.REFUSE)


@dataclass(frozen=True, slots=True)
class Scope:
    """One exploration."""

    protocol: Protocol = Protocol.V2
    pairing: str = "lossless_peer"
    messages: tuple[int, int] = (1, 1)
    """How many each node sends."""
    faults: int = 1
    kinds: tuple[FaultKind, ...] = NETWORK_FAULTS
    grain: Grain = Grain.FRAME
    overtakes: int = 1
    """How often a pause between dials may be over while something is still on its way."""

    def __post_init__(self) -> None:
        if self.pairing not in PAIRINGS:
            raise LocalError(f"unknown policy {self.pairing!r}; known: {', '.join(PAIRINGS)}")
        if self.faults < 0 or min(self.messages) < 0 or self.overtakes < 0:
            raise LocalError("messages, faults and overtakes are counts")

    @property
    def pair(self) -> Pairing:
        """Entities and policies of the two nodes."""
        return PAIRINGS[self.pairing]

    @property
    def is_strict(self) -> bool:
        """True if no message may be lost and no session may end: no side loses its state in this scope.

        Of two that both dial and check for resets either may take a late dial for that of a restarted peer.
        """
        pair = self.pair
        mistakes = all(pair.dials) and any(policy.resetcheck for policy in pair.policies)
        return not (pair.lossy or mistakes or {FaultKind.CRASH, FaultKind.MARK_DOWN} & set(self.kinds))

    @property
    def may_repeat(self) -> bool:
        """True if a message may arrive twice: a side without its state gets replays unless resets are checked."""
        policies = self.pair.policies
        return not self.is_strict and any(not (policy.lossy or policy.resetcheck) for policy in policies)

    def __str__(self) -> str:
        kinds = "+".join(self.kinds)
        a, b = self.messages
        return f"{self.protocol} {self.pairing} {a}+{b} messages, {self.faults} faults ({kinds}), by {self.grain}"
