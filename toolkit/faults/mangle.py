"""Changes of frames by the proxy: flip bits, truncate, duplicate, swap, replay.

A :class:`Mangle` has a change and the frames that it applies to; it is one of the strikes of a tap
(:mod:`toolkit.faults.tap`), which carries it out. The content of a sealed frame cannot be changed without its key,
only its bytes; in plain frames crcs can be recomputed, so that the changed frame is well-formed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from messenger.compat import override
from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.v2.wire import decode_banner, encode_banner
from toolkit.dissect.follow import Form, SeenFrame
from toolkit.dissect.regions import position, with_crcs
from toolkit.faults.passage import Gate, Pace
from toolkit.faults.rewrites import Rebuilt, decoded, encoded, is_v2_banner, place_of, signed, with_byte
from toolkit.faults.strike import Strike


@dataclass(frozen=True, slots=True)
class Altered:
    """What is delivered in the place of a frame."""

    forward: bytes
    """Bytes for the receiver."""
    back: bytes = b""
    """Bytes for the frame's sender, as if from the other party."""
    held: bool = False
    """True to deliver it after the next frame of its direction."""
    joined: bool = False
    """True to deliver it together with the next frame of its direction, in one write."""
    mute: bool = False
    """True to drop all that follows in its direction, without an error."""
    gates: tuple[Gate, ...] = ()
    """Gates that it and all that follows wait for."""
    aside: tuple[tuple[bytes, Gate], ...] = ()
    """Bytes that are delivered when a gate opens, while the following ones pass."""
    pace: Pace | None = None
    """Rate and piece size of its delivery; None for no limits."""
    lasting: bool = False
    """True to apply the pace to all that follows in its direction, too."""
    segments: tuple[Buffer, ...] | None = None
    """New segments of the frame, if they were changed."""

    def after(self, earlier: "Altered") -> "Altered":
        """Combine with an earlier change, whose output this change was applied to."""
        return Altered(
            self.forward,
            earlier.back + self.back,
            self.held or earlier.held,
            self.joined or earlier.joined,
            self.mute or earlier.mute,
            earlier.gates + self.gates,
            earlier.aside + self.aside,
            self.pace or earlier.pace,
            self.lasting or earlier.lasting,
            self.segments or earlier.segments,
        )


class Change(ABC):
    """A change that is applied to a frame."""

    @property
    @abstractmethod
    def what(self) -> str:
        """One word for the change, for histories."""

    def watch(self, frame: SeenFrame) -> None:  # noqa: B027 - few need to
        """Look at a frame of the sender, matched or not, since the change was set."""

    @abstractmethod
    def alter(self, frame: SeenFrame) -> Altered:
        """Return what is delivered in the frame's place.

        Raises:
            LocalError: the change cannot be applied to that frame.
        """


@dataclass(slots=True)
class Flip(Change):
    """Flip bits of one byte.

    Args:
        byte: offset in the region, field or frame (negative: from its end).
        mask: the bits to flip.
        region: see :func:`toolkit.dissect.regions.regions_of`; empty for the whole frame.
        fix_crc: recompute the crcs that cover it, and signatures and seals where their keys are known.
        field: name of the field that ``byte`` is counted from.
    """

    byte: int = 0
    mask: int = 1
    region: str = ""
    fix_crc: bool = False
    field: str = ""

    @property
    def what(self) -> str:
        """``rewrite`` with recomputed crcs, since the frame is well-formed then; else ``flip``."""
        return "rewrite" if self.fix_crc else "flip"

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        region, byte = self._place(frame)
        if self.fix_crc and frame.form in {Form.SECURE, Form.REV0_SECURE}:
            if not region.startswith("segment "):
                raise LocalError(f"{frame.tag} is sealed: only what is in a segment can be changed with its seal")
            made = with_byte(frame, int(region.removeprefix("segment ")), byte, self.mask)
            return Altered(made.raw, segments=made.segments)
        raw = bytearray(frame.raw)
        raw[position(frame, region, byte)] ^= self.mask
        if self.fix_crc:
            with_crcs(frame, raw)
            return Altered(signed(frame, bytes(raw)))
        return Altered(bytes(raw))

    def position(self, frame: SeenFrame) -> int:
        """Return the offset of the byte in the frame.

        Raises:
            LocalError: the frame does not have it.
        """
        return position(frame, *self._place(frame))

    def _place(self, frame: SeenFrame) -> tuple[str, int]:
        if not self.field:
            return self.region, self.byte
        region, begins = place_of(frame, self.field)
        return region, begins + self.byte

    def __str__(self) -> str:
        crc = ", crc recomputed" if self.fix_crc else ""
        of = self.field or self.region
        return f"bits 0x{self.mask:02x} of byte {self.byte}{f' of {of}' if of else ''}{crc}"


@dataclass(slots=True)
class Truncate(Change):
    """Deliver only the first bytes; the next frame follows directly."""

    what = "truncate"
    bytes_left: int

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw[: self.bytes_left])

    def __str__(self) -> str:
        return f"to {self.bytes_left} bytes"


