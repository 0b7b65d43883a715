"""What can be done to the network between hosts, whatever it is made of."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolkit.errors import Unsupported

if TYPE_CHECKING:
    from toolkit.network.state import LinkState

NO_RDMA = "nodes have no RDMA devices: the spec takes transport: rdma"
_DIGITS = 6


def delayed(least_s: float, spread_s: float) -> dict[str, Any]:
    """The fields of a :class:`LinkState` that delays packets by ``least_s``, and up to ``spread_s`` more."""
    return {
        "delay_ms": round((least_s + spread_s / 2) * 1000, _DIGITS),
        "jitter_ms": round(spread_s * 500, _DIGITS),
    }


class NetworkFaults(ABC):
    """Faults between hosts, by their names; each lasts until it is undone or healed.

    Whatever a backend cannot do raises :class:`toolkit.errors.Unsupported`, which says what can.
    """

    lacks: Mapping[str, str] = MappingProxyType({})
    """What is never possible here, and why: names of methods, ``packets`` for faults of single packets, and
    ``time`` for faults that go on by themselves."""
    has_rdma = False
    """True if nodes reach each other by RDMA devices."""
    initial: "Mapping[tuple[str, str], LinkState]" = MappingProxyType({})
    """Impairments that links came up with, by sender and receiver; set by the cluster, and in force already."""

    @abstractmethod
    def set_link(self, sender: str, receiver: str, state: "LinkState") -> None:
        """Have packets from one host to another treated so, from one moment on.

        ``LinkState()`` is a link without impairments.
        """

    @abstractmethod
    def link(self, sender: str, receiver: str) -> "LinkState":
        """How they are treated, read back from what treats them."""

    @abstractmethod
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """Lose every packet from one host to another: all, or those to and from one TCP port of the receiver."""

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have packets lost or refused on several ways from the same moment on, if that can be had.

        What is asked for inside takes effect at the end of it, and nothing of it after an error.
        """
        yield

    @abstractmethod
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """No longer do so."""

    def is_blocked(self, sender: str, receiver: str) -> bool:  # noqa: ARG002 - no backend
        """True if :meth:`block` loses every packet from one host to another; False if that is unknown."""
        return False

    @abstractmethod
    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        """Answer the sender's attempts to connect with a reset, for all ports of the receiver or for one."""

    @abstractmethod
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        """Lose packets from one to the other that are longer, without an error; 0 ends it."""

    @abstractmethod
    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        """Have what one host dials at another leave with other source ports, as behind a NAT, or no longer.

        Connections that there are stay as they are in the beginning, those that were translated break in the end.
        """

    @abstractmethod
    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        """Have the NAT between two hosts forget its connections; returns how many.

        What still comes of them gets a new port, and a reset from its receiver; with ``silent`` it is lost.
        """

    def set_rdma_port(self, name: str, *, is_up: bool) -> None:  # noqa: ARG002 - no backend
        """Take the port of a host's RDMA device up or down; raises Unsupported where there are none."""
        raise Unsupported(f"RDMA port of {name}: {NO_RDMA}")

    @abstractmethod
    def reset(self, a: str, b: str) -> int:
        """End the TCP connections between two hosts by a forged RST to both sides; returns how many."""

    @abstractmethod
    def finish(self, sender: str, receiver: str) -> int:
        """Forge a FIN from one host to another into every TCP connection; returns how many."""

    @abstractmethod
    def heal(self) -> None:
        """Undo all of it; links get back the impairments they came up with, if any."""
