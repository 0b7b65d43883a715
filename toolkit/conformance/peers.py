"""The scripted peers of cases: raw links whose methods return the target's reaction as an outcome (a text)."""

from itertools import count
from typing import Any

from messenger.cephx.signature import message_signer
from messenger.cephx.structures import AuthMode, Prelude
from messenger.compat import override
from messenger.denc.entity import AuthName
from messenger.denc.layout import encoded
from messenger.v1.framing import MessageWriter, stream_form
from messenger.v1.wire import ConnectReply
from messenger.v1.wire import Frame as V1Frame
from messenger.v1.wire import KeepAlive2 as V1KeepAlive2
from messenger.v1.wire import KeepAlive2Ack as V1KeepAlive2Ack
from messenger.v2.wire import (
    ControlFrame,
    KeepAlive2,
    KeepAlive2Ack,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
)
from toolkit.conformance.case import CLOSED, OPEN, SILENCE
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.frames import RawFrame
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.v1 import RawV1Link, RawV1Message
from toolkit.node.raw.v2 import RawMessage, RawV2Link

_FIRST_STAMP_S = 1_000_000
_WORDS = {SessionReset: "full", SessionRetry: "connect_seq", SessionRetryGlobal: "global_seq"}
"""The field of a frame that is part of its outcome."""


class _Verbs(RawLink):
    """The methods that peers of both protocols share."""

    _stamps = count(_FIRST_STAMP_S)
    _fence: tuple[type, type]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: list[Any] = []
        """Frames received by :meth:`fate` before the answer to its keepalive."""
        self.received: list[str] = []
        """Names of all frames received."""

    def put(self, raw: bytes, what: str) -> None:
        """Send bytes; ``what`` describes them in the log."""
        self.note(f"sends {what}")
        self.write(raw)

    def half_close(self) -> None:
        """Shut down the sending half of the stream; the target may still send."""
        self.note("ends its half of the stream")
        self.stream.end_writing()  # type: ignore[attr-defined]

    @override
    def await_next(self) -> Any:
        frame = super().await_next()
        if frame is not None:
            self.received.append(word_of(frame))
            self.note(f"receives {word_of(frame)}")
        elif self.stream.closed:
            self.note("finds the link closed")
        return frame

    def outcome(self) -> str:
        """Return the next frame as an outcome; :data:`CLOSED` or :data:`SILENCE` if none arrives."""
        frame = self.await_next()
        if frame is None:
            return CLOSED if self.stream.closed else SILENCE
        return word_of(frame)

    def fate(self) -> str:
        """Send a keepalive and read frames until its answer: OPEN, CLOSED or SILENCE.

        The frames before the answer are in :attr:`seen`.
        """
        stamp = next(self._stamps)
        ping, pong = self._fence
        self.send(ping(stamp, 0))  # type: ignore[attr-defined]
        self.seen = []
        while (frame := self.await_next()) is not None:
            if isinstance(frame, pong) and frame.seconds == stamp:  # type: ignore[attr-defined]
                return OPEN
            self.seen.append(frame)
        return CLOSED if self.stream.closed else SILENCE

    def next_echo(self) -> Any:
        """Return the next KEEPALIVE2_ACK and skip frames before it; None if none arrives."""
        while (frame := self.await_next()) is not None:
            if isinstance(frame, self._fence[1]):
                return frame
        return None

    def echo(self, seconds: int, nanoseconds: int) -> str:
        """Send a KEEPALIVE2 with this stamp; return the stamp of the answer as an outcome."""
        self.send(self._fence[0](seconds, nanoseconds))  # type: ignore[attr-defined]
        answer = self.next_echo()
        if answer is None:
            return CLOSED if self.stream.closed else SILENCE
        return "the same stamp" if (answer.seconds, answer.nanoseconds) == (seconds, nanoseconds) else str(answer)

    def echoes(self) -> str:
        """Send one KEEPALIVE2; return the number of answers as an outcome."""
        ping, pong = self._fence
        self.send(ping(5, 5))  # type: ignore[attr-defined]
        first = self.next_echo()
        fate = self.fate()
        return f"{bool(first) + len(self.seen_of(pong))} answer" if fate == OPEN else fate

    def seen_of(self, kind: type) -> list[Any]:
        """Return the frames of one type among :attr:`seen`."""
        return [frame for frame in self.seen if isinstance(frame, kind)]


class V2Peer(_Verbs, RawV2Link):
    """A v2 link of a case."""

    _fence = (KeepAlive2, KeepAlive2Ack)

    @property
    def signed_bytes(self) -> bytes:
        """All bytes received so far: after AUTH_DONE, the bytes that the peer's AUTH_SIGNATURE covers."""
        return bytes(self._rx)

    def gets_banner(self) -> bool:
        """Wait for the target's banner; True if it arrives in time."""
        self.stream.wait(lambda: self._look_at_banner() or self.stream.closed, self.patience_s)
        return self._banner is not None

    def frame(self, frame: RawFrame, what: str) -> None:
        """Send a frame built field by field; in secure mode it is encrypted."""
        self._look_at_banner()
        self.put(frame.encode(self.seal), what)

    def payload(self, tag: int, payload: bytes, what: str) -> None:
        """Send a control frame with this payload."""
        self.frame(RawFrame(tag, (payload,)), what)


class V1Peer(_Verbs, RawV1Link):
    """A v1 link of a case."""

    _fence = (V1KeepAlive2, V1KeepAlive2Ack)

    def without_data_crc(self) -> None:
        """Send further messages with NOCRC; their signatures still cover the real crc of the data."""
        assert self.reply is not None
        features = self.reply.features & self.features
        signer = message_signer(self.result, features)
        self.writer = MessageWriter(signer, addr=self.addr, **stream_form(features), sum_data=False)

    def ask(self, **changes: Any) -> str:
        """Send CONNECT, answer a challenge, and return the tag of the target's last reply as an outcome."""
        try:
            tag = self.converse(**changes).tag.name
        except ScenarioFailed:
            return CLOSED if self.stream.closed else SILENCE
        self.note(f"receives {tag}")
        return tag

    def answer_to_connect(self) -> str:
        """Return the tag of the next reply to CONNECT as an outcome."""
        try:
            reply = self.reply = self.expect(ConnectReply)
        except ScenarioFailed:
            return CLOSED if self.stream.closed else SILENCE
        self.note(f"receives {reply.tag.name}")
        return reply.tag.name


def introduction(name: str = "client.conformance") -> bytes:
    """Return the payload of AUTH_REQUEST to a monitor; Nautilus decodes it before it checks the method."""
    return encoded(Prelude(AuthMode.MON, AuthName.parse(name), 0))


def word_of(frame: object) -> str:
    """Return a frame as an outcome: its name, and the field that distinguishes it."""
    if isinstance(frame, RawMessage | RawV1Message):
        return f"MESSAGE {frame.seq}"
    if isinstance(frame, ControlFrame):
        field = _WORDS.get(type(frame))
        return f"{frame.TAG.name} {field}={getattr(frame, field):d}" if field else frame.TAG.name
    return str(frame.PIECE) if isinstance(frame, V1Frame) else repr(frame)
