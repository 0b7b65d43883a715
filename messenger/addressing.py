"""Choice of the address to dial and of the ports to listen on (docs/protocol.md §7.1, §9 item 29)."""

from collections.abc import Collection

from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.errors import LocalError
from messenger.protocols import Protocol


def usable_addrs(mine: AddrVec, theirs: AddrVec) -> AddrVec:
    """Filter a peer's addresses for a messenger with the addresses ``mine``.

    A messenger that listens for v1 only ignores the v2 addresses of its peers, as in Ceph: the peer cannot dial it
    over v2, so a connection race between the two would not be detected.
    """
    v1_alone = mine.legacy_addr().port and not mine.msgr2_addr().port
    return AddrVec(tuple(addr for addr in theirs if addr.type is not AddressType.MSGR2)) if v1_alone else theirs


def dial_target(addrs: AddrVec, protocols: Collection[Protocol]) -> EntityAddr:
    """The address to dial: the v2 address if there is one, else the v1 address.

    Raises:
        LocalError: ``addrs`` has no address of ``protocols``.
    """
    candidates = {Protocol.V2: addrs.msgr2_addr(), Protocol.V1: addrs.legacy_addr()}
    spoken = [protocol for protocol in candidates if protocol in protocols]
    for protocol in spoken:
        if candidates[protocol].port:
            return candidates[protocol]
    accepted = " or ".join(f"{protocol}:HOST:PORT/NONCE" for protocol in spoken)
    raise LocalError(f"no address to dial in {addrs}; give one as {accepted}")


def bind_hosts(config: Config) -> tuple[str, ...]:
    """The wildcard addresses to listen on if no host is given, in the order in which they are announced.

    Raises:
        LocalError: both address families are off.
    """
    hosts = ("0.0.0.0",) * config.ms_bind_ipv4, ("::",) * config.ms_bind_ipv6  # noqa: S104 - what Ceph does
    found = hosts[0] + hosts[1] if config.ms_bind_prefer_ipv4 else hosts[1] + hosts[0]
    if not found:
        raise LocalError("ms_bind_ipv4 and ms_bind_ipv6 are both off: there is nothing to listen on")
    return found


def bind_protocols(config: Config) -> tuple[Protocol, ...]:
    """The protocols to listen for, v2 first as in the addresses of daemons.

    Raises:
        LocalError: both protocols are off.
    """
    found = (Protocol.V2,) * config.ms_bind_msgr2 + (Protocol.V1,) * config.ms_bind_msgr1
    if not found:
        raise LocalError("ms_bind_msgr1 and ms_bind_msgr2 are both off: there is nothing to listen for")
    return found


def bind_ports(config: Config) -> range:
    """The ports to try if none is given, in ascending order.

    Raises:
        LocalError: the range is empty.
    """
    ports = range(config.ms_bind_port_min, config.ms_bind_port_max + 1)
    if not ports:
        raise LocalError(f"ms_bind_port_min {ports.start} is above ms_bind_port_max {ports.stop - 1}")
    return ports


def in_order(addrs: Collection[EntityAddr]) -> AddrVec:
    """Sort this messenger's addresses as they are announced: by host in the order of binding, v2 before v1."""
    hosts = list(dict.fromkeys(addr.ip for addr in addrs))
    return AddrVec(tuple(sorted(addrs, key=lambda addr: (hosts.index(addr.ip), addr.type is AddressType.LEGACY))))