@dataclass(slots=True)
class Insert(Change):
    """Insert bytes before a byte of the frame; after the frame if ``byte`` is None."""

    what = "insert"
    extra: bytes
    byte: int | None = None

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        at = len(frame.raw) if self.byte is None else self.byte
        return Altered(frame.raw[:at] + self.extra + frame.raw[at:])

    def __str__(self) -> str:
        return f"{len(self.extra)} bytes {'behind it' if self.byte is None else f'at byte {self.byte}'}"


@dataclass(slots=True)
class Drop(Change):
    """Drop the frame; with ``rest`` also all that follows in its direction, without an error."""

    what = "drop"
    rest: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(b"", mute=self.rest)

    def __str__(self) -> str:
        return "it and all that follows" if self.rest else ""


@dataclass(slots=True)
class Duplicate(Change):
    """Deliver the frame twice, the second time directly after the first, or ``after_s`` later."""

    what = "duplicate"
    after_s: float | None = None

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        if self.after_s is None:
            return Altered(frame.raw * 2)
        return Altered(frame.raw, aside=((frame.raw, Gate(self.after_s)),))

    def __str__(self) -> str:
        return "" if self.after_s is None else f"once more after {self.after_s:g} s"


@dataclass(slots=True)
class Replay(Change):
    """Repeat an earlier frame of the same sender after this one; it may be from another link.

    Args:
        tag: tag of the earlier frame.
        nth: which frame of that tag, counted since the change was set.
        instead: True to drop the frame itself.
    """

    what = "replay"
    tag: str
    nth: int = 1
    instead: bool = False
    _seen: int = field(default=0, repr=False)
    _raw: bytes | None = field(default=None, repr=False)

    def watch(self, frame: SeenFrame) -> None:
        """Keep the frame that is to be repeated."""
        if frame.tag == self.tag:
            self._seen += 1
            if self._seen == self.nth:
                self._raw = frame.raw

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        if self._raw is None:
            raise LocalError(f"no {self.tag} #{self.nth} has passed, so none can be repeated")
        return Altered(self._raw if self.instead else frame.raw + self._raw)

    def __str__(self) -> str:
        return f"of {self.tag} #{self.nth}{' in its place' if self.instead else ''}"


@dataclass(slots=True)
class Swap(Change):
    """Deliver the frame after the next one of its direction."""

    what = "swap"

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, held=True)

    def __str__(self) -> str:
        return "with the next one"


@dataclass(slots=True)
class Reflect(Change):
    """Send the frame back to its sender; with ``both`` deliver it to the receiver, too."""

    what = "reflect"
    both: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw if self.both else b"", back=frame.raw)

    def __str__(self) -> str:
        return "and passed on" if self.both else ""


@dataclass(slots=True)
class Rewrite(Change):
    """Replace the frame by a well-formed one with other fields; sealed frames as far as :func:`sealed` can.

    Args:
        edit: takes the decoded frame (:class:`messenger.v2.wire.ControlFrame`, or a v1 frame) and returns another;
            for the v2 banner it takes and returns the two masks; it may return raw bytes instead.
        why: description for the history.
    """

    what = "rewrite"
    edit: Callable[[Any], Any]
    why: str = ""

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        if is_v2_banner(frame):
            banner = decode_banner(memoryview(frame.raw))
            assert banner is not None
            edited = self.edit(banner[1:])
        else:
            edited = self.edit(decoded(frame))
        if isinstance(edited, bytes):
            return Altered(edited)
        made = Rebuilt(encode_banner(*edited)) if isinstance(edited, tuple) else encoded(frame, edited)
        return Altered(made.raw, segments=made.segments or None)

    def __str__(self) -> str:
        return self.why


@dataclass(slots=True)
class Replace(Change):
    """Deliver other bytes instead.

    Args:
        other: the bytes, or a function that makes them from the frame.
        why: description for the history.
    """

    what = "rewrite"
    other: bytes | Callable[[SeenFrame], bytes]
    why: str = ""

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(self.other if isinstance(self.other, bytes) else self.other(frame))

    def __str__(self) -> str:
        return self.why


@dataclass(slots=True)
class Join(Change):
    """Deliver the frame in one write with the next one of its direction; only the timing changes."""

    what = "join"

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, joined=True)

    def __str__(self) -> str:
        return "with the next one"


@dataclass(slots=True, kw_only=True)
class Mangle(Strike):
    """Change a frame that matches."""

    change: Change
    altered: Altered | None = field(default=None, compare=False)
    """Result of the last change; None before."""
    lenient: bool = False
    """True to deliver a frame that cannot be changed as it is; :attr:`problem` then has the reason."""
    problem: str = field(default="", compare=False)
    """Why the last frame could not be changed; empty if it was."""

    def alter(self, frame: SeenFrame) -> Altered:
        """Apply the change to a frame.

        Raises:
            LocalError: it cannot be applied, and this is not :attr:`lenient`.
        """
        self.problem = ""
        try:
            self.altered = self.change.alter(frame)
        except LocalError as error:
            if not self.lenient:
                raise
            self.problem = str(error)
            self.altered = Altered(frame.raw)
        return self.altered

    @override
    def matches(self, sender: str, frame: SeenFrame) -> bool:
        if self.spent:
            return False
        matched = super(Mangle, self).matches(sender, frame)
        if self.sender in {"", sender}:
            self.change.watch(frame)
        return matched

    def __str__(self) -> str:
        return f"{self.change.what} {self.place}"
