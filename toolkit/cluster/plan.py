"""What a cluster's spec comes to: hosts and networks to wish for, and what each messenger of ours is told."""

from random import SystemRandom

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.keylog import ServiceSecret
from messenger.link import Protocol
from toolkit.cluster.backends.base import Host, HostWish, NetworkWish
from toolkit.cluster.spec.model import AnyNode, Ceph, ClusterSpec, Daemon
from toolkit.scenarios.nodes import NodeSpec, parse_entity
from toolkit.scenarios.nodes.auth import SERVICE_SECRET_ID

PORTS = {Protocol.V2: 6800, Protocol.V1: 6801}
"""Where messengers of ours listen, on hosts that have their addresses to themselves."""
_FIRST_NONCE = 1001


def network_wishes(spec: ClusterSpec) -> list[NetworkWish]:
    """The networks of a cluster."""
    return [NetworkWish(name, each.subnet, each.mtu) for name, each in spec.networks.items()]


def host_wishes(spec: ClusterSpec) -> list[HostWish]:
    """The hosts of a cluster: one for each node."""
    return [HostWish(name, spec.networks_of(name), _image(spec.ceph, node)) for name, node in spec.nodes.items()]


def _image(ceph: Ceph, node: AnyNode) -> str:
    return f"ceph:{ceph.release}" if isinstance(node, Daemon) and ceph.release != "host" else ""


def new_shared_key(spec: ClusterSpec) -> CryptoKey:
    """A key for all messengers of ours to share; another one each time, since a seed is no secret."""
    return CryptoKey.generate(SystemRandom(), 0.0, KeyType.from_label(spec.speaks.cipher))


def node_specs(
    spec: ClusterSpec, hosts: dict[str, Host], shared_key: CryptoKey, start_s: float
) -> dict[str, NodeSpec]:
    """What each messenger of ours is told.

    Args:
        spec: of the cluster.
        hosts: by the names of nodes.
        shared_key: see :func:`new_shared_key`.
        start_s: monotonic time at which the cluster began.
    """
    key = shared_key.to_base64()
    messengers = spec.messengers()
    addrs = {
        name: _addresses(spec, name, hosts[name], number) for number, name in enumerate(messengers, _FIRST_NONCE)
    }
    found = {}
    for name, node in messengers.items():
        speech = spec.speech_of(name)
        found[name] = NodeSpec(
            name=name,
            entity=node.entity,
            addr=str(addrs[name]),
            policy=node.policy,
            mode=speech.mode,
            service_key=key,
            peers={other: str(addr) for other, addr in addrs.items()},
            peer_entities={other: each.entity for other, each in messengers.items()},
            auth={} if speech.auth == "cephx" else {"methods": [speech.auth]},
            options=dict(node.options),
            workers=node.workers,
            v1_only=speech.protocols == ("v1",),
            seed=spec.seed,
            start_s=start_s,
        )
    return found


def _addresses(spec: ClusterSpec, name: str, host: Host, nonce: int) -> AddrVec:
    node = spec.messengers()[name]
    if not node.listens:
        blank = EntityAddr.from_host("0.0.0.0", 0, AddressType.ANY)  # noqa: S104 - a client has none
        return AddrVec((blank.with_nonce(nonce),))
    address = host.addresses[spec.networks_of(name)[0]]
    listening = [each for each in PORTS if each.value in spec.speech_of(name).protocols]
    return AddrVec(
        tuple(
            EntityAddr.from_host(address, host.port(PORTS[each]), each.addr_type).with_nonce(nonce)
            for each in listening
        )
    )


def service_keys(spec: ClusterSpec, shared_key: CryptoKey) -> str:
    """A key log (docs/keylog.md) that opens secure links between messengers of ours."""
    types = {parse_entity(node.entity).type for node in spec.messengers().values()}
    services = sorted({*types, EntityType.OSD})
    return "".join(ServiceSecret(each, SERVICE_SECRET_ID, shared_key).line() for each in services)
