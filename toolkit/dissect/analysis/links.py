"""One link of a capture: its handshake, and the session that it belongs to."""

from dataclasses import dataclass, field

from messenger.v2.compressor import Algorithm
from toolkit.dissect.analysis.messages import Party
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame
from toolkit.dissect.stream import Stream

OPENING_TAGS = frozenset({"SERVER_IDENT", "SESSION_RECONNECT_OK"})
"""The v2 frames after which messages flow."""
_READY = frozenset({"READY", "SEQ"})
"""Tags of the v1 reply after which messages flow."""
_MODE_TAGS = frozenset({"AUTH_DONE", "CONNECT_REPLY"})
_DATA = frozenset({"MESSAGE", "MSG", "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK", "CLOSE"})
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


_ADDRESS = ":"
"""Part of each address, and of no name."""
SECURE_CIPHER = "AES-128-GCM"
_ALGORITHMS: dict[object, str] = {int(each): each.name.lower() for each in Algorithm}


@dataclass(frozen=True, slots=True)
class HandshakeStep:
    """One frame of a handshake."""

    time_ns: int
    direction: Direction
    tag: str
    fields: dict[str, object]

    @property
    def phase(self) -> str:
        """``banner`` (with HELLO or the addresses), ``auth`` or ``ident`` (on v1 including the authorizers)."""
        return _PHASES.get(self.tag, "ident")


@dataclass(slots=True, eq=False)
class LinkView:
    """What the frames of one link show."""

    stream: Stream
    began_ns: int
    protocol: str = ""
    mode: str = ""
    """Mode of its last frame."""
    mode_frame: int | None = None
    """Number of the frame in which the acceptor stated the mode: AUTH_DONE on v2, CONNECT_REPLY on v1."""
    ended_ns: int = 0
    ready_ns: int | None = None
    """Time from which messages could flow; None if the handshake did not finish."""
    outcome: str = ""
    """Outcome of the handshake: the tag of its last frame, or of v1's last reply."""
    phases_ns: dict[str, int] = field(default_factory=dict)
    """Length of each phase of the handshake up to the phase's last frame."""
    connect: HandshakeStep | None = None
    """The last CONNECT of a v1 link."""
    addresses: dict[Direction, str] = field(default_factory=dict)
    """Addresses that the sides of a v1 link announced, by the sender's direction."""
    parties: tuple[Party, Party] | None = None
    """The parties of its session; None until it has joined one."""
    dialler: int = 0
    """Index of the party of its session that opened it."""
    hop_of: "LinkView | None" = None
    """The link of which this one is another hop, through a proxy or an address translation; else None."""
    global_id: int = 0
    """Global_id of the connector, from the acceptor's AUTH_DONE; 0 if it was not seen."""
    compression: str = ""
    """Algorithm of compressed frames on which both sides agreed; empty if none."""
    frames: int = 0
    last_frame: int = 0
    """Number of its last frame in the capture."""
    messages: int = 0
    _names: dict[Direction, str] = field(default_factory=dict)
    _kinds: dict[Direction, object] = field(default_factory=dict)
    """By direction, the entity type in the first HELLO."""
    _last_step_ns: int | None = None
    _has_ident: bool = False

    def take(self, frame: DecodedFrame) -> HandshakeStep | None:
        """Add a frame; returns it as a step of the handshake, if it is one.

        Of a frame with a wrong crc, authentication tag or signature only the time counts.
        """
        self.ended_ns = frame.time_ns
        self.frames += 1
        self.last_frame = frame.frame
        if frame.is_bad:
            return None
        self.protocol = frame.protocol or self.protocol
        self.mode = frame.mode or self.mode
        if frame.message is not None:
            self.messages += 1
            if frame.message.src:
                self._names[frame.direction] = frame.message.src
        if frame.tag in _DATA or frame.tag in NO_FRAMES or frame.message is not None:
            return None
        if frame.tag in _MODE_TAGS:
            self.mode_frame = frame.frame
        step = HandshakeStep(frame.time_ns, frame.direction, frame.tag, frame.fields)
        self._follow(step)
        return step

    def _follow(self, step: HandshakeStep) -> None:
        """Update the link by a step of the handshake. No step is kept, since a handshake may have any number."""
        if self.ready_ns is None or step.time_ns <= self.ready_ns:
            before = self.began_ns if self._last_step_ns is None else self._last_step_ns
            self.phases_ns[step.phase] = self.phases_ns.get(step.phase, 0) + step.time_ns - before
            self._last_step_ns = step.time_ns
        if self.ready_ns is None and (step.tag in OPENING_TAGS or step.fields.get("tag") in _READY):
            self.ready_ns = step.time_ns
        self._learn_name(step)
        is_ident = step.phase == "ident" and step.tag != "SEQ"
        if step.tag == "CONNECT_REPLY":
            self.outcome = str(step.fields.get("tag", step.tag))
        elif is_ident or not self._has_ident:
            self.outcome = step.tag
        self._has_ident |= is_ident
        if step.tag == "CONNECT":
            self.connect = step
        elif step.tag == "IDENTIFY":
            name = "client_addr" if step.direction is Direction.TO_SERVER else "server_addr"
            self.addresses[step.direction] = str(step.fields.get(name, self.stream.source(step.direction)))

    def _learn_name(self, step: HandshakeStep) -> None:
        """Learn the sender's entity type from HELLO, and its number from the ident frames."""
        if step.tag == "HELLO":
            self._kinds.setdefault(step.direction, step.fields.get("entity_type"))
        if step.tag == "AUTH_DONE" and isinstance(known := step.fields.get("global_id"), int):
            self.global_id = known
        if step.tag == "COMPRESSION_DONE" and step.fields.get("is_compress"):
            self.compression = _ALGORITHMS.get(step.fields.get("method"), "unknown")
        gid = step.fields.get("gid")
        if isinstance(gid, int) and step.direction in self._kinds:
            self._names.setdefault(step.direction, f"{self._kinds[step.direction]}.{gid}")

    def name(self, direction: Direction) -> str:
        """Return the sender's name in a direction, as in Ceph's logs; its address if the name is unknown.

        An end that no frame of the link names has the name of its party in the session. A client without a number
        in its messages yet is named by its global_id, else by its address.
        """
        name = self._names.get(direction) or self._party_name(direction) or self.stream.source(direction)
        if not name.endswith(".?"):
            return name
        if self.global_id and direction is Direction.TO_SERVER and name.startswith("client."):
            return f"client.{self.global_id}"
        return f"{name} at {self.stream.source(direction)}"

    def _party_name(self, direction: Direction) -> str:
        """Return the name that other links of the session show; empty if none does."""
        if self.parties is None:
            return ""
        name = self.parties[self.side(direction)].name
        return "" if _ADDRESS in name else name

    def side(self, direction: Direction) -> int:
        """Return the index of the sender in a direction among the parties of the link's session."""
        return self.dialler if direction is Direction.TO_SERVER else 1 - self.dialler

    @property
    def cipher(self) -> str:
        """The cipher of secure mode; empty in crc mode."""
        return SECURE_CIPHER if self.mode == "secure" else ""

    def ending(self, capture_ended_ns: int) -> str:
        """Describe how the TCP connection ended; empty if that is unknown."""
        ends = self.name(Direction.TO_SERVER), self.name(Direction.TO_CLIENT)
        return self.stream.tcp.ending(*ends, capture_ended_ns)

    def address(self, direction: Direction) -> str:
        """Return the address that the sender announced on v1; that of the packets if none was seen."""
        return self.addresses.get(direction) or self.stream.source(direction)
