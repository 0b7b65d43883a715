"""Where packets come from: an interface of this machine, or of another one."""

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
    """The source's number of it."""
    link_type: int
    data: bytes
    length: int
    """On the wire; ``data`` may be shorter."""


class PacketSource(Protocol):
    """What a recording reads packets from; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...

    def fileno(self) -> int:
        """Readable when there are packets or none will come."""
        ...

    @property
    def dropped(self) -> int:
        """Packets that were lost because we are slow."""
        ...

    @property
    def received(self) -> int:
        """Packets that came so far, those that have not been read yet included."""
        ...

    @property
    def read(self) -> int:
        """Packets that :meth:`block` has returned."""
        ...

    def block(self) -> list[Packet]:
        """Some of the packets there are; none if there are none."""
        ...

    def interface_name(self, index: int) -> str:
        """What an interface is called."""
        ...

    def only_interface(self) -> tuple[int, int] | None:
        """Number and link type of the interface, if it is a single one that is there."""
        ...

    def obstacle(self) -> str:
        """Why nothing will come any more; empty while something may."""
        ...


def open_source(target: "Target", ports: Sequence[range] = ()) -> PacketSource:
    """Begin to take TCP packets of the wanted ports, all if there are none.

    Raises:
        Unsupported: we may not, or what it takes is not installed.
        LocalError: there is no such interface or machine.
    """
    if target.host:
        from toolkit.capture.remote import RemoteCapture  # noqa: PLC0415 - few take one

        return RemoteCapture(target.host, target.interface, ports)
    from toolkit.capture.packet_socket import PacketSocket  # noqa: PLC0415 - it imports this module

    return PacketSocket(target, ports)
