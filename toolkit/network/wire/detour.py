"""The ways in which frames get from the ports of a bridge into the wire and back."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable
from toolkit.network.namespaces import set_sysctl, within

if TYPE_CHECKING:
    from pyroute2 import IPRoute

CableLink = tuple[Cable, Cable]
"""A link on one network: the cables of the sender and of the receiver."""


class Detour(ABC):
    """Leads frames from ports into the wire; each port in use has a tap of the wire beside it."""

    @abstractmethod
    def cables(self, links: Collection[CableLink]) -> Collection[Cable]:
        """Return the cables whose taps must exist before :meth:`begin` is called for these links."""

    @abstractmethod
    def begin(self, links: Collection[CableLink]) -> None:
        """Lead the frames of links into the wire; links that are in it stay there.

        Raises:
            LocalError: the kernel refuses it.
        """

    @abstractmethod
    def end(self, links: Collection[CableLink]) -> None:
        """Lead the frames of links past the wire again, if possible, without overtaking frames in the wire.

        Raises:
            LocalError: the kernel refuses it.
        """

    @abstractmethod
    def close(self) -> None:
        """Lead all frames past the wire."""


@contextmanager
def kernel_of(switch: Path | None) -> Iterator["IPRoute"]:
    """Connect to the kernel in the namespace of bridges; raises its errors as LocalError."""
    from pyroute2 import NetlinkError

    with within(switch), rtnetlink() as route:
        try:
            yield route
        except NetlinkError as error:
            raise LocalError(f"wire: {error.args[-1]}") from None


def silence(*interfaces: str) -> None:
    """Disable IPv6 on interfaces, so that the bridge's own machine sends no packets into the wire."""
    for interface in interfaces:
        set_sysctl(f"ipv6/conf/{interface}/disable_ipv6", "1")
