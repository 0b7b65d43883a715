"""Choice of the transport, and binding as Ceph's daemons do it (docs/protocol.md §7.1)."""

import asyncio

from messenger.addressing import bind_hosts, bind_ports, bind_protocols
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.errors import LocalError
from messenger.options import RDMA_TYPE
from messenger.protocols import Protocol
from messenger.transport.base import Listener, Transport
from messenger.transport.tcp import TcpTransport


def wanted_addrs(config: Config, protocols: frozenset[Protocol]) -> AddrVec:
    """The default addresses to listen on: all families and protocols that the options enable, v2 before v1.

    Raises:
        LocalError: the options enable none.
    """
    types = [_TYPES[protocol] for protocol in bind_protocols(config) if protocol in protocols]
    return AddrVec(tuple(EntityAddr.from_host(host, 0, type_) for host in bind_hosts(config) for type_ in types))


_TYPES = {Protocol.V1: AddressType.LEGACY, Protocol.V2: AddressType.MSGR2}


async def listen(transport: Transport, host: str, port: int, config: Config) -> Listener:
    """Listen at an address; if it has no port, at the first free one of the range.

    Retries as often, and after such pauses, as the options ``ms_bind_retry_*`` say.

    Raises:
        LocalError: every port is taken, or the host is not an address of this machine.
    """
    ports = range(port, port + 1) if port else bind_ports(config)
    for attempt in range(max(1, config.ms_bind_retry_count)):
        if attempt:
            await asyncio.sleep(config.ms_bind_retry_delay)
        for candidate in ports:
            try:
                return transport.listen(host, candidate, config)
            except OSError as error:
                why = error.strerror
    where = str(port) if port else f"any port from {ports[0]} to {ports[-1]}"
    raise LocalError(f"cannot listen on {host}:{where}: {why}")


def transport_of(config: Config) -> Transport:
    """Create the transport that the option ``ms_type`` names.

    Raises:
        LocalError: this machine lacks it.
    """
    if config.ms_type == RDMA_TYPE:
        from messenger.transport.rdma.transport import RdmaTransport  # noqa: PLC0415 - a library that few need

        return RdmaTransport()
    return TcpTransport()
