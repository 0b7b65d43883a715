"""Interface of a transport: byte streams, listeners and dials.

The interface reports readiness, like Ceph's own network stacks: no call blocks, and a stream reports when the next
call can succeed. A transport that works by completions, such as RDMA, keeps registered buffers behind
:meth:`Stream.read_into` and :meth:`Stream.write`, and calls back when one of them has been filled or freed.

Rules for every implementation (``tests/messenger/transport/test_conformance.py`` checks them):

* Bytes arrive once, in order and unchanged, or the stream breaks.
* Bytes that :meth:`Stream.write` has accepted are sent without a further call: there is no flush. The caller may
  change or free the buffers once they are accepted.
* The number of bytes accepted but not yet read is bounded: while the peer does not read, ``write`` accepts
  nothing.
* End of file is an orderly end by the peer, after all that it had sent. Any other end is an OSError.
* Callbacks run on the stream's event loop, never from within a call of the stream.
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
        loop: event loop on which the callbacks run.
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
        """Read the bytes that have arrived.

        Args:
            buffer: filled from its beginning; not empty.

        Returns:
            Number of bytes read; 0 at the end of file, and at every call after it.

        Raises:
            BlockingIOError: nothing has arrived since the last call.
            ConnectionResetError: the peer has reset the stream. Bytes in flight may be lost.
            OSError: the stream has broken for another reason, or is closed.
        """

    @abstractmethod
    def write(self, buffers: Sequence[Buffer], /) -> int:
        """Accept bytes to send, as many as fit.

        Args:
            buffers: sent in this order; not empty.

        Returns:
            Number of bytes accepted; the last of them may lie within a buffer.

        Raises:
            BlockingIOError: there is no room for a single byte.
            OSError: the stream has broken, was shut down, or is closed. After the peer has closed its side, a call
                may still succeed before the first one that raises.
        """

    @abstractmethod
    def watch_reads(self, callback: Callback | None) -> None:
        """Call ``callback`` in each turn of the loop in which :meth:`read_into` would not raise BlockingIOError.

        None stops the calls and so pauses reading: the peer cannot send once the buffers for unread bytes
        are full.
        """

    @abstractmethod
    def watch_writes(self, callback: Callback | None) -> None:
        """Call ``callback`` in each turn of the loop in which :meth:`write` would not raise BlockingIOError.

        None stops the calls.
        """

    @abstractmethod
    def shutdown(self) -> None:
        """End both directions in an orderly way: the peer reads what was accepted, then the end of file.

        On this side, reads return the bytes that have arrived, then the end of file; each write raises OSError.
        This method never raises.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the stream: no callback is called any more, and each further call except this one raises OSError.

        The peer reads what was accepted, then the end of file; it gets a reset if bytes are left unread here.
        """

    @abstractmethod
    def abort(self) -> None:
        """Close the stream by a reset: the peer's calls raise OSError, and bytes in flight may be lost."""

    @abstractmethod
    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make ``loop`` the stream's event loop. The caller must have stopped both watches."""


class Listener(ABC):
    """A bound address at which peers can dial.

    The address is bound on creation; peers are accepted after :meth:`start`.
    """

    @property
    @abstractmethod
    def addr(self) -> EntityAddr:
        """The bound address with its port, of type MSGR2 and with nonce 0."""

    @abstractmethod
    def start(self, accepted: Callable[[Stream], None], failed: Callable[[str], bool]) -> None:
        """Accept peers, one in each turn of the event loop.

        Args:
            accepted: called with each new stream.
            failed: called with the reason when the machine lacks descriptors or memory to accept a peer; returns
                True if it has closed a link, so that the next attempt need not wait.
        """

    @abstractmethod
    def close(self) -> None:
        """Free the address. Peers not accepted yet get a reset; later dials are refused."""


class Transport(ABC):
    """A way to reach peers, such as TCP.

    Options are read at each use, because a messenger's options may change while it runs.
    """

    crosses_threads: bool
    """True if a stream can :meth:`~Stream.move_to` the event loop of another thread."""

    @abstractmethod
    def listen(self, host: str, port: int, config: Config) -> Listener:
        """Bind an address on the running event loop.

        Args:
            host: numeric IP address; ``0.0.0.0`` and ``::`` stand for all addresses of their family.
            port: 0 takes a free port.
            config: options of the messenger.

        Raises:
            OSError: the address is taken, or does not belong to this host.
        """

    @abstractmethod
    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> Stream:
        """Connect to an address. If the call is cancelled, no stream is left open.

        Args:
            host: numeric IP address.
            port: port of the peer.
            config: options of the messenger.
            source: local IP address to dial from; the transport chooses one unless given.

        Raises:
            ConnectionRefusedError: no one listens at the address.
            OSError: the address cannot be reached.
        """
