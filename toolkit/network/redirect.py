"""Dials of a host that reach somebody on the host itself instead: its kernel redirects them, by rules of nftables.

Neither end sees anything of it: who dials has a connection to the address that it dialled, and whoever takes it
learns from the kernel where it was to go (SO_ORIGINAL_DST) and dials on from the same host, with a mark.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from toolkit.errors import Unsupported
from toolkit.network.namespaces import inside
from toolkit.network.nft import nft

MARK = 0x6D736772
"""What is dialled with it (SO_MARK) is not redirected: otherwise nobody could dial on."""
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
        namespace: of who dials.
        addresses: of who is dialled, at any port.
        port: where somebody listens, in that namespace.

    Raises:
        LocalError: the kernel takes no such rules.
        Unsupported: there is no nft.
    """
    lines = ["type nat hook output priority -100;", *(_line(ip_address(each), port) for each in addresses)]
    text = "\n".join([f"table inet msgrlab_redirect_{port} {{", "chain dials {", *lines, "}", "}", ""])
    inside(namespace, lambda: nft("-f", "-", text=text))


def _line(address: IPv4Address | IPv6Address, port: int) -> str:
    family = "ip" if address.version == 4 else "ip6"
    return f"{family} daddr {address} meta l4proto tcp meta mark != {MARK:#x} redirect to :{port}"
