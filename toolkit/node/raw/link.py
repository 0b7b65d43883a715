"""The base class of raw links, whose frames the script writes and reads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from messenger.cephx.exchange import AuthClient, AuthServer
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.link import Protocol
from messenger.randomness import RandomSource
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.stream import PATIENCE_S, Stream

MAX_FRAME_BYTES = 64 << 20
"""Longest frame that a raw link accepts."""

Thing = TypeVar("Thing")


@dataclass(slots=True)
class Identity:
    """The identity that a raw peer announces, and its credentials."""

    name: EntityName
    addrs: AddrVec
    auth_client: AuthClient
    auth_server: AuthServer
    rng: RandomSource
    """Source of nonces and other random numbers."""
    wall_s: Callable[[], float]
    """Returns Unix time."""


@dataclass(frozen=True, slots=True)
class Other:
    """The party that a raw peer has a link with."""

    type: EntityType
    addr: EntityAddr
    """Address to dial, as CLIENT_IDENT names it."""


class RawLink(ABC):
    """A link of which the script decides every byte. By default its methods send what a correct peer would.

    Nothing is sent automatically, neither acknowledgements nor answers to keepalives. Calls that wait do so until
    the other side has answered or closed the link, or until ``patience_s`` is over.

    Args:
        stream: the byte stream.
        me: this side's identity.
        other: the party on the other side.
        connecting: True if this side has dialled.
        socket_addr: the other side's end of the stream, as an acceptor sees it.
    """

    PROTOCOL: ClassVar[Protocol]

    def __init__(
        self,
        stream: Stream,
        me: Identity,
        other: Other,
        *,
        connecting: bool,
        socket_addr: EntityAddr | None = None,
    ) -> None:
        self.stream = stream
        self.me = me
        self.name = me.name
        """The entity name that this side announces."""
        self.other = other
        self.connecting = connecting
        self.socket_addr = socket_addr or EntityAddr.from_host("127.0.0.1", 40001, AddressType.MSGR2)
        self.global_seq = 1
        """The global_seq of this link's frames by default; a correct peer's grows with each link."""
        self.patience_s = PATIENCE_S
        self.note: Callable[[str], None] = lambda _what: None
        """Called with a description of each step of the link."""
        self._inbound = bytearray()

    def pretend(self, addrs: AddrVec) -> Self:
        """Announce other addresses as this side's own."""
        self.me = replace(self.me, addrs=addrs)
        return self

    # ---- bytes

    def pump(self) -> None:
        """Read what has arrived, without waiting."""
        self._inbound += self.stream.read()

    @property
    def inbound(self) -> bytes:
        """Bytes that have arrived and were not consumed."""
        self.pump()
        return bytes(self._inbound)

    @property
    def closed(self) -> bool:
        """True if the other side has closed the link."""
        self.pump()
        return self.stream.closed

    def write(self, raw: bytes) -> None:
        """Send bytes."""
        self.stream.write(raw)
        self.pump()

    def take(self, size: int) -> bytes:
        """Wait for ``size`` bytes of the other side and return them.

        Raises:
            ScenarioFailed: they do not arrive.
        """
        self.stream.wait(lambda: len(self.inbound) >= size or self.stream.closed, self.patience_s)
        if len(self._inbound) < size:
            self._fail(f"{len(self._inbound)} bytes came where {size} are due")
        return self._cut_off(size)

    def hang_up(self) -> None:
        """Close the stream."""
        self.note("hangs up")
        self.stream.close()
        self.pump()

    def expect_closed(self, within_s: float | None = None) -> None:
        """Wait until the other side has closed the link; :meth:`rest` returns the frames that it sent before.

        Raises:
            ScenarioFailed: it does not close it.
        """
        self.note("expects the link to be closed")
        patience_s = self.patience_s if within_s is None else within_s
        if not self.stream.wait(lambda: self.closed, patience_s):
            self._fail(f"the link was to be closed within {patience_s:g} s")

    # ---- frames

    @abstractmethod
    def next(self) -> Any:  # noqa: ANN401 - of either protocol
        """Return the next frame of the other side; None if none has arrived."""

    def rest(self, after_s: float = 0.0) -> list[Any]:
        """Return all frames that have arrived, and those of the next ``after_s`` seconds."""
        frames = []

        def collect() -> bool:
            while (frame := self.next()) is not None:
                frames.append(frame)
            return False

        collect()
        if after_s:
            self.stream.wait(collect, after_s)
        return frames

    def await_next(self) -> Any:  # noqa: ANN401 - of either protocol
        """Wait for the next frame of the other side and return it; None if none arrives."""
        found = []

        def arrived() -> bool:
            frame = self.next()
            if frame is not None:
                found.append(frame)
            return bool(found) or self.stream.closed

        self.stream.wait(arrived, self.patience_s)
        return found[0] if found else None

    def skip_to(self, kind: type[Thing]) -> Thing:
        """Wait for the next frame of a kind, dropping others.

        Raises:
            ScenarioFailed: none arrives.
        """
        self.note(f"waits for {kind.__name__}")
        dropped: list[Any] = []
        while not isinstance(frame := self.await_next(), kind):
            if frame is None:
                self._fail(f"no {kind.__name__} came, but {dropped or 'nothing'}")
            dropped.append(frame)
        return frame

    # ---- the handshake, step by step

    @property
    @abstractmethod
    def steps(self) -> Sequence[Callable[[], None]]:
        """The steps of this side from the first byte to the open session; a script may stop after any of them."""

    def handshake(self, until: Callable[[], None] | None = None) -> Self:
        """Run all steps, or those before ``until``.

        Raises:
            ScenarioFailed: the other side does not answer as expected.
        """
        for step in self.steps:
            if step == until:
                break
            step()
        return self

    def handshake_from(self, step: str) -> Self:
        """Run the step of that name and all later ones.

        Raises:
            ScenarioFailed: the other side does not answer as expected.
        """
        names = [known.__name__ for known in self.steps]
        for name in names[names.index(step) :]:
            getattr(self, name)()
        return self

    # ---- inside

    def _cut_off(self, size: int) -> bytes:
        taken = bytes(self._inbound[:size])
        del self._inbound[:size]
        return taken

    def _fail(self, what: str) -> NoReturn:
        state = "closed" if self.stream.closed else "open"
        raise ScenarioFailed(f"{self.name}, by hand: {what}; the link is {state}")
