"""Which of a peer's addresses to dial, and which ports to listen on (docs/protocol.md §7.1, §9 item 29)."""

from collections.abc import Collection

from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.errors import LocalError
from messenger.protocols import Protocol


def usable_addrs(mine: AddrVec, theirs: AddrVec) -> AddrVec:
    """Those of a peer's addresses that a messenger with these own addresses should know it by.

    A messenger that listens for v1 alone cannot be dialled back over v2, and connection races would go unnoticed:
    as in Ceph it ignores the v2 addresses of its peers.
    """
    v1_alone = mine.legacy_addr().port and not mine.msgr2_addr().port
    return AddrVec(tuple(addr for addr in theirs if addr.type is not AddressType.MSGR2)) if v1_alone else theirs


def dial_target(addrs: AddrVec, protocols: Collection[Protocol]) -> EntityAddr:
    """The address to dial: v2 before v1.

    Raises:
        LocalError: there is none.
    """
    candidates = {Protocol.V2: addrs.msgr2_addr(), Protocol.V1: addrs.legacy_addr()}
    spoken = [protocol for protocol in candidates if protocol in protocols]
    for protocol in spoken:
        if candidates[protocol].port:
            return candidates[protocol]
    accepted = " or ".join(f"{protocol}:HOST:PORT/NONCE" for protocol in spoken)
    raise LocalError(f"no address to dial in {addrs}; give one as {accepted}")


def bind_hosts(config: Config) -> tuple[str, ...]:
    """The wildcard addresses to listen on where no host is given, in the order in which peers see them.

    Raises:
        LocalError: neither family is wanted.
    """
    hosts = ("0.0.0.0",) * config.ms_bind_ipv4, ("::",) * config.ms_bind_ipv6  # noqa: S104 - what Ceph does
    found = hosts[0] + hosts[1] if config.ms_bind_prefer_ipv4 else hosts[1] + hosts[0]
    if not found:
        raise LocalError("ms_bind_ipv4 and ms_bind_ipv6 are both off: there is nothing to listen on")
    return found


def bind_protocols(config: Config) -> tuple[Protocol, ...]:
    """The protocols to listen for, v2 first, as the addresses of daemons have it.

    Raises:
        LocalError: neither is wanted.
    """
    found = (Protocol.V2,) * config.ms_bind_msgr2 + (Protocol.V1,) * config.ms_bind_msgr1
    if not found:
        raise LocalError("ms_bind_msgr1 and ms_bind_msgr2 are both off: there is nothing to listen for")
    return found


def bind_ports(config: Config) -> range:
    """Ports to try where none is given, upwards.

    Raises:
        LocalError: there are none.
    """
    ports = range(config.ms_bind_port_min, config.ms_bind_port_max + 1)
    if not ports:
        raise LocalError(f"ms_bind_port_min {ports.start} is above ms_bind_port_max {ports.stop - 1}")
    return ports


def in_order(addrs: Collection[EntityAddr]) -> AddrVec:
    """Own addresses as announced to peers: by host in the order of binding, v2 before v1."""
    hosts = list(dict.fromkeys(addr.ip for addr in addrs))
    return AddrVec(tuple(sorted(addrs, key=lambda addr: (hosts.index(addr.ip), addr.type is AddressType.LEGACY))))
