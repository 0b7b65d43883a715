"""What a transport is: byte streams, listeners and dials, whatever carries them.

The interface is one of readiness, as that of Ceph's own network stacks: a call never waits, and a stream reports
when the next call may succeed. A transport that completes requests instead, such as RDMA, has registered buffers
behind :meth:`Stream.read_into` and :meth:`Stream.write`, and calls back when one of them is free or filled.

Rules for every implementation (``tests/messenger/transport/test_conformance.py`` checks them):

* Bytes arrive once, in order, and unchanged, or the stream breaks.
* Bytes that :meth:`Stream.write` has accepted leave without a further call: there is no flush. The buffers may be
  changed or freed once they are accepted.
* What is accepted and not yet read is bounded. A peer that does not read makes ``write`` accept nothing.
* End of file is the peer's orderly end, behind all that it has sent. Whatever else ends a stream is an OSError.
* Callbacks are called on the stream's event loop, never from within a call of the stream.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from messenger.config import Config
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer

Callback = Callable[[], None]


class Stream(ABC):
    """One end of a connected byte stream.

    Args:
        loop: the event loop of its callbacks.
        peer_addr: address of the other end, of type MSGR2 and with nonce 0.
    """

    __slots__ = ("loop", "peer_addr")

    def __init__(self, loop: asyncio.AbstractEventLoop, peer_addr: EntityAddr) -> None:
        self.loop = loop
        self.peer_addr = peer_addr

    @property
    @abstractmethod
    def local_addr(self) -> EntityAddr:
        """Address of this end, of type MSGR2 and with nonce 0."""

    @abstractmethod
    def read_into(self, buffer: memoryview, /) -> int:
        """Read what has arrived.

        Args:
            buffer: to be filled from its beginning; not empty.

        Returns:
            Number of bytes read; 0 at the end of file, from then on at each call.

        Raises:
            BlockingIOError: nothing has arrived since the last call.
            ConnectionResetError: the peer has broken the stream. Bytes that were on their way may be lost.
            OSError: the stream has broken for another reason, or is closed.
        """

    @abstractmethod
    def write(self, buffers: Sequence[Buffer], /) -> int:
        """Accept bytes to send, as many as there is room for.

        Args:
            buffers: to be sent in this order; not empty.

        Returns:
            Number of bytes accepted, which may end within a buffer.

        Raises:
            BlockingIOError: there is no room for a single byte.
            OSError: the stream has broken, was shut down, or is closed. If the peer has ended its side, a call
                may succeed before the first one that raises.
        """

    @abstractmethod
    def watch_reads(self, callback: Callback | None) -> None:
        """Call ``callback`` in each turn of the loop in which :meth:`read_into` would not raise BlockingIOError.

        None stops that: reading is paused, and the peer is held up once the room for unread bytes is used up.
        """

    @abstractmethod
    def watch_writes(self, callback: Callback | None) -> None:
        """Call ``callback`` in each turn of the loop in which :meth:`write` would not raise BlockingIOError.

        None stops that.
        """

    @abstractmethod
    def shutdown(self) -> None:
        """End both directions in order: the peer reads what was accepted, then the end of file.

        Here the next read that finds nothing unread is the end of file, and each write raises. Never raises.
        """

    @abstractmethod
    def close(self) -> None:
        """Give the stream back; nothing is watched any more, and each further call but this one raises OSError.

        The peer gets what was accepted, then the end of file; with bytes left unread here it gets a reset.
        """

    @abstractmethod
    def abort(self) -> None:
        """Close the stream by a reset: the peer's calls raise OSError, what is on its way may be lost."""

    @abstractmethod
    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Belong to another event loop from now on. Nothing is watched when this is called."""


class Listener(ABC):
    """An address at which peers can dial.

    It is bound when it is made, so that the address is taken; it accepts after :meth:`start`.
    """

    @property
    @abstractmethod
    def addr(self) -> EntityAddr:
        """The address that is bound, with its port, of type MSGR2 and with nonce 0."""

    @abstractmethod
    def start(self, accepted: Callable[[Stream], None], failed: Callable[[str], bool]) -> None:
        """Accept peers, one per turn of the event loop.

        Args:
            accepted: called with each new stream.
            failed: called with the reason when the machine lacks descriptors or memory to accept a peer; returns
                True if it has closed something, so that the next attempt need not wait.
        """

    @abstractmethod
    def close(self) -> None:
        """Free the address. Peers that were not accepted yet get a reset, later dials are refused."""


class Transport(ABC):
    """A way to reach peers.

    Options are read when they are needed; a messenger passes its own, which may change while it runs.
    """

    crosses_threads: bool
    """True if a stream can :meth:`~Stream.move_to` the event loop of another thread."""

    @abstractmethod
    def listen(self, host: str, port: int, config: Config) -> Listener:
        """Bind an address on the running event loop.

        Args:
            host: numeric IP address; ``0.0.0.0`` and ``::`` are all of their family.
            port: 0 takes a free one.
            config: options of the messenger.

        Raises:
            OSError: the address is taken, or not this host's.
        """

    @abstractmethod
    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> Stream:
        """Connect to an address. Cancelling the call leaves no stream behind.

        Args:
            host: numeric IP address.
            port: there.
            config: options of the messenger.
            source: own IP address to dial from; the transport's choice unless given.

        Raises:
            ConnectionRefusedError: nobody listens there.
            OSError: the address cannot be reached.
        """
