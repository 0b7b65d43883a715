"""The daemons of a Ceph cluster: their names, addresses and keys, and their ceph.conf."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random, SystemRandom

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keyring import Keyring, KeyringEntry
from messenger.cephx.keys import CryptoKey
from messenger.denc.entity import AuthName
from toolkit.cluster import options
from toolkit.cluster.backends.base import Host
from toolkit.cluster.spec.model import ClusterSpec

ADMIN = AuthName.parse("client.admin")
"""The entity with all capabilities."""
MON = AuthName.parse("mon.")
"""The entity that all monitors share."""

_CAPS = {
    "osd": {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"},
    "mgr": {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
    "mds": {"mon": "allow profile mds", "mgr": "allow profile mds", "osd": "allow *", "mds": "allow *"},
    "client": {"mon": "allow r", "osd": "allow rwx", "mgr": "allow r"},
}
"""Capabilities by kind of entity."""
_ALL_CAPS = dict.fromkeys(("mon", "osd", "mgr", "mds"), "allow *")
_V2_PORT, _V1_PORT = 3300, 6789
_POOL_SIZE_LIMIT = 3


@dataclass(frozen=True, slots=True)
class Member:
    """A daemon of the cluster."""

    node: str
    kind: str
    """``mon``, ``osd``, ``mgr`` or ``mds``."""
    id: str
    """Id in Ceph: a number for OSDs, the node's name for others."""
    host: Host
    options: Mapping[str, str]
    addresses: tuple[str, ...]
    """Addresses of the host: on the public network, and on the cluster network if there is one."""

    @property
    def name(self) -> str:
        """``osd.0`` and so on."""
        return f"{self.kind}.{self.id}"


