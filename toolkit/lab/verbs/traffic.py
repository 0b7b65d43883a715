"""Verbs for sessions and messages: open, send, end, and expectations about them.

Verbs for messages name the sender first and the receiver second: ``expect_delivered("a", "b", 1)`` waits for a
message of ``send("a", "b")``. Verbs for a session name the node that owns the session first, and its peer second.
"""

from collections.abc import Callable, Sequence
from typing import Any

from messenger.messages.message import PRIORITY_DEFAULT
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.errors import ScenarioFailed
from toolkit.lab.core import LabCore

_MOMENT_S = 0.01
"""Seconds without a record after which nodes count as at rest, in real time."""


class TrafficVerbs(LabCore):
    """Verbs for sessions and messages."""

    def dial(self, node: str, peer: str, *, policy: str = "", anonymous: bool = False, alias: str = "") -> None:
        """Have a node open a session with a peer; returns before it is open.

        Args:
            node: the node that dials.
            peer: the peer that it dials.
            policy: policy of this session; the node's unless given.
            anonymous: open a further session that is not registered under the peer's address; the node's later
                verbs use it.
            alias: another name for the peer, by which verbs of the node find this session.
        """
        named: dict[str, Any] = {"policy": policy} if policy else {}
        if alias:
            named["alias"] = alias
        if anonymous:
            named["anonymous"] = True
        self._step("dial", node, peer, **named)
        self._command(node, "connect", peer=peer, **named)

    def connect(self, node: str, peer: str) -> None:
        """Have a node open a session with a peer, and wait until it is open."""
        self._step("connect", node, peer)
        self._command(node, "connect", peer=peer)
        self._wait(lambda: self.session_state(node, peer) == SessionState.READY, f"{node} connected to {peer}")

    def send(
        self,
        node: str,
        peer: str,
        count: int = 1,
        size_bytes: int = 100,
        *,
        priority: int = PRIORITY_DEFAULT,
        front_bytes: int = 0,
        middle_bytes: int = 0,
        dials: bool = True,
    ) -> None:
        """Have a node send numbered messages to a peer.

        Args:
            node: the sender.
            peer: the receiver.
            count: number of messages.
            size_bytes: length of each message's data segment.
            priority: priority of each message.
            front_bytes: length of each message's front segment.
            middle_bytes: length of each message's middle segment.
            dials: True to dial if there is no connection; if False, nothing is sent then.
        """
        named: dict[str, Any] = {"count": count, "size_bytes": size_bytes}
        if priority != PRIORITY_DEFAULT:
            named["priority"] = priority
        if front_bytes or middle_bytes:
            named |= {"front_bytes": front_bytes, "middle_bytes": middle_bytes}
        if not dials:
            named["dials"] = False
        self._step("send", node, peer, **named)
        self._command(node, "send", peer=peer, **named)

    def send_again(self, node: str, peer: str) -> None:
        """Have a node send its last message to a peer again, the same object."""
        self._step("send_again", node, peer)
        self._command(node, "send_again", peer=peer)

    def exchange(self, a: str = "a", b: str = "b", count: int = 5, size_bytes: int = 100) -> None:
        """Have two nodes send each other ``count`` messages, and wait until all are delivered."""
        before = self.delivered(a, b), self.delivered(b, a)
        self.send(a, b, count, size_bytes)
        self.send(b, a, count, size_bytes)
        self.expect_delivered(a, b, before[0] + count)
        self.expect_delivered(b, a, before[1] + count)

    def keepalive(self, node: str, peer: str) -> None:
        """Have a node send one keepalive to a peer."""
        self._step("keepalive", node, peer)
        self._command(node, "keepalive", peer=peer)

    def mark_down(self, node: str, peer: str, *, keep: bool = False) -> None:
        """Have a node end its session with a peer at once.

        Args:
            node: the node that marks its session down.
            peer: the peer of that session.
            keep: True if later verbs of the node use the ended session; otherwise they open a new one.
        """
        named = {"keep": True} if keep else {}
        self._step("mark_down", node, peer, **named)
        self._command(node, "mark_down", peer=peer, **named)

    def shut(self, node: str, peer: str, *, keep: bool = False) -> None:
        """Have a node end its session with a peer once its queued messages are acknowledged (lossy: written).

        Args:
            node: the node that shuts its session down.
            peer: the peer of that session.
            keep: True if later verbs of the node use the ended session; otherwise they open a new one.
        """
        named = {"keep": True} if keep else {}
        self._step("shut", node, peer, **named)
        self._command(node, "shut", peer=peer, **named)

    def hold(self, node: str) -> None:
        """Have a node's application keep delivered messages, which then stay counted in the throttles."""
        self._step("hold", node)
        self._command(node, "hold", held=True)

    def release(self, node: str) -> None:
        """Have a node's application release all messages that it kept, and keep no further ones."""
        self._step("release", node)
        self._command(node, "hold", held=False)

    # ---- expectations

    def expect_delivered(self, sender: str, receiver: str, count: int, *, within_s: float | None = None) -> None:
        """Wait until ``receiver`` has got ``count`` messages from ``sender`` since the run began."""
        self._step("expect_delivered", sender, receiver, count)
        self._wait(
            lambda: self.delivered(sender, receiver) >= count,
            f"{count} messages from {sender} delivered at {receiver}",
            lambda: f"{self.delivered(sender, receiver)} were",
            within_s,
        )

    def expect_event(
        self, node: str, peer: str, event: str, count: int = 1, *, within_s: float | None = None
    ) -> None:
        """Wait until an event of a node's sessions with a peer was raised ``count`` times since the start."""
        kind = EventKind(event)
        self._step("expect_event", node, peer, event, count)
        self._wait(
            lambda: self.events(node, peer, kind) >= count,
            f"event {kind} number {count} at {node} about {peer}",
            lambda: f"{self.events(node, peer, kind)} came",
            within_s,
        )

    def expect_no_event(self, node: str, peer: str, event: str) -> None:
        """Require that an event of a node's sessions with a peer has not been raised so far."""
        self._step("expect_no_event", node, peer, event)
        self.require(
            not self.events(node, peer, EventKind(event)), f"event {event} at {node} about {peer} must not happen"
        )

    def expect_events(self, node: str, peer: str, **counts: int) -> None:
        """Require the exact number of each event of a node's sessions with a peer; unnamed ones must be 0."""
        self._step("expect_events", node, peer, **counts)
        seen = {kind.value: self.events(node, peer, kind) for kind in EventKind}
        wanted = {kind.value: counts.get(kind.value, 0) for kind in EventKind}
        self.require(seen == wanted, f"events at {node} about {peer}: {wanted} expected, {seen} came")

    def expect_state(self, node: str, peer: str, state: str, *, within_s: float | None = None) -> None:
        """Wait until a node's session with a peer is in a state."""
        wanted = SessionState(state)
        self._step("expect_state", node, peer, state)
        self._wait(
            lambda: self.session_state(node, peer) == wanted,
            f"session of {node} with {peer} in {wanted}",
            lambda: f"it is in {self.session_state(node, peer) or 'no state'}",
            within_s,
        )

    def expect_no_dial(self, seconds: float, *nodes: str) -> None:
        """Let ``seconds`` pass, and require that none of the nodes dials meanwhile."""
        self._step("expect_no_dial", seconds, *nodes)
        before = {name: self.dials(name) for name in nodes}
        self._advance(seconds)
        for name, count in before.items():
            self.require(
                self.dials(name) == count, f"{name} dialled within {seconds:g} s, with nothing to be sent"
            )

    def expect_acked(self, node: str) -> None:
        """Wait until a node has no queued and no unacknowledged message."""
        self._step("expect_acked", node)
        self._wait(
            lambda: self._at_rest(node),
            f"everything {node} sent acknowledged",
            lambda: str(self._snapshot(node)),
        )

    def expect(self, node: str, counter: str, value: int) -> None:
        """Wait until one of a node's counters (see :meth:`snapshot`) has a value."""
        self._step("expect", node, counter, value)
        self._wait(
            lambda: self._snapshot(node)[counter] == value,
            f"{counter} of {node} at {value}",
            lambda: f"it is at {self._snapshot(node)[counter]}",
        )

    def require(self, condition: bool, what: str) -> None:  # noqa: FBT001 - reads as an assertion
        """Fail the scenario with the message ``what`` unless a condition holds."""
        if not condition:
            raise ScenarioFailed(what)

    def wait_for(
        self,
        condition: Callable[[], bool],
        what: str,
        instead: Callable[[], str] = lambda: "it did not happen",
        *,
        within_s: float | None = None,
    ) -> None:
        """Wait until a condition holds.

        Args:
            condition: checked again after every event.
            what: the expected condition, in words, for the error message.
            instead: returns what is the case instead, for the error message.
            within_s: seconds to wait; the usual patience unless given.
        """
        self._step("wait_for", what)
        self._wait(condition, what, instead, within_s)

    def wait(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self._step("wait", seconds)
        self._advance(seconds)

    def _quiet(self, names: Sequence[str]) -> bool:
        """True if nodes are at rest and, in real time, no record has come for a moment."""
        before = len(self.history)
        if not all(self._at_rest(name) for name in names):
            return False
        if not self.real_time:
            return True
        self._advance(_MOMENT_S)
        return len(self.history) == before and all(self._at_rest(name) for name in names)

    def settle(self, *, within_s: float | None = None) -> None:
        """Wait until all messages are delivered and acknowledged and no node dials; record final counters."""
        self._step("settle")
        self._advance(0.0)  # carries out the last commands first
        names = [name for name in self._specs if self._running(name) and name not in self._stopped]
        self._wait(
            lambda: self._quiet(names),
            "everything delivered and acknowledged, and no node dialling",
            lambda: ", ".join(f"{name}: {self._snapshot(name)}" for name in names),
            within_s,
        )
        for name in names:
            self._write(name, "end", **self._snapshot(name), **self._command(name, "resources"))
