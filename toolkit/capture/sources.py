"""Sources of packets: an interface of this machine or of another one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from toolkit.capture.target import Target


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet as it was on a link."""

    time_ns: int
    """Unix time."""
    interface: int
    """The source's number of the interface."""
    link_type: int
    data: bytes
    length: int
    """Length on the wire; ``data`` may be shorter."""


class PacketSource(Protocol):
    """A source from which a recorder reads packets; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...

    def fileno(self) -> int:
        """Return the descriptor, readable if there are packets or if no more will come."""
        ...

    @property
    def dropped(self) -> int:
        """Number of packets lost because the reader was too slow."""
        ...

    @property
    def received(self) -> int:
        """Number of packets received so far, including those not read yet."""
        ...

    @property
    def read(self) -> int:
        """Number of packets that :meth:`block` has returned."""
        ...

    def block(self) -> list[Packet]:
        """Return some of the available packets; empty if there are none."""
        ...

    def interface_name(self, index: int) -> str:
        """Return the name of an interface."""
        ...

    def only_interface(self) -> tuple[int, int] | None:
        """Return number and link type of the interface; None if there are several, or it is gone."""
        ...

    def obstacle(self) -> str:
        """Return why no more packets will come; empty if some may."""
        ...


def open_source(target: "Target", ports: Sequence[range] = ()) -> PacketSource:
    """Start to capture TCP packets of some ports; of all ports if ``ports`` is empty.

    Raises:
        Unsupported: the privilege is missing, or a required program is not installed.
        LocalError: there is no such interface or machine.
    """
    if target.host:
        from toolkit.capture.remote import RemoteCapture  # noqa: PLC0415 - few take one

        return RemoteCapture(target.host, target.interface, ports)
    from toolkit.capture.packet_socket import PacketSocket  # noqa: PLC0415 - it imports this module

    return PacketSocket(target, ports)