class Layout:
    """The names, addresses, keys and options of a cluster's daemons.

    Args:
        spec: spec of the cluster.
        hosts: hosts of its daemons, by the names of nodes.
    """

    def __init__(self, spec: ClusterSpec, hosts: Mapping[str, Host]) -> None:
        self.spec = spec
        rng = Random(f"{spec.seed} ceph {spec.name}")
        self.fsid = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        """Id of the cluster."""
        self.members = _members(spec, hosts)
        """Daemons by the names of nodes, in the spec's order."""
        self.mon_addrs = {member.id: self._mon_addrs(member) for member in self.of("mon")}
        """Addresses of each monitor, as in the monitor map."""
        self.osd_uuids = {
            member.id: str(uuid.UUID(int=rng.getrandbits(128), version=4)) for member in self.of("osd")
        }
        """UUID of each OSD's store, which the monitors register."""
        self.keyring = self._make_keys()
        """Keys and capabilities of all entities; the keys are random, since a seed is not secret."""

    def of(self, kind: str) -> list[Member]:
        """Return the members of a kind."""
        return [member for member in self.members.values() if member.kind == kind]

    @property
    def mon_host(self) -> str:
        """Addresses of all monitors, for the option mon_host."""
        return ",".join(self.mon_addrs.values())

    @property
    def pools(self) -> dict[str, int]:
        """Pools to make, with their numbers of placement groups; none without OSDs."""
        if not self.of("osd"):
            return {}
        files = {"cephfs_metadata": 8, "cephfs_data": 8} if self.of("mds") else {}
        return dict(self.spec.ceph.pools) | files

    @property
    def pool_size(self) -> int:
        """Number of copies of each object."""
        wanted = self.spec.ceph.options.get("osd_pool_default_size")
        return int(wanted) if wanted is not None else min(len(self.of("osd")) or 1, _POOL_SIZE_LIMIT)

    def conf(self, member: Member) -> str:
        """Return the ceph.conf of a member's host."""
        return self._conf(member.host, member)

    def client_conf(self, host: Host) -> str:
        """Return the ceph.conf of a host that only has clients."""
        return self._conf(host)

    def keys_of(self, *names: AuthName) -> Keyring:
        """Return a keyring with the keys of these entities."""
        return Keyring({name: self.keyring.entries[name] for name in names})

    def keys_for(self, member: Member) -> Keyring:
        """Return the keys that a member's host needs."""
        return self.keys_of(ADMIN, MON if member.kind == "mon" else AuthName.parse(member.name))

    def _conf(self, host: Host, member: Member | None = None) -> str:
        directory = host.directory
        common = {
            **options.identity(self.fsid, self.mon_host, v1=self._has_protocol("v1"), v2=self._has_protocol("v2")),
            **options.security(self.spec.speaks.auth, self._mode),
            **options.SMALL,
            "osd_pool_default_size": str(self.pool_size),
            # monitors serve no clients during an election, and one that misses a vote takes its whole timeout
            "mon_election_timeout": "0.5",
            # the start waits for things that happen at the next tick, such as changes of the health state
            **dict.fromkeys(
                ("mon_tick_interval", "mgr_tick_period", "mgr_stats_period", "mds_beacon_interval"), "1"
            ),
            "mon_warn_on_msgr2_not_enabled": "false",
            "mon_warn_on_pool_pg_num_not_power_of_two": "false",
            "keyring": f"{directory}/keyring",
            "run_dir": str(directory),
            "crash_dir": f"{directory}/crash",
            **self._compression,
            **(options.RDMA if host.has_rdma else {}),
            **_texts(host.options),
            **_texts(self.spec.ceph.options),
        }
        if not self.of("mgr"):
            common["mon_mgr_mkfs_grace"] = "1000000"  # the monitors do not wait for a manager
        text = options.section("global", common)
        return text if member is None else text + options.section(member.name, self._own_options(member))

    def _own_options(self, member: Member) -> dict[str, str]:
        directory = member.host.directory
        public, *others = member.addresses
        of_kind = {
            "mon": options.MON,
            "osd": options.OSD,
            # manager modules take longer to start than everything else
            "mgr": {"mgr_pool": "false"},
            "mds": {},
        }
        defaults = {"debug_ms": "1", **of_kind[member.kind]}
        # a daemon's own section would override [global], which has the spec's options
        own = {name: value for name, value in defaults.items() if name not in self.spec.ceph.options}
        own |= options.own_files(directory) | {f"{member.kind}_data": f"{directory}/store"}
        if member.kind != "mon":
            own["public_addr"] = public
        if member.kind == "osd":
            own["osd_objectstore"] = self.spec.ceph.store
            if others:
                own["cluster_addr"] = others[0]
        return own | dict(member.options)

    @property
    def _mode(self) -> str:
        return "secure" if self.spec.speaks.mode == "secure" else "crc"

    @property
    def _compression(self) -> dict[str, str]:
        if self.spec.speaks.mode != "compressed":
            return {}
        return {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": "1"}

    def _has_protocol(self, protocol: str) -> bool:
        return protocol in self.spec.speaks.protocol.split("+")

    def _mon_addrs(self, member: Member) -> str:
        ports = {"v2": _V2_PORT, "v1": _V1_PORT}
        host = member.addresses[0]
        shown = f"[{host}]" if ip_address(host).version == 6 else host
        addresses = [
            f"{v}:{shown}:{member.host.port(port)}/0" for v, port in ports.items() if self._has_protocol(v)
        ]
        return f"[{','.join(addresses)}]"

    def _make_keys(self) -> Keyring:
        rng, now_s = SystemRandom(), time.time()
        kind = KeyType.from_label(self.spec.speaks.cipher)
        clients = {client.rados: _CAPS["client"] for client in self.spec.clients().values()}
        daemons = {member.name: _CAPS[member.kind] for member in self.members.values() if member.kind != "mon"}
        caps = {"mon.": {"mon": "allow *"}, "client.admin": _ALL_CAPS, **daemons, **clients}
        return Keyring(
            {
                AuthName.parse(name): KeyringEntry(CryptoKey.generate(rng, now_s, kind), may)
                for name, may in caps.items()
            }
        )


def _members(spec: ClusterSpec, hosts: Mapping[str, Host]) -> dict[str, Member]:
    members: dict[str, Member] = {}
    osds = 0
    for node, daemon in spec.daemons().items():
        identity = node
        if daemon.ceph == "osd":
            identity, osds = str(osds), osds + 1
        host = hosts[node]
        networks = daemon.networks or tuple(spec.networks)
        addresses = tuple(host.addresses[network] for network in networks)
        members[node] = Member(node, daemon.ceph, identity, host, _texts(daemon.options), addresses)
    return members


def _texts(values: Mapping[str, bool | float | str]) -> dict[str, str]:
    """Convert options to the syntax of ceph.conf."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
