"""Scripts for whole links: an endpoint, and a raw peer that sends proper and improper bytes, cut anywhere.

This is the part that both protocols share; the operations of each are in ``targets/links.py`` and
``targets/links_v1.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from messenger.denc.entity import EntityType
from messenger.errors import FaultReason, PeerError
from messenger.interception import Action, Point, Way
from messenger.link import Link
from messenger.messages.message import Message
from messenger.outputs import OpenLink
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER, ThrottleLimit
from tests.fuzz.receiving import READ_AHEAD_BYTES
from tests.fuzz.target import KIB, BrokenPromise, Cursor, Cut, same_for_every_cut, whole
from tests.support.node import Node
from toolkit.errors import ScenarioFailed

_POLICIES = (LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER)
ACTIONS = tuple(Action)
_THROTTLE_BYTES = 200
_THROTTLES = {"messages": ThrottleLimit("messages", 2), "size_bytes": ThrottleLimit("bytes", 100)}
LIMITS = {"max_preauth_frame_bytes": 4 * KIB, "max_preauth_bytes": 16 * KIB, "max_frame_bytes": 64 * KIB}
_HELD_BYTES = max(LIMITS["max_frame_bytes"], READ_AHEAD_BYTES) + LIMITS["max_preauth_bytes"]
_MOST_STEPS = 12
_MOST_LINKS = 3
_PASSING_S = 0.7
_COUNTED = ("in_seq", "out_seq", "connect_seq", "global_seq", "peer_global_seq")
"""Without acked_seq: what is acknowledged before it was sent counts as far as it had been sent by then."""


def throttling(options: int) -> dict[str, Any]:
    """Policy and throttles of a node: bits 0 and 1 choose the policy, bit 2 small throttles of every kind."""
    policy = _POLICIES[options & 3]
    if not options & 4:
        return {"policy": policy}
    return {"policy": policy.throttled(**_THROTTLES), "ms_dispatch_throttle_bytes": _THROTTLE_BYTES}


class Cutting:
    """Mixed into a raw peer: bytes arrive in pieces, and what the core raises is not taken for its own trouble."""

    cut: Cut = staticmethod(whole)
    written = 0
    done = 0
    """Proper steps that it has taken."""
    gave_up = False

    def write(self, raw: bytes) -> None:
        self.written += len(raw)
        for piece in self.cut(raw):
            try:
                super().write(piece)  # type: ignore[misc]
            except Exception as error:
                raise RuntimeError("left the core") from error
            self._check_memory()

    def _check_memory(self) -> None:
        held = self.node.endpoint.held_bytes
        if sum(held.values()) > _HELD_BYTES * len(held):
            raise BrokenPromise(f"links hold {held}, the limit is {_HELD_BYTES} each")

    def proper_step(self) -> None:
        """Take the next proper step of a peer on this link, if the state of the node allows one."""
        if self.gave_up or self.done >= len(self.steps):
            return
        step = self.steps[self.done]
        self.done += 1
        try:
            step()
        except BrokenPromise:
            raise
        except (AttributeError, ScenarioFailed, PeerError):  # a step before it is missing, or not answered
            self.gave_up = True


@dataclass
class Talk:
    """One run of a script."""

    node: Node
    role: str
    """Of the node; always the acceptor under a server's policy, which never dials."""
    new_peer: Callable[[Node], Any]
    """A raw peer that is :class:`Cutting`."""
    peer_addr: str
    """Where the node dials."""
    cut: Cut = whole
    peer: Any = None
    links: int = 0
    written: int = 0

    def meet(self) -> None:
        """A new link, if there may be one: the node dials, or is dialled."""
        if self.peer is not None:
            self.written += self.peer.written
            self.peer.hang_up()
            self.node.run(_PASSING_S)
        self.peer = None
        if self.links == _MOST_LINKS:
            return
        peer = self.new_peer(self.node)
        peer.cut = self.cut
        if self.role == "acceptor" or self.node.endpoint.policies.towards(EntityType.OSD).server:
            self.peer = peer.dial()
        elif self._dials():
            self.peer = peer.accept()
        self.links += 1

    def _dials(self) -> bool:
        if not self.node.endpoint.sessions:
            self.node.connect(self.peer_addr)
        self.node.pump()
        return any(isinstance(output, OpenLink) for output in self.node.outbox)

    def run(self, proper_steps: int, operations: "Sequence[Operation]", cursor: Cursor, cut: Cut) -> int:
        """Proper steps, then the script, whose bytes alone are cut; returns the number of bytes sent."""
        self.meet()
        for _ in range(proper_steps):
            self.peer.proper_step()
        self.cut = self.peer.cut = cut
        for _ in range(_MOST_STEPS):
            if not cursor or self.peer is None:
                break
            operations[cursor.number() % len(operations)](self, cursor)
        written = self.written + (self.peer.written if self.peer else 0)
        self.node.run(1.0)
        return written


