"""Derive from a cluster's spec its hosts and networks, and the options of each messenger of msgrlab."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import SystemRandom

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.keylog import ServiceSecret
from messenger.link import Protocol
from toolkit.cluster.backends.base import Backend, Host, HostWish, NetworkWish
from toolkit.cluster.spec.model import AnyNode, Ceph, ClusterSpec, Daemon
from toolkit.cluster.spec.rules import ceph_mistakes
from toolkit.errors import Unsupported
from toolkit.node import NodeSpec, parse_entity
from toolkit.node.auth import SERVICE_SECRET_ID

PORTS = {Protocol.V2: 6800, Protocol.V1: 6801}
"""Ports of messengers of msgrlab, on hosts with their own addresses."""
_DAEMON_MIB = {"mon": 256, "osd": 384, "mgr": 512, "mds": 256}
"""Memory of a daemon of Ceph and of its store, in MiB."""
FIRST_NONCE = 1001
"""Nonce of the first messenger in a cluster; each has another one."""


def network_wishes(spec: ClusterSpec) -> list[NetworkWish]:
    """Return the networks of a cluster."""
    return [NetworkWish(name, each.subnet, each.mtu) for name, each in spec.networks.items()]


def host_wishes(spec: ClusterSpec) -> list[HostWish]:
    """Return the hosts of a cluster: one for each node."""
    return [host_wish(spec, name) for name in spec.nodes]


def host_wish(spec: ClusterSpec, name: str) -> HostWish:
    """Return the host of a node."""
    node = spec.nodes[name]
    wish = HostWish(name, spec.networks_of(name), _image(spec.ceph, node))
    if isinstance(node, Daemon) and spec.ceph.release != "embedded":
        return replace(wish, memory_mib=_DAEMON_MIB[node.ceph])
    return wish


def _image(ceph: Ceph, node: AnyNode) -> str:
    on_this_machine = ceph.release in ("host", "embedded")
    return f"ceph:{ceph.release}" if isinstance(node, Daemon) and not on_this_machine else ""


def with_release(spec: ClusterSpec, backend: type[Backend], announce: Callable[[str], None]) -> ClusterSpec:
    """Return the spec with a release of Ceph that the backend can run.

    Containers do not have this machine's programs: ``ceph.release: host`` is replaced by the newest release that
    there is an image of and that supports the spec.

    Args:
        spec: spec of the cluster.
        backend: backend that runs the nodes.
        announce: called with a line if another release is chosen.

    Raises:
        Unsupported: there is no image of such a release; the message names the command that builds one.
    """
    if not spec.daemons() or spec.ceph.release != "host" or "host" in (there := backend.ceph_releases()):
        return spec
    from toolkit.cluster.images.names import RELEASES  # noqa: PLC0415 - only for containers

    suited = {
        release: ceph
        for release in reversed(RELEASES)
        for ceph in [spec.ceph.model_copy(update={"release": release})]
        if not ceph_mistakes(ceph, spec.nodes, spec.speaks, list(spec.networks))
    }
    for release, ceph in suited.items():
        if release in there:
            announce(
                f"ceph.release: {release}, the newest image in Docker: containers have no programs of the host"
            )
            return spec.model_copy(update={"ceph": ceph})
    raise Unsupported(
        "ceph.release: host: containers do not have this machine's programs of Ceph, and Docker has no image of"
        f" {' or '.join(suited)}: msgrlab images build ceph:{next(iter(suited))}"
    )


def new_shared_key(spec: ClusterSpec) -> CryptoKey:
    """Return a random key for all messengers of msgrlab; it does not come from the seed, which is not secret."""
    return CryptoKey.generate(SystemRandom(), 0.0, KeyType.from_label(spec.speaks.cipher))


def node_specs(
    spec: ClusterSpec, hosts: dict[str, Host], shared_key: CryptoKey, start_s: float
) -> dict[str, NodeSpec]:
    """Return the options of all messengers of msgrlab.

    Args:
        spec: spec of the cluster.
        hosts: hosts by the names of nodes.
        shared_key: see :func:`new_shared_key`.
        start_s: monotonic time at which the cluster began.
    """
    addrs = {
        name: str(addresses(spec, name, hosts[name], number))
        for number, name in enumerate(spec.messengers(), FIRST_NONCE)
    }
    return {name: node_spec(spec, name, hosts[name], addrs, shared_key, start_s) for name in addrs}


def node_spec(
    spec: ClusterSpec, name: str, host: Host, addrs: Mapping[str, str], shared_key: CryptoKey, start_s: float
) -> NodeSpec:
    """Return the options of one messenger of msgrlab; see :func:`node_specs`.

    Args:
        spec: spec of the cluster.
        name: name of the node.
        host: host that the node runs on.
        addrs: addresses of all messengers of msgrlab by name, including this one.
        shared_key: see :func:`new_shared_key`.
        start_s: monotonic time at which the cluster began.
    """
    messengers = spec.messengers()
    node, speech = messengers[name], spec.speech_of(name)
    return NodeSpec(
        name=name,
        entity=node.entity,
        addr=addrs[name],
        policy=node.policy,
        mode=speech.mode,
        service_key=shared_key.to_base64(),
        peers=dict(addrs),
        peer_entities={other: messengers[other].entity for other in addrs},
        auth={} if speech.auth == "cephx" else {"methods": [speech.auth]},
        options={**host.options, **node.options},
        workers=node.workers,
        v1_only=speech.protocols == ("v1",),
        seed=spec.seed,
        start_s=start_s,
    )


def addresses(spec: ClusterSpec, name: str, host: Host, nonce: int) -> AddrVec:
    """Return the addresses that a messenger listens on, and reserve their ports."""
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
    """Return a key log (docs/keylog.md) that decrypts secure links between messengers of msgrlab."""
    types = {parse_entity(node.entity).type for node in spec.messengers().values()}
    services = sorted({*types, EntityType.OSD})
    return "".join(ServiceSecret(each, SERVICE_SECRET_ID, shared_key).line() for each in services)
