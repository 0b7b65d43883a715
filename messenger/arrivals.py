"""Messages of one host that are admitted to the throttles and have not arrived whole (docs/protocol.md §3.10).

As in Ceph a message takes its declared size when its head has arrived. A peer that declares more than it sends
must not keep others waiting for bytes that no memory holds: a link that has to wait for bytes first recalls, from
every message in arrival, what has not arrived of it. From then on such a message takes its bytes as they arrive,
and waits for them as other messages do. A message that only messages in arrival keep waiting begins like that. One
at a time may then exceed the limits, so that messages in arrival never wait for each other alone; a throttle
therefore never holds more than its limit and one message.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from messenger.gate import Gate
    from messenger.session.throttle import Throttle


class Arrivals:
    """The gates of a host's links whose message is in arrival, the longest admitted first."""

    __slots__ = ("_exceeding", "_gates", "_recallable")

    def __init__(self) -> None:
        self._gates: dict[int, Gate] = {}
        self._recallable: dict[int, Gate] = {}
        """Those that hold bytes that have not arrived."""
        self._exceeding: Gate | None = None
        """The one that may exceed the limits."""

    def __len__(self) -> int:
        return len(self._gates)

    def add(self, gate: "Gate") -> None:
        """A message was admitted whose rest has not arrived."""
        self._gates[gate.key] = self._recallable[gate.key] = gate

    def remove(self, gate: "Gate") -> bool:
        """The message is complete, or its link is closed; True if another one may exceed the limits now."""
        self._gates.pop(gate.key, None)
        self._recallable.pop(gate.key, None)
        if gate is not self._exceeding:
            return False
        self._exceeding = None
        return True

    def recall(self, now: float) -> bool:
        """Take back what messages hold beyond what has arrived of them; True if that was anything."""
        recalled = False
        while self._recallable:
            _, gate = self._recallable.popitem()
            recalled |= gate.give_back_rest(now)
        return recalled

    def exceeds(self, gate: "Gate") -> bool:
        """True if the message of ``gate`` may exceed the limits."""
        return self._exceeding is gate

    def may_exceed(self, gate: "Gate") -> bool:
        """Let the message of ``gate`` exceed the limits until it is complete, unless another one does."""
        if self._exceeding is None:
            self._exceeding = gate
        return self.exceeds(gate)

    def fill(self, throttle: "Throttle") -> bool:
        """True if a throttle holds nothing but messages in arrival: no release will make room."""
        return throttle.value <= sum(gate.held_of(throttle) for gate in self._gates.values())
