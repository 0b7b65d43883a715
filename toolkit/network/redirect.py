"""Dials of a host that its kernel redirects to a port of the host itself, by rules of nftables.

Neither end sees the redirection: the connector has a connection to the address that it dialled, and the listener
at the port reads the original destination from the kernel (SO_ORIGINAL_DST) and dials it from the same host, with
a mark.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from toolkit.errors import Unsupported
from toolkit.network.namespaces import inside
from toolkit.network.nft import nft

MARK = 0x6D736772
"""Dials with this mark (SO_MARK) are not redirected: the listener reaches the original destination by it."""
_LOOPBACK = {4: "127.0.0.1", 6: "::1"}


def way_in(addresses: Iterable[str]) -> str:
    """The address at which dials of these arrive once they are redirected.

    Raises:
        Unsupported: there are addresses of both families.
    """
    versions = {ip_address(address).version for address in addresses}
    if len(versions) != 1:
        raise Unsupported("a redirection is of IPv4 or of IPv6, not of both")
    return _LOOPBACK[versions.pop()]


def redirect(namespace: Path, addresses: Iterable[str], port: int) -> None:
    """Have connections from a namespace to some addresses arrive at a port of :func:`way_in` from now on.

    It belongs before the first of them: the kernel decides about a connection when it sees its first packet.

    Args:
        namespace: of the connector.
        addresses: of the acceptor, at any port.
        port: of the listener in that namespace.

    Raises:
        LocalError: the kernel takes no such rules.
        Unsupported: there is no nft.
    """
    lines = ["type nat hook output priority -100;", *(_line(ip_address(each), port) for each in addresses)]
    text = "\n".join([f"{_table(port)} {{", "chain dials {", *lines, "}", "}", ""])
    inside(namespace, lambda: nft("-f", "-", text=text))


def end_redirection(namespace: Path, port: int) -> None:
    """Redirect no more connections from a namespace to a port; raises as :func:`redirect`."""
    inside(namespace, lambda: nft("-f", "-", text=f"delete {_table(port)}\n"))


def _table(port: int) -> str:
    return f"table inet msgrlab_redirect_{port}"


def _line(address: IPv4Address | IPv6Address, port: int) -> str:
    family = "ip" if address.version == 4 else "ip6"
    return f"{family} daddr {address} meta l4proto tcp meta mark != {MARK:#x} redirect to :{port}"
