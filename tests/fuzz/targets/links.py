"""A whole link, in either role and at any point of its life, and a peer that says anything.

An input is two bytes of options and a script. The first byte chooses role, security, and how many proper steps
the peer takes before the script; the second the policy, a small dispatch throttle, an application that holds on
to what it gets, the peer's msgr2 features, whether the node compresses, and whether its interceptor stops the
link: at which of the frames that are read and how, say two bytes more then. Each step of the script is an
operation of ``OPERATIONS`` with its arguments.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from messenger.denc.features import Msgr2Feature
from messenger.errors import FaultReason, PeerError
from messenger.interception import Action, Point, Way
from messenger.link import Link
from messenger.messages.message import Message
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.wire import MESSAGE_HEADER, CompressionRequest, Tag
from tests.fuzz.seeds import SECURITY, captured_messages, conversation, one_way, reconnection
from tests.fuzz.target import KIB, BrokenPromise, Cursor, Cut, Target, same_for_every_cut, whole
from tests.support.node import B_ADDR, Node, new_node
from tests.support.raw_peer import ROLES, RawPeer
from toolkit.dissect.follow import Direction

POLICIES = (LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER)
_PREAUTH_FRAME_BYTES = 4 * KIB
_PREAUTH_BYTES = 16 * KIB
_FRAME_BYTES = 64 * KIB
_THROTTLE_BYTES = 200
_MOST_STEPS = 12
_MOST_LINKS = 3
_PASSING_S = 0.7
_FEATURES = (
    Msgr2Feature.REVISION_1,
    Msgr2Feature.REVISION_1 | Msgr2Feature.COMPRESSION,
    0,
    Msgr2Feature.COMPRESSION,
)
_ACTIONS = tuple(Action)
_COMPRESSING = {
    "ms_osd_compress_mode": "force",
    "ms_osd_compress_min_size": 0,
    "ms_compress_secure": True,
    "ms_osd_compression_algorithm": "snappy zlib zstd lz4 brotli",
}
_COUNTED_BY_PEERS = ("in_seq", "out_seq", "acked_seq", "connect_seq", "global_seq", "peer_global_seq")


class CutPeer(RawPeer):
    """A raw peer whose bytes arrive in pieces; what the core raises is not mistaken for the peer's own trouble."""

    cut: Cut = staticmethod(whole)
    written = 0
    done = 0
    """Proper steps that it has taken."""
    gave_up = False

    def write(self, raw: bytes) -> None:
        self.written += len(raw)
        for piece in self.cut(raw):
            try:
                super().write(piece)
                self._check_memory()
            except Exception as error:
                raise RuntimeError("left the core") from error

    def _check_memory(self) -> None:
        limit = _FRAME_BYTES + _PREAUTH_BYTES
        held = self.node.endpoint.held_bytes
        if sum(held.values()) > limit * len(held):
            raise BrokenPromise(f"links hold {held}, the limit is {limit} each")


@dataclass
class Talk:
    """One run of a script."""

    node: Node
    role: str
    security: int
    features: int
    cut: Cut = whole
    peer: CutPeer | None = None
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
        auth, mode = SECURITY[self.security]
        peer = CutPeer(self.node, auth=auth, mode=mode, features=self.features)
        peer.cut = self.cut
        if self.role == "acceptor":
            self.peer = peer.dial()
        elif self._dials():
            self.peer = peer.accept()
        self.links += 1

    def cut_from_here(self, cut: Cut) -> None:
        """Cut what the peer says from now on; before, it would be the same in every run."""
        self.cut = cut
        if self.peer is not None:
            self.peer.cut = cut

    def _dials(self) -> bool:
        if not self.node.endpoint.sessions:
            self.node.connect(B_ADDR)
        self.node.pump()
        return any(type(output).__name__ == "OpenLink" for output in self.node.outbox)

    def proper_step(self) -> None:
        """What a proper peer would do next on this link, as far as the node plays along."""
        peer = self.peer
        if peer is None or peer.gave_up:
            return
        if peer.done < len(peer.steps):
            step = peer.steps[peer.done]
            peer.done += 1
            try:
                step()
            except BrokenPromise:
                raise
            except (AssertionError, AttributeError, PeerError):  # a step before it is missing, or not answered
                peer.gave_up = True


def _raw(talk: Talk, cursor: Cursor) -> None:
    talk.peer.write(cursor.counted())


def _frame(talk: Talk, cursor: Cursor) -> None:
    tag, payload = cursor.number(), cursor.counted()
    talk.peer.write(talk.peer.writer.control(tag, payload))


def _message(talk: Talk, cursor: Cursor) -> None:
    """A message with any header: the numbers that matter one by one, the rest as usual."""
    seq, ack_seq, kind, version = cursor.number(), cursor.number(), cursor.number(2), cursor.number()
    front, data, times = cursor.counted(), cursor.counted(), cursor.number()
    header = MESSAGE_HEADER.pack(seq, seq, kind, 127, version, 0, 0, ack_seq, 3, 1, 0)
    _write_message(talk.peer, header, front, data * (1 + times))


