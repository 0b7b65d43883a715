"""Redirect a host's outgoing connections to a port of the host itself, by rules of nftables.

Neither end sees the redirection: the connector has a connection to the address that it dialled, and the listener
at the port reads the original destination from the kernel (SO_ORIGINAL_DST) and connects to it from the same host,
with a mark.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from toolkit.errors import Unsupported
from toolkit.machine.nft import nft
from toolkit.network.namespaces import inside

MARK = 0x6D736772
"""Connections with this mark (SO_MARK) are not redirected; the listener uses it to reach the original
destination."""
_LOOPBACK = {4: "127.0.0.1", 6: "::1"}


def way_in(addresses: Iterable[str]) -> str:
    """Return the address at which redirected connections to these addresses arrive.

    Raises:
        Unsupported: there are addresses of both families.
    """
    versions = {ip_address(address).version for address in addresses}
    if len(versions) != 1:
        raise Unsupported("a redirection is of IPv4 or of IPv6, not of both")
    return _LOOPBACK[versions.pop()]


def redirect(namespace: Path, addresses: Iterable[str], port: int) -> None:
    """Redirect new connections from a namespace to some addresses to a port of :func:`way_in`.

    Call it before the first connection: the kernel decides when it sees the first packet.

    Args:
        namespace: namespace of the connector.
        addresses: addresses of the acceptor; all ports are redirected.
        port: port of the listener in that namespace.

    Raises:
        LocalError: the kernel rejects the rules.
        Unsupported: nft is not installed.
    """
    lines = ["type nat hook output priority -100;", *(_line(ip_address(each), port) for each in addresses)]
    text = "\n".join([f"{_table(port)} {{", "chain dials {", *lines, "}", "}", ""])
    inside(namespace, lambda: nft("-f", "-", text=text))


def end_redirection(namespace: Path, port: int) -> None:
    """Remove the redirection to a port; raises as :func:`redirect`."""
    inside(namespace, lambda: nft("-f", "-", text=f"delete {_table(port)}\n"))


def _table(port: int) -> str:
    return f"table inet msgrlab_redirect_{port}"


def _line(address: IPv4Address | IPv6Address, port: int) -> str:
    family = "ip" if address.version == 4 else "ip6"
    return f"{family} daddr {address} meta l4proto tcp meta mark != {MARK:#x} redirect to :{port}"
