"""Clients of real clusters."""

import errno
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.link import Protocol
from toolkit.cluster.real import RealCluster
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError
from toolkit.rados.ioctx import IoCtx

Clusters = Callable[..., RealCluster]

protocol: ContextVar[Protocol] = ContextVar("protocol", default=Protocol.V2)
"""What clients speak."""


def client(cluster: RealCluster, **options: object) -> Rados:
    """client.admin, in the cluster's own mode."""
    monitor = cluster.monitor
    keyring = cluster.keyring if monitor.auth == "cephx" else None
    config = Config.only_mode(ConMode[monitor.mode.upper()])
    addr = monitor.addr_v1 if protocol.get() is Protocol.V1 else monitor.addr_v2
    return Rados.connect(addr, **{"keyring": keyring, "config": config, **options})


async def pool_of(rados: Rados, name: str = "objects") -> IoCtx:
    """A pool, made when first asked for."""
    if name not in rados.osdmap.pool_names.values():
        return await rados.create_pool(name, 8)
    return rados.pool(name)


def refusal(number: int):
    """The context in which the cluster is to answer with an error."""
    return pytest.raises(RadosError, match=errno.errorcode[number])
