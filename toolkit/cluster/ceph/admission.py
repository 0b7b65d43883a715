"""Access of clients to the daemons of a cluster, real or embedded: addresses, keys, configuration."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from messenger.cephx.keyring import Keyring
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.cluster.backends.base import Host
from toolkit.cluster.ceph.layout import Layout
from toolkit.cluster.ceph.programs import furnish
from toolkit.cluster.spec.model import ClusterSpec, RadosClient
from toolkit.rados.node.spec import RadosSpec


class Admission(ABC):
    """The daemons of a cluster, from its clients' point of view.

    Args:
        spec: spec of the cluster.
        hosts: hosts of its daemons and RADOS clients, by the names of nodes.
        announce: called with a line before something is fetched or run that was not requested by name.
    """

    def __init__(self, spec: ClusterSpec, hosts: Mapping[str, Host], announce: Callable[[str], None]) -> None:
        self.announce = announce
        self._hosts = hosts
        self.layout = Layout(spec, hosts)

    @abstractmethod
    def settle(self) -> None:
        """Wait until the cluster has been healthy once; raises LocalError."""

    @abstractmethod
    def listeners(self) -> dict[str, list[tuple[str, int]]]:
        """Return the addresses of monitors and running OSDs, host and port, by the names of nodes.

        Raises:
            LocalError: the monitors do not answer.
        """

    def keyring_of(self, client: str) -> Keyring:
        """Return a keyring with the key of a RADOS client, or of ``client.admin``.

        Raises:
            LocalError: there is no such client.
        """
        name = AuthName.parse(client)
        if name not in self.layout.keyring.entries:
            raise LocalError(f"{client}: the cluster has no key for it")
        return self.layout.keys_of(name)

    def admit(self, node: str) -> None:
        """Write configuration and key of a RADOS client to its host, where Ceph's own tools find them."""
        host, client = self._hosts[node], self.layout.spec.clients()[node]
        furnish(host, self.layout.spec.ceph.release, self.announce)
        host.variables["CEPH_ARGS"] = f"--name {client.rados}"
        host.write("ceph.conf", self.layout.client_conf(host).encode())
        host.write("keyring", self.keyring_of(client.rados).format().encode())

    def client_specs(self, start_s: float) -> dict[str, RadosSpec]:
        """Return the options of all RADOS clients.

        Args:
            start_s: monotonic time at which the cluster began.
        """
        spec = self.layout.spec
        return {node: self._client_spec(node, client, start_s) for node, client in spec.clients().items()}

    def _client_spec(self, node: str, client: RadosClient, start_s: float) -> RadosSpec:
        spec = self.layout.spec
        speech = spec.speech_of(node)
        monitors = {name: AddrVec.parse(addrs) for name, addrs in self.layout.mon_addrs.items()}
        addresses = {
            name: AddrVec(tuple(addr for addr in addrs if str(Protocol.of(addr)) in speech.protocols))
            for name, addrs in monitors.items()
        }
        return RadosSpec(
            name=node,
            rados=client.rados,
            monitors=[str(addrs) for addrs in addresses.values()],
            keyring=self.keyring_of(client.rados).format() if speech.auth == "cephx" else "",
            pool=client.pool,
            mode=speech.mode,
            names={str(addrs): name for name, addrs in [*monitors.items(), *addresses.items()]},
            options={**self._hosts[node].options, **client.options},
            seed=spec.seed,
            start_s=start_s,
        )
