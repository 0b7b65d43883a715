"""Compares our frames with those of the real side: equal, different in a documented way, or different.

Handshake frames, messages, and answers to keepalives are each compared one by one, in their order. The order
between the three, and the time of acknowledgements, differ between implementations: of acknowledgements only the
numbers are compared.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest

from messenger.v1.framing import HEADER
from messenger.v1.wire import Connect
from messenger.v2.wire import MESSAGE_HEADER, MESSAGE_HEADER_FIELDS
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame
from toolkit.dissect.stream import Ending
from toolkit.replay.cephx import answers_an_old_challenge
from toolkit.replay.handshake import control_of, piece_of
from toolkit.replay.player import Played
from toolkit.replay.record import DATA_TAGS

ACK_TIMING = "time of ACKs"
"""Name of the rule on acknowledgements in results."""
KEPT_AUTHORIZER = "kept authorizer"
"""Name of a rule: Ceph 14.2 begins the next link of a v1 session with the last authorizer of the previous link
(docs/disputes.md)."""
_V1_FIELDS: tuple[str, ...] = (
    *("seq", "tid", "type", "priority", "version", "front_len", "middle_len", "data_len", "data_off"),
    *("src_type", "src_num", "compat_version", "reserved", "crc"),
)
_MESSAGES = frozenset({"MESSAGE", "MSG"})
_TIMED = frozenset({"KEEPALIVE", "KEEPALIVE2"})
"""Frames whose stamp is the time at which the application requested them."""
_PARTS = ("front", "middle", "data")


@dataclass(frozen=True, slots=True)
class Difference:
    """A frame of one side that the other side did not send in the same way."""

    link: int
    """Number of the stream in the capture."""
    frame: int | None
    """Number of the frame in the capture; None if only our side sent one."""
    tag: str
    what: str
    """The fields that differ, or the missing frame."""

    @property
    def kind(self) -> str:
        """The difference without values; one of each kind is shown."""
        return f"{self.tag}: {' '.join(word.partition('=')[0] for word in self.what.split(', '))}"


@dataclass(slots=True)
class Comparison:
    """The comparison of all links of a session."""

    compared: int = 0
    equal: int = 0
    allowed: Counter[str] = field(default_factory=Counter)
    """Frames that differ in a documented way, by rule."""
    differences: list[Difference] = field(default_factory=list)

    def take(self, played: Played) -> None:
        """Compare the frames of one link."""
        link = played.link.stream.index
        theirs = [each for each in played.link.frames if each.direction is played.sends and _counts(each)]
        ours = [each for each in played.frames if _counts(each)]
        if played.problem:
            self._add_difference(Difference(link, theirs[0].frame if theirs else None, "link", played.problem))
            return
        self._in_order(played, _handshake(theirs), _handshake(ours))
        self._in_order(played, _tagged(theirs, _MESSAGES), _tagged(ours, _MESSAGES))
        for tag in ("KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK", "CLOSE"):
            self._in_order(played, _tagged(theirs, {tag}), _tagged(ours, {tag}))
        self._acks(played, theirs, ours)

    def kinds(self) -> list[list[Difference]]:
        """Return the differences grouped by kind, in the order of the first of each kind."""
        found: dict[str, list[Difference]] = {}
        for each in self.differences:
            found.setdefault(each.kind, []).append(each)
        return list(found.values())

    def _add_difference(self, difference: Difference) -> None:
        self.compared += 1
        self.differences.append(difference)

    def _in_order(self, played: Played, theirs: Sequence[DecodedFrame], ours: Sequence[DecodedFrame]) -> None:
        link = played.link.stream.index
        for real, mine in zip_longest(theirs, ours):
            if real is None:
                if not _cut_by_peer(played):
                    self._add_difference(
                        Difference(link, None, mine.tag, f"only ours sends it: {_frame_text(mine)}")
                    )
            elif mine is None:
                why = f" (ours had closed the link: {played.closed})" if played.closed else ""
                self._add_difference(Difference(link, real.frame, real.tag, f"ours does not send it{why}"))
            else:
                self._pair(played, real, mine)

    def _pair(self, played: Played, real: DecodedFrame, mine: DecodedFrame) -> None:
        link = played.link.stream.index
        self.compared += 1
        if real.tag != mine.tag:
            self.differences.append(Difference(link, real.frame, real.tag, f"ours sends {mine.tag}"))
            return
        wrong = list(_differing(real, mine))
        if mine.is_bad:
            wrong.append(f"ours is wrong: {mine.error}")
        elif not wrong and real.tag not in _TIMED and _same_bytes_due(real, mine) and real.wire != mine.wire:
            wrong.append("wire=other crcs, signature or preamble")
        if not wrong:
            self.equal += 1
        elif len(wrong) == 1 and _acknowledges_more(real, mine):
            self.allowed[ACK_TIMING] += 1
        elif len(wrong) == 1 and self._kept_authorizer(played, real, mine):
            self.allowed[KEPT_AUTHORIZER] += 1
        else:
            self.differences.append(Difference(link, real.frame, real.tag, ", ".join(wrong)))

    @staticmethod
    def _kept_authorizer(played: Played, real: DecodedFrame, mine: DecodedFrame) -> bool:
        """True if the real side opens a link of a resumed session with an authorizer of an earlier link."""
        theirs, ours = piece_of(real), piece_of(mine)
        if not (isinstance(theirs, Connect) and isinstance(ours, Connect) and theirs.connect_seq):
            return False
        return answers_an_old_challenge(theirs.authorizer, ours.authorizer, played.link.handshake.session_key)

    def _acks(self, played: Played, theirs: Sequence[DecodedFrame], ours: Sequence[DecodedFrame]) -> None:
        """Compare acknowledgements: ours must cover those of the real side by then, and only received messages.

        Our side receives a message as soon as the capture has it, so it may acknowledge earlier than the real
        side, but not later.
        """
        link = played.link.stream.index
        received = [
            each.message.seq for each in played.link.frames if each.message and each.direction is not played.sends
        ]
        most = max([*received, _announced(played)], default=0)
        acked = [(each.time_ns, number) for each in ours if (number := _acknowledged(each)) is not None]
        times = [time_ns for time_ns, _ in acked]
        best = [0, *accumulate((number for _, number in acked), max)]
        newest = best[-1]
        if newest > most:
            self._add_difference(
                Difference(link, None, "ACK", f"ours acknowledges {newest}, the last message was {most}")
            )
        exact = {_acknowledged(each) for each in ours if each.tag == "ACK"}
        for real in theirs:
            number = _acknowledged(real) if real.tag == "ACK" else None
            if number is None:
                continue
            by_then = best[bisect_right(times, real.time_ns)]
            if number > by_then:
                what = f"seq={number}, ours has acknowledged up to {by_then}"
                self._add_difference(Difference(link, real.frame, "ACK", what))
                continue
            self.compared += 1
            if number in exact:
                self.equal += 1
            else:
                self.allowed[ACK_TIMING] += 1


def _counts(frame: DecodedFrame) -> bool:
    return frame.tag not in NO_FRAMES


def _handshake(frames: Sequence[DecodedFrame]) -> list[DecodedFrame]:
    return [each for each in frames if each.tag not in DATA_TAGS]


def _tagged(frames: Sequence[DecodedFrame], tags: set[str] | frozenset[str]) -> list[DecodedFrame]:
    return [each for each in frames if each.tag in tags]


def _cut_by_peer(played: Played) -> bool:
    """True if the real side could not send more: the capture ended, or the peer or a reset ended the link."""
    end = played.link.end
    return end is None or end.how is Ending.RESET or end.direction is not played.sends


def _announced(played: Played) -> int:
    """Return the in_seq that our side announces in the handshake, from messages of earlier links."""
    fields = [each.fields for each in played.frames if each.message is None]
    numbers = [each.get("msg_seq") or each.get("seq") for each in fields]
    return max([number for number in numbers if isinstance(number, int)], default=0)


def _acknowledges_more(real: DecodedFrame, mine: DecodedFrame) -> bool:
    """True if our message acknowledges more than the real one, for two that differ in one field."""
    if real.message is None or mine.message is None:
        return False
    return mine.message.ack_seq > real.message.ack_seq


def _acknowledged(frame: DecodedFrame) -> int | None:
    if frame.message is not None:
        return frame.message.ack_seq
    number = frame.fields.get("seq") if frame.tag == "ACK" else None
    return number if isinstance(number, int) else None


def _frame_text(frame: DecodedFrame) -> str:
    if frame.message is not None:
        return f"{frame.message.name} seq {frame.message.seq}"
    return " ".join(f"{name}={value}" for name, value in frame.fields.items()) or frame.tag


# ---- fields


def _differing(real: DecodedFrame, mine: DecodedFrame) -> Iterator[str]:
    """Yield the names of fields that differ, each with both values."""
    if real.message is not None and mine.message is not None:
        yield from _message_fields(real, mine)
        return
    if real.tag in _TIMED or bytes(real.wire) == bytes(mine.wire):
        return
    ours, theirs = _fields(mine), _fields(real)
    for name in dict.fromkeys([*theirs, *ours]):
        if theirs.get(name) != ours.get(name):
            yield f"{name}={_short(theirs.get(name))} ours={_short(ours.get(name))}"
    if real.compressed != mine.compressed:
        yield f"compressed={real.compressed} ours={mine.compressed}"


def _message_fields(real: DecodedFrame, mine: DecodedFrame) -> Iterator[str]:
    layout, names = HEADER, _V1_FIELDS
    if real.protocol != "v1":
        layout, names = MESSAGE_HEADER, MESSAGE_HEADER_FIELDS
    theirs, ours = bytes(real.segments[0]), bytes(mine.segments[0])
    if len(theirs) != len(ours) or len(theirs) < layout.size:
        yield f"header={len(theirs)} bytes ours={len(ours)} bytes"
    else:
        for name, value, other in zip(names, layout.unpack_from(theirs), layout.unpack_from(ours), strict=True):
            if value != other and name != "crc":
                yield f"{name}={value} ours={other}"
    for name, part, other_part in zip(_PARTS, real.segments[1:], mine.segments[1:], strict=True):
        if bytes(part) != bytes(other_part):
            yield f"{name}={len(part)} bytes ours={len(other_part)} other bytes"
    if real.compressed != mine.compressed:
        yield f"compressed={real.compressed} ours={mine.compressed}"


def _same_bytes_due(real: DecodedFrame, mine: DecodedFrame) -> bool:
    """True if equal contents give equal bytes: on links without encryption, which has nonces, and compression."""
    return "secure" not in {real.mode, mine.mode} and not real.compressed


def _fields(frame: DecodedFrame) -> dict[str, object]:
    value = control_of(frame) if frame.protocol != "v1" else piece_of(frame)
    if value is None:
        return frame.fields
    names: dict[str, object] = getattr(value, "__dataclass_fields__", {})
    return {name: getattr(value, name) for name in names}


def _short(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    return str(value)