def _any_message(talk: Talk, cursor: Cursor) -> None:
    _write_message(talk.peer, cursor.take(MESSAGE_HEADER.size), cursor.counted(), cursor.counted())


def _write_message(peer: RawPeer, header: bytes, front: bytes, data: bytes) -> None:
    pieces: list = []
    peer.writer.message(pieces, header, front, b"", data)
    peer.write(b"".join(pieces))


def _step(talk: Talk, _cursor: Cursor) -> None:
    talk.proper_step()


def _spoilt_step(talk: Talk, cursor: Cursor) -> None:
    """The next proper step, with one byte of its next frame's payload changed before it is sealed."""
    at, mask, peer = cursor.number(), cursor.number(), talk.peer
    writer = peer.writer

    class Spoiler:
        message = staticmethod(writer.message)
        compressed = staticmethod(writer.compressed)

        @staticmethod
        def control(tag: int, payload: bytes) -> bytes:
            changed = bytearray(payload or b"\0")
            changed[at % len(changed)] ^= mask
            return writer.control(tag, bytes(changed))

    peer.writer = Spoiler
    talk.proper_step()
    if peer.writer is Spoiler:
        peer.writer = writer


def _batch(talk: Talk, cursor: Cursor) -> None:
    """Several frames that arrive together."""
    frames = [talk.peer.writer.control(cursor.number(), cursor.counted()) for _ in range(cursor.number() % 4)]
    talk.peer.write(b"".join(frames))


def _compressed(talk: Talk, cursor: Cursor) -> None:
    """A frame with the flag that says compressed, around two segments that may be so."""
    tag, algorithm = cursor.number(), cursor.number() % (len(Algorithm) + 1)
    segments = [cursor.counted(), cursor.counted()]
    if 0 < algorithm < len(Algorithm):
        compressor = new_compressor(Algorithm(algorithm))
        segments = [compressor.compress(segment) or segment if segment else b"" for segment in segments]
    pieces: list = []
    talk.peer.writer.compressed(pieces, tag, (*segments, b"", b""))
    talk.peer.write(b"".join(pieces))


def _time(talk: Talk, cursor: Cursor) -> None:
    talk.node.run(cursor.number() / 10)


def _send(talk: Talk, cursor: Cursor) -> None:
    """The node's application has something to say."""
    for session in talk.node.endpoint.sessions:
        talk.node.send(session, cursor.number())
    talk.peer.pump()


def _skip_step(talk: Talk, _cursor: Cursor) -> None:
    """The peer takes the next proper step for done."""
    talk.peer.done += 1


def _meet_again(talk: Talk, _cursor: Cursor) -> None:
    talk.meet()


def _unblock(talk: Talk, _cursor: Cursor) -> None:
    talk.node.endpoint.unblock(talk.peer.link, talk.node.now)
    talk.peer.pump()


OPERATIONS: tuple[Callable[[Talk, Cursor], None], ...] = (
    _raw,
    _frame,
    _message,
    _any_message,
    _step,
    _spoilt_step,
    _batch,
    _time,
    _send,
    _meet_again,
    _compressed,
    _skip_step,
    _unblock,
)
(
    _RAW,
    _FRAME,
    _MESSAGE,
    _ANY_MESSAGE,
    _STEP,
    _SPOILT,
    _BATCH,
    _TIME,
    _SEND,
    _AGAIN,
    _COMPRESSED,
    _SKIP,
    _UNBLOCK,
) = range(len(OPERATIONS))


class Stop:
    """Acts once, at one of the frames that are read. What is written depends on cuts, since acks are joined."""

    def __init__(self, nth: int, action: Action) -> None:
        self._left = nth
        self._action = action

    def intercept(self, _link: Link, point: Point, _passes: int) -> Action:
        self._left -= point.way is Way.READ
        return self._action if point.way is Way.READ and self._left == 0 else Action.CONTINUE


class HoardingNode(Node):
    """Holds on to what it is given until the next thing happens."""

    def pump(self) -> bool:
        self.hoarding = True
        before = len(self.delivered)
        moved = super().pump()
        held = sum(message.size_bytes for _, message in self.delivered[before:])
        if held:
            self.endpoint.release(held, self.now)
            super().pump()
        return moved


