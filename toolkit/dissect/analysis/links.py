"""One link of a capture: its handshake step by step, and which session it ended up in."""

from dataclasses import dataclass, field

from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.stream import Stream

OPENING_TAGS = frozenset({"SERVER_IDENT", "SESSION_RECONNECT_OK"})
"""The v2 frames after which messages flow."""
_READY = frozenset({"READY", "SEQ"})
"""Tags of the v1 reply that does the same."""
_DATA = frozenset({"MESSAGE", "MSG", "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK", "CLOSE"})
_NO_FRAMES = frozenset({"UNKNOWN", "GAP"})
_PHASES = {
    "BANNER": "banner",
    "HELLO": "banner",
    "IDENTIFY": "banner",
    "AUTH_REQUEST": "auth",
    "AUTH_BAD_METHOD": "auth",
    "AUTH_REPLY_MORE": "auth",
    "AUTH_REQUEST_MORE": "auth",
    "AUTH_DONE": "auth",
    "AUTH_SIGNATURE": "auth",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One frame of a handshake."""

    time_ns: int
    direction: Direction
    tag: str
    fields: dict[str, object]

    @property
    def phase(self) -> str:
        """``banner`` (with HELLO or the addresses), ``auth`` or ``ident`` (v1 has its authorizers in there)."""
        return _PHASES.get(self.tag, "ident")


@dataclass(slots=True, eq=False)
class LinkView:
    """What one link was."""

    stream: Stream
    began_ns: int
    protocol: str = ""
    mode: str = ""
    """That of its last frame."""
    ended_ns: int = 0
    steps: list[Step] = field(default_factory=list)
    """Its handshake."""
    ready_ns: int | None = None
    """When messages could flow; None if it did not come so far."""
    names: dict[Direction, str] = field(default_factory=dict)
    """Who sends in a direction, as Ceph's logs name it; its address where that is not known."""
    dialler: int = 0
    """Which party of its session opened it."""
    frames: int = 0
    messages: int = 0

    def take(self, frame: DecodedFrame) -> Step | None:
        """One more frame of it; what it is in the handshake, if it is of the handshake."""
        self.ended_ns = frame.time_ns
        self.frames += 1
        self.protocol = frame.protocol or self.protocol
        self.mode = frame.mode or self.mode
        if frame.message is not None:
            self.messages += 1
            if frame.message.src:
                self.names[frame.direction] = frame.message.src
        if frame.tag in _DATA or frame.tag in _NO_FRAMES or frame.message is not None:
            return None
        step = Step(frame.time_ns, frame.direction, frame.tag, frame.fields)
        self.steps.append(step)
        self._learn_name(step)
        if self.ready_ns is None and (frame.tag in OPENING_TAGS or step.fields.get("tag") in _READY):
            self.ready_ns = frame.time_ns
        return step

    def _learn_name(self, step: Step) -> None:
        """HELLO says what the sender is, the ident frames which one."""
        gid = step.fields.get("gid")
        kinds = [
            hello.fields.get("entity_type")
            for hello in self.steps
            if hello.tag == "HELLO" and hello.direction is step.direction
        ]
        if isinstance(gid, int) and kinds:
            self.names.setdefault(step.direction, f"{kinds[0]}.{gid}")

    def name(self, direction: Direction) -> str:
        """Who sends in a direction."""
        return self.names.get(direction) or self.stream.source(direction)

    @property
    def outcome(self) -> str:
        """What the last word of the handshake was: the tag of its last frame, or of v1's last reply."""
        for step in reversed(self.steps):
            if step.tag == "CONNECT_REPLY":
                return str(step.fields.get("tag", step.tag))
            if step.phase == "ident" and step.tag != "SEQ":
                return step.tag
        return self.steps[-1].tag if self.steps else ""

    def phases_ns(self) -> dict[str, int]:
        """How long each phase of the handshake took, up to its last frame."""
        spent: dict[str, int] = {}
        before = self.began_ns
        for step in self.steps:
            if self.ready_ns is not None and step.time_ns > self.ready_ns:
                break
            spent[step.phase] = spent.get(step.phase, 0) + step.time_ns - before
            before = step.time_ns
        return spent