Operation = Callable[[Talk, Cursor], None]
"""A step of a script; takes its arguments off the input."""


def raw(talk: Talk, cursor: Cursor) -> None:
    """Any bytes."""
    talk.peer.write(cursor.counted())


def step(talk: Talk, _cursor: Cursor) -> None:
    """Let the peer take the next proper step."""
    talk.peer.proper_step()


def skip_step(talk: Talk, _cursor: Cursor) -> None:
    """The peer takes the next proper step for done."""
    talk.peer.done += 1


def time_passes(talk: Talk, cursor: Cursor) -> None:
    """Up to 25 seconds."""
    talk.node.run(cursor.number() / 10)


def send(talk: Talk, cursor: Cursor) -> None:
    """Let the node's application send a message."""
    for session in talk.node.endpoint.sessions:
        talk.node.send(session, cursor.number())
    talk.peer.pump()


def meet_again(talk: Talk, _cursor: Cursor) -> None:
    """The peer hangs up, and there is another link."""
    talk.meet()


def unblock(talk: Talk, _cursor: Cursor) -> None:
    """The interceptor lets the link go on."""
    talk.node.endpoint.unblock(talk.peer.link, talk.node.now)
    talk.peer.pump()


class Stop:
    """Acts once, at one of the frames that are read. What is written depends on cuts, since acks are joined."""

    def __init__(self, cursor: Cursor) -> None:
        self._left = cursor.number()
        self._action = ACTIONS[cursor.number() % len(ACTIONS)]

    def intercept(self, _link: Link, point: Point, _passes: int) -> Action:
        self._left -= point.way is Way.READ
        return self._action if point.way is Way.READ and self._left == 0 else Action.CONTINUE


class HoardingNode(Node):
    """Holds on to what it is given until the next thing happens."""

    def pump(self) -> bool:
        self.hoarding = True
        before = len(self.delivered)
        moved = super().pump()
        while held := self.delivered[before:]:
            before = len(self.delivered)
            for session, message in held:
                self.endpoint.release(message.size_bytes, self.now, session)
            super().pump()
        return moved


def observed(node: Node) -> list[object]:
    """Return what must not depend on cuts: deliveries, events, faults, frames and the numbers of sessions."""
    seen: list[object] = [*node.kinds]
    for record in node.trace:
        if record.kind == "fault":
            # Of a stream that is not msgr at all the text quotes what had arrived.
            exact = record.fields["reason"] != FaultReason.NOT_MSGR.name
            seen.append((record.fields["reason"], record.fields["detail"] if exact else ""))
        elif record.kind == "frame" and record.fields["direction"] == "rx":
            seen.append(record.fields)
    seen += [
        (message.tid, message.seq, message.type, *map(bytes, _parts(message))) for _, message in node.delivered
    ]
    for session in node.endpoint.sessions:
        seen.append((session.state, *(getattr(session, name) for name in _COUNTED)))
    return seen


def _parts(message: Message) -> tuple[Any, Any, Any]:
    return message.front, message.middle, message.data


def run_every_way(play: Callable[[Cut], tuple[Node, int]]) -> int:
    """Play a script in every way its bytes may be cut; returns the number of bytes sent to the nodes."""
    written = 0

    def watched(cut: Cut) -> list[object]:
        nonlocal written
        node, count = play(cut)
        written += count
        assert node.fault_texts is not None  # each is checked to be one clear line
        if node.endpoint.snapshot()["dispatch_bytes"]:
            raise BrokenPromise(f"throttle does not come to rest: {node.endpoint.snapshot()}")
        return observed(node)

    same_for_every_cut(watched)
    return written
