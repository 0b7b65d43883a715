"""Messages of one host that have been admitted to the throttles but are still arriving (docs/protocol.md §3.10).

As in Ceph, a message takes its declared size from the byte throttles when its header has arrived. A peer that
declares more than it sends must not make other links wait for bytes that occupy no memory. So the first link that
has to wait for bytes recalls the bytes that have not arrived yet from every message in arrival. A recalled message
takes its bytes as they arrive, and waits for them like any other message. A message that waits for a throttle
which only messages in arrival fill starts in the same way.

One message at a time may then exceed the limits, so that messages in arrival cannot deadlock. A throttle therefore
never holds more than its limit and one message; or two, if one of them is larger than the limit, which
:meth:`.Throttle.admits` lets pass.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from messenger.gate import Gate
    from messenger.session.throttle import Throttle


class Arrivals:
    """The gates of a host's links whose message is in arrival, in order of admission."""

    __slots__ = ("_exceeding", "_gates", "_recallable")

    def __init__(self) -> None:
        self._gates: dict[int, Gate] = {}
        self._recallable: dict[int, Gate] = {}
        """Gates that hold bytes which have not arrived."""
        self._exceeding: Gate | None = None
        """The gate whose message may exceed the limits."""

    def __len__(self) -> int:
        return len(self._gates)

    def add(self, gate: "Gate") -> None:
        """Register a gate whose message was admitted but has not arrived completely."""
        self._gates[gate.key] = self._recallable[gate.key] = gate

    def remove(self, gate: "Gate") -> bool:
        """Remove a gate (message complete, or link closed). True if another message may exceed the limits now."""
        self._gates.pop(gate.key, None)
        self._recallable.pop(gate.key, None)
        if gate is not self._exceeding:
            return False
        self._exceeding = None
        return True

    def recall(self, now: float) -> bool:
        """Take back the bytes that messages hold but that have not arrived; True if there were any."""
        recalled = False
        while self._recallable:
            _, gate = self._recallable.popitem()
            recalled |= gate.give_back_rest(now)
        return recalled

    def exceeds(self, gate: "Gate") -> bool:
        """True if the message of ``gate`` may exceed the limits."""
        return self._exceeding is gate

    def may_exceed(self, gate: "Gate") -> bool:
        """Let the message of ``gate`` exceed the limits until it is complete, unless another one may."""
        if self._exceeding is None:
            self._exceeding = gate
        return self.exceeds(gate)

    def fill(self, throttle: "Throttle") -> bool:
        """True if messages in arrival hold all that a throttle has granted: no release will free units."""
        return throttle.value <= sum(gate.held_of(throttle) for gate in self._gates.values())
