"""Changes of frames by the proxy: bits flipped, frames cut short, doubled, swapped, replayed.

A :class:`Mangle` says at which frame of which sender what is done, once; it goes among the breakpoints of a pair
of parties, and the tap (:mod:`toolkit.faults.tap`) carries it out. What a sealed frame holds cannot be changed
without its key, only its bytes; in plain ones crcs can be recomputed, so that the change is well-formed.
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
from toolkit.faults.rewriting import Rebuilt, decoded, encoded, is_v2_banner, place_of, signed, with_byte
from toolkit.faults.strike import Strike


@dataclass(frozen=True, slots=True)
class Altered:
    """What becomes of a frame."""

    forward: bytes
    """Goes on to the receiver instead of it."""
    back: bytes = b""
    """Goes to its sender, as if the other had sent it."""
    held: bool = False
    """Not now: behind the next frame of its direction."""
    joined: bool = False
    """Not now: together with the next frame of its direction, in one piece."""
    mute: bool = False
    """From here on nothing of its direction passes, without an error."""
    gates: tuple[Gate, ...] = ()
    """It and all that follows wait for these."""
    aside: tuple[tuple[bytes, Gate], ...] = ()
    """Bytes that come when a gate is open; nothing waits for them."""
    pace: Pace | None = None
    """How fast it is delivered, and in what pieces; None: as everything else."""
    lasting: bool = False
    """All that follows keeps that pace."""
    segments: tuple[Buffer, ...] | None = None
    """What it carries now, where that was changed."""

    def after(self, earlier: "Altered") -> "Altered":
        """This was made of what an earlier change had made of the frame: both hold."""
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
    """What is done to a frame."""

    @property
    @abstractmethod
    def what(self) -> str:
        """One word for it, as histories have it."""

    def watch(self, frame: SeenFrame) -> None:  # noqa: B027 - few need to
        """A frame of the sender's passes, from the moment on at which the mangling was set."""

    @abstractmethod
    def alter(self, frame: SeenFrame) -> Altered:
        """Do it.

        Raises:
            LocalError: it cannot be done to that frame.
        """


@dataclass(slots=True)
class Flip(Change):
    """Flip bits of one byte.

    Args:
        byte: of the region, or of the frame (negative: from the end).
        mask: which bits.
        region: see :func:`toolkit.dissect.regions.regions_of`; empty for the whole frame.
        fix_crc: recompute the crcs that cover it, and signatures and seals where their keys are known.
        field: count from where this field of the frame begins.
    """

    byte: int = 0
    mask: int = 1
    region: str = ""
    fix_crc: bool = False
    field: str = ""

    @property
    def what(self) -> str:
        """With the crcs recomputed it is a well-formed frame."""
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
        """Where in the frame the byte is.

        Raises:
            LocalError: it is nowhere.
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
    """Let only the first bytes pass; what follows comes right behind them."""

    what = "truncate"
    bytes_left: int

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw[: self.bytes_left])

    def __str__(self) -> str:
        return f"to {self.bytes_left} bytes"


@dataclass(slots=True)
class Insert(Change):
    """Put bytes before a byte of the frame; None: behind it."""

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
    """Swallow it; ``rest``: and all that follows in its direction, without a word to anybody."""

    what = "drop"
    rest: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(b"", mute=self.rest)

    def __str__(self) -> str:
        return "it and all that follows" if self.rest else ""


@dataclass(slots=True)
class Duplicate(Change):
    """Let it pass twice, the second time right behind the first, or ``after_s`` later."""

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
    """Behind it, repeat an earlier frame of the same sender, of this link or of one before.

    Args:
        tag: of the earlier frame.
        nth: which of them, counted from when this was set.
        instead: the frame itself does not pass.
    """

    what = "replay"
    tag: str
    nth: int = 1
    instead: bool = False
    _seen: int = field(default=0, repr=False)
    _raw: bytes | None = field(default=None, repr=False)

    def watch(self, frame: SeenFrame) -> None:
        """Remember the frame that is to be repeated."""
        if frame.tag == self.tag:
            self._seen += 1
            if self._seen == self.nth:
                self._raw = frame.raw

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        if self._raw is None:
            raise LocalError(f"no {self.tag} #{self.nth} has passed that could be repeated")
        return Altered(self._raw if self.instead else frame.raw + self._raw)

    def __str__(self) -> str:
        return f"of {self.tag} #{self.nth}{' in its place' if self.instead else ''}"


@dataclass(slots=True)
class Swap(Change):
    """Let the next frame of its direction go first."""

    what = "swap"

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, held=True)

    def __str__(self) -> str:
        return "with the next one"


@dataclass(slots=True)
class Reflect(Change):
    """Send it back to its sender; ``both``: the receiver gets it too."""

    what = "reflect"
    both: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw if self.both else b"", back=frame.raw)

    def __str__(self) -> str:
        return "and passed on" if self.both else ""


@dataclass(slots=True)
class Rewrite(Change):
    """Replace it by a well-formed frame with other fields; sealed ones too, as far as :func:`sealed` can.

    Args:
        edit: gets the decoded frame (:class:`messenger.v2.wire.ControlFrame`, or a piece of v1) and returns
            another; of the v2 banner it gets and returns the two masks; it may return the raw bytes instead.
        why: for the history.
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
    """Let other bytes pass instead.

    Args:
        other: the bytes, or what makes them of the frame's.
        why: for the history.
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
    """Deliver it in one piece with the next frame of its direction: nothing is changed but the timing."""

    what = "join"

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, joined=True)

    def __str__(self) -> str:
        return "with the next one"


@dataclass(slots=True, kw_only=True)
class Mangle(Strike):
    """Change what passes at a frame, once."""

    change: Change
    altered: Altered | None = field(default=None, compare=False)
    """What it became, once it was hit."""
    lenient: bool = False
    """What cannot be changed passes as it is, and :attr:`problem` says why."""
    problem: str = field(default="", compare=False)
    """Why the last hit could not be changed."""

    def alter(self, frame: SeenFrame) -> Altered:
        """Carry it out.

        Raises:
            LocalError: it cannot be done to that frame, and this is not :attr:`lenient`.
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