def play(data: bytes, cut: Cut) -> tuple[Node, int]:
    """Run a script; the node as it is then, and how many bytes were said to it."""
    cursor = Cursor(data)
    choice, options = cursor.number(), cursor.number()
    role, choice = ROLES[choice % 2], choice // 2
    security, steps = choice % len(SECURITY), choice // len(SECURITY) % 8
    auth, mode = SECURITY[security]
    node = new_node(
        auth=auth,
        mode=mode,
        policy=POLICIES[options % 4],
        max_preauth_frame_bytes=_PREAUTH_FRAME_BYTES,
        max_preauth_bytes=_PREAUTH_BYTES,
        max_frame_bytes=_FRAME_BYTES,
        ms_dispatch_throttle_bytes=_THROTTLE_BYTES if options & 4 else 100 << 20,
        interceptor=Stop(cursor.number(), _ACTIONS[cursor.number() % len(_ACTIONS)]) if options & 128 else None,
        **_COMPRESSING if options & 64 else {},
    )
    if options & 8:
        node = HoardingNode(node.endpoint)
    talk = Talk(node, role, security, _FEATURES[options >> 4 & 3])
    talk.meet()
    for _ in range(steps):
        talk.proper_step()
    talk.cut_from_here(cut)
    for _ in range(_MOST_STEPS):
        if not cursor or talk.peer is None:
            break
        OPERATIONS[cursor.number() % len(OPERATIONS)](talk, cursor)
    written = talk.written + (talk.peer.written if talk.peer else 0)
    node.run(1.0)
    return node, written


def observed(node: Node) -> list[object]:
    """What must not depend on cuts: deliveries, events, faults, frames and the numbers of sessions."""
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
        seen.append((session.state, *(getattr(session, name) for name in _COUNTED_BY_PEERS)))
    return seen


def _parts(message: Message) -> tuple:
    return message.front, message.middle, message.data


def run(data: bytes) -> int:
    """Play the script in every way its bytes may be cut."""
    written = 0

    def watched(cut: Cut) -> list[object]:
        nonlocal written
        node, count = play(data, cut)
        written += count
        assert node.fault_texts is not None  # each is checked to be one clear line
        if node.endpoint.snapshot()["dispatch_bytes"]:
            raise BrokenPromise(f"throttle does not come to rest: {node.endpoint.snapshot()}")
        return observed(node)

    same_for_every_cut(watched)
    return written


def script(role: int, security: int, steps: int, options: int, *parts: bytes) -> bytes:
    """An input."""
    return bytes([role + 2 * (security + len(SECURITY) * steps), options]) + b"".join(parts)


def seeds() -> Iterator[bytes]:
    """Proper handshakes, conversations as raw bytes, every control frame in every state, messages, reconnects."""
    again = bytes([_SEND, 1, _AGAIN, *[_STEP] * 5])
    for role, security in product(range(2), range(len(SECURITY))):
        for options in (0, 1, 2, 12):
            yield script(role, security, 6, options, bytes([_TIME, 3]), again, bytes([_TIME, 20]))
        for options in (16, 32, 48, 80):
            yield script(role, security, 7, options, bytes([_SEND, 1, _MESSAGE, 1, 1, 2, 0, 1, 1, 65, 1, 66, 40]))
        for steps in range(6):
            yield script(role, security, steps, 0, bytes([_SPOILT, 9, 1]))
    for action, nth in product(range(len(_ACTIONS)), (1, 4, 6)):
        stop = bytes([nth, action])
        yield script(1, 0, 6, 128, stop, bytes([_MESSAGE, 1, 0, 2, 0, 1, 0, 1, 5, 9, _UNBLOCK, _STEP, _TIME, 200]))
    for algorithm in Algorithm:
        asked = CompressionRequest(is_compress=True, methods=[algorithm]).encode()
        header = MESSAGE_HEADER.pack(1, 1, 2, 127, 1, 0, 0, 0, 3, 1, 0)
        compressed = bytes([_COMPRESSED, Tag.MESSAGE, algorithm, len(header)]) + header + b"\x04abcd"
        agree = bytes([_FRAME, Tag.COMPRESSION_REQUEST, len(asked)]) + asked
        yield script(1, 0, 5, 80, agree, bytes([_SKIP, _STEP]), compressed)
    for message in captured_messages()[:5]:
        front = bytes(message.front)[:255]
        head = bytes([_MESSAGE, 1, 0, *message.type.to_bytes(2, "little"), message.version, len(front)])
        yield script(1, 0, 6, 4, head, front, b"\0\0", bytes([_MESSAGE, 1, 9, 2, 0, 1, 0, 1, 5, 255]))
    for tag in Tag:
        yield script(
            tag % 2, 0, 6, 0, bytes([_FRAME, tag, 8]), bytes(8), bytes([_BATCH, 2, 18, 8]) + bytes(8) + b"\x14\0"
        )
    for chunks, role in ((conversation(*SECURITY[0]), Direction.TO_SERVER), (reconnection(), Direction.TO_CLIENT)):
        raw = one_way(chunks, role)[:255]
        yield script(role is Direction.TO_SERVER, 0, 0, 1, bytes([_RAW, len(raw)]), raw)


TARGETS = (
    Target(
        name="v2-link",
        run=run,
        seeds=seeds,
        # Three endpoints, each with its scratch buffer, and their histories.
        allowance_bytes=4096 * KIB,
        mutations=60,
        max_bytes=500,
    ),
)
