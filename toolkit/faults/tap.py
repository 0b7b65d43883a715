"""A tap on one link: lets bytes pass frame by frame and strikes at chosen ones. No sockets, no clock.

The proxy on loopback and the simulated network both run the bytes of a link through one; so a breakpoint means
the same on either.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.dissect.follow import Direction, Keys, LinkFollower, SeenFrame


@dataclass(slots=True)
class Breakpoint:
    """Cut the link at a frame, once.

    ``sender`` is the node whose frame it is, ``tag`` the frame's name (``BANNER`` for the banner), ``nth`` which
    of them counted from 1 over all links since the breakpoint was set, ``byte`` how many bytes of that frame
    still pass (negative: counted from its end, as in slices; None: all of it).
    """

    sender: str
    tag: str
    nth: int = 1
    byte: int | None = 0
    hit: SeenFrame | None = field(default=None, compare=False)
    _seen: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise LocalError(f"breakpoint nth={self.nth}: counted from 1")

    @classmethod
    def parse(cls, text: str, protocol: Protocol = Protocol.V2) -> "Breakpoint":
        """From ``SENDER:TAG:NTH:BYTE``; BYTE may be left out or empty (after the frame), and so may NTH (1).

        Args:
            text: as above.
            protocol: whose frames there are.

        Raises:
            LocalError: it is not one, or there is no such frame.
        """
        sender, _, rest = text.partition(":")
        tag, _, numbers = rest.partition(":")
        nth, _, byte = numbers.partition(":")
        known = [piece.value for piece in Piece] if protocol is Protocol.V1 else ["BANNER", *(t.name for t in Tag)]
        if not sender or tag not in known:
            raise LocalError(f"{text!r} is not SENDER:TAG[:NTH[:BYTE]], with TAG one of {', '.join(known)}")
        try:
            return cls(sender, tag, int(nth or 1), int(byte) if byte else None)
        except ValueError:
            raise LocalError(f"{text!r}: NTH and BYTE must be whole numbers") from None

    def matches(self, sender: str, frame: SeenFrame) -> bool:
        """Whether this is the frame; counts the ones before it."""
        if self.hit is not None or sender != self.sender or frame.tag != self.tag:
            return False
        self._seen += 1
        if self._seen < self.nth:
            return False
        self.hit = frame
        return True

    def passing(self, frame: SeenFrame) -> bytes:
        """The part of the frame that still gets through."""
        return frame.raw if self.byte is None else frame.raw[: self.byte]

    def __str__(self) -> str:
        where = "after it" if self.byte is None else f"after {self.byte} bytes of it" if self.byte else "before it"
        return f"at {self.tag} #{self.nth} from {self.sender}, {where}"


@dataclass(slots=True)
class Passage:
    """What becomes of fed bytes: these get through, and then perhaps the link is cut."""

    forward: bytes
    cut: Breakpoint | None = None


class LinkTap:
    """One link between two named parties.

    Args:
        connector: name of the party that dialled.
        acceptor: name of the other.
        breakpoints: shared by all taps of the pair; struck ones stay in it with their ``hit``.
        keys: needed to see frames of secure links.
    """

    def __init__(
        self, connector: str, acceptor: str, breakpoints: list[Breakpoint], keys: Keys | None = None
    ) -> None:
        self._names = {Direction.TO_SERVER: connector, Direction.TO_CLIENT: acceptor}
        self._breakpoints = breakpoints
        self._follower = LinkFollower(keys)
        self._blind_since: dict[Direction, bool] = dict.fromkeys(Direction, False)
        self.on_frame: Callable[[str, SeenFrame], None] = lambda _sender, _frame: None
        """Called for each frame that passes, with its sender's name."""

    @property
    def blind(self) -> str:
        """Why frames cannot be seen any more; empty while they can."""
        return str(self._follower.blind or "")

    def pending(self, direction: Direction) -> bytes:
        """Bytes of an incomplete frame, held until it is whole."""
        return b"" if self._blind_since[direction] else self._follower.pending(direction)

    def feed(self, direction: Direction, chunk: Buffer) -> Passage:
        """Bytes arrived from one party: what is to be handed to the other."""
        sender = self._names[direction]
        passed = bytearray()
        frames = [] if self._blind_since[direction] else self._follower.feed(direction, chunk)
        for frame in frames:
            struck = next((b for b in self._breakpoints if b.matches(sender, frame)), None)
            if struck is not None:
                return Passage(bytes(passed + struck.passing(frame)), struck)
            self.on_frame(sender, frame)
            passed += frame.raw
        if self._blind_since[direction]:
            passed += chunk
        elif self._follower.blind is not None:
            self._blind_since[direction] = True
            passed += self._follower.pending(direction)
        return Passage(bytes(passed))
