"""The interface for faults of the network between hosts, independent of the backend."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolkit.errors import Unsupported

if TYPE_CHECKING:
    from toolkit.network.places import Guest
    from toolkit.network.state import LinkState

NO_RDMA = "nodes have no RDMA devices: the spec takes transport: rdma"
_DIGITS = 6


def delayed(least_s: float, spread_s: float) -> dict[str, Any]:
    """Return the fields of a :class:`LinkState` with a delay of ``least_s`` plus up to ``spread_s`` at random."""
    return {
        "delay_ms": round((least_s + spread_s / 2) * 1000, _DIGITS),
        "jitter_ms": round(spread_s * 500, _DIGITS),
    }


class NetworkFaults(ABC):
    """Faults between hosts, given by name; each lasts until it is undone or healed.

    Operations that a backend does not support raise :class:`toolkit.errors.Unsupported`; its message says what is
    possible.
    """

    lacks: Mapping[str, str] = MappingProxyType({})
    """What this network never supports, and why, by the names of methods; also ``packets`` for faults of single
    packets, and ``time`` for faults with steps over time."""
    has_rdma = False
    """True if nodes have RDMA devices."""
    initial: "Mapping[tuple[str, str], LinkState]" = MappingProxyType({})
    """Impairments of the spec by sender and receiver; set by the cluster, and in force already."""

    @property
    def guests(self) -> Mapping[str, "Guest"]:
        """Virtual machines on the network, by name: hosts that no node runs on."""
        return MappingProxyType({})

    @abstractmethod
    def set_link(self, sender: str, receiver: str, state: "LinkState") -> None:
        """Set the impairment of packets from one host to another, at one moment.

        ``LinkState()`` is a link without impairments.
        """

    @abstractmethod
    def link(self, sender: str, receiver: str) -> "LinkState":
        """Return the impairment of a link, read back from the kernel, switch or proxy that applies it."""

    @abstractmethod
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """Drop packets from one host to another: all, or those to and from one TCP port of the receiver."""

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Apply the blocks and refusals of a ``with`` block together at its end, where that is possible.

        After an error in the block none of them is applied.
        """
        yield

    @abstractmethod
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """Remove a block."""

    def is_blocked(self, sender: str, receiver: str) -> bool:  # noqa: ARG002 - no backend
        """True if :meth:`block` drops all packets from one host to another; False if that is unknown."""
        return False

    @abstractmethod
    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        """Answer the sender's connection attempts with RST, for all ports of the receiver or for one."""

    @abstractmethod
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        """Drop longer packets from one host to the other, without an ICMP error; 0 ends it."""

    @abstractmethod
    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        """Translate one host's connections to another, like a NAT; ``translated=False`` ends it.

        Translated connections have other source ports. Existing connections are not translated at the start;
        translated ones break at the end.
        """

    @abstractmethod
    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        """Drop the NAT's state of the connections between two hosts; returns their number.

        Later packets of them get a new port, which their receiver answers with RST; with ``silent`` they are
        dropped.
        """

    def set_rdma_port(self, name: str, *, is_up: bool) -> None:  # noqa: ARG002 - no backend
        """Take the port of a host's RDMA device up or down; raises Unsupported without RDMA devices."""
        raise Unsupported(f"RDMA port of {name}: {NO_RDMA}")

    def remove_rdma_device(self, name: str) -> bool:
        """Remove a host's RDMA device.

        Returns:
            False if a program does not close it; the kernel removes it then.

        Raises:
            Unsupported: there are no RDMA devices.
        """
        raise Unsupported(f"RDMA device of {name}: {NO_RDMA}")

    def restore_rdma_device(self, name: str) -> None:
        """Create a removed RDMA device again; raises Unsupported without RDMA devices."""
        raise Unsupported(f"RDMA device of {name}: {NO_RDMA}")

    def change_rdma_address(self, name: str) -> None:
        """Change the address (GID) of a host's RDMA device; raises Unsupported without RDMA devices."""
        raise Unsupported(f"RDMA device of {name}: {NO_RDMA}")

    @abstractmethod
    def reset(self, a: str, b: str) -> int:
        """Reset the TCP connections between two hosts by an RST forged to both sides; returns their number."""

    @abstractmethod
    def finish(self, sender: str, receiver: str) -> int:
        """Forge a FIN from one host to another into every TCP connection; returns their number."""

    @abstractmethod
    def heal(self) -> None:
        """Revert all faults; links get back their initial impairments, if any."""
