"""The ``docker`` backend: a container per node, on private Docker networks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish
from toolkit.cluster.backends.docker.host import DIRECTORY, ContainerHost
from toolkit.cluster.backends.docker.reachability import require_reachable
from toolkit.cluster.backends.docker.subnets import Subnet, free, require_free, used
from toolkit.cluster.backends.subnets import Addressing, assign
from toolkit.cluster.images import names as images
from toolkit.cluster.images import node
from toolkit.cluster.images.docker import has
from toolkit.errors import Unsupported
from toolkit.machine.changes import DockerObjects
from toolkit.machine.docker_engine import connect, connected, current_place, is_silent, refused
from toolkit.machine.docker_objects import remove_from
from toolkit.machine.labels import DOCKER_LABEL, PROCESS_VARIABLE
from toolkit.machine.leases import Lease
from toolkit.network.namespace_faults import NamespaceNetwork

if TYPE_CHECKING:
    from docker import DockerClient

_AT_ONCE = 16
_TIMEOUT_S = 60.0
"""Time limit of requests to an engine."""
_ANSWER_S = 2.0
"""Time within which an engine that is not lost answers."""
_OVERLAP = "overlaps"
_LIMITS = {"pids_limit": 512, "mem_limit": "4g"}
"""A node needs far less; the limits stop a runaway process."""
_DAEMON_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
"""Ceph daemons change their user and own files of two users; messengers need no capability."""


class DockerBackend(Backend):
    """A container per node, on isolated bridge networks.

    Containers are unprivileged and reach only each other. Faults of the network are applied by this machine in the
    containers' namespaces, which needs an engine on this machine, and root.
    """

    name: ClassVar[str] = "docker"
    driver: ClassVar[str] = "bridge"
    """Docker's driver for the networks."""
    network_kind: ClassVar[type[NamespaceNetwork]] = NamespaceNetwork

    def __init__(self, lease: Lease, report: Callable[[str], None]) -> None:
        super().__init__(lease, report)
        self.hosts: dict[str, ContainerHost] = {}  # type: ignore[assignment]
        self._engines: dict[str, DockerClient] = {}
        self._probes: dict[str, DockerClient] = {}
        """Further connections to the engines, which do not wait long for an answer."""
        self._networks: Sequence[NetworkWish] = ()
        self._wishes: list[HostWish] = []
        self._network = self.network_kind(lease, self.hosts)

    @classmethod
    @override
    def lent(cls, networks: Sequence[NetworkWish]) -> AbstractContextManager[Backend]:
        """Lend containers of an earlier lab, or new ones."""
        from toolkit.cluster.containers import borrowed

        return borrowed(networks)

    @classmethod
    def places(cls) -> list[str]:
        """Return the engines that nodes are distributed over."""
        return [current_place()]

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        fixed = _settled(networks, hosts)
        for wish in fixed:
            if wish.subnet:
                cls._gateway(wish, ip_network(wish.subnet), hosts)
        for place in cls.places():
            with connected(place) as engine:
                cls._check_engine(engine, place)
                for image in {wish.image or node.NAME for wish in hosts}:
                    images.require(image, engine)
                taken = used(engine, here=_is_of_this_machine(place))
                for wish in fixed:
                    if wish.subnet:
                        require_free(wish.name, ip_network(wish.subnet), taken)

    @classmethod
    def _check_engine(cls, engine: "DockerClient", place: str) -> None:
        if (kind := engine.version()["Os"]) != "linux":
            raise Unsupported(f"Docker at {place} has containers of {kind}: nodes need Linux")

    @classmethod
    @override
    def ceph_releases(cls) -> list[str]:
        found = list(images.RELEASES)
        for place in cls.places():
            with connected(place) as engine:
                found = [name for name in found if has(engine, images.tag(images.CEPH_PREFIX + name))]
        return found

    @override
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        places = self.places()
        for place in places:
            self.lease.journal.note(DockerObjects(str(self.lease.label), place))
            self._engines[place] = connect(place, timeout_s=_TIMEOUT_S)
            self._probes[place] = connect(place, timeout_s=_ANSWER_S)
        with refused():
            self._networks = self._make_networks(_settled(networks, hosts), hosts)
        self.add(*hosts)
        require_reachable(self.hosts, [network.name for network in networks])

    @override
    def add(self, *wishes: HostWish) -> None:
        first = len(self._wishes)
        self._wishes += wishes
        addressing = assign(self._networks, self._wishes)
        # Fix the addresses: hosts that are added later must not change them.
        self._wishes = [replace(wish, addresses=addressing.of(wish.name)) for wish in self._wishes]
        places = list(self._engines)
        where = {wish.name: places[number % len(places)] for number, wish in enumerate(wishes, first)}
        self.report(f"containers for {', '.join(where)}")
        with refused():
            tags = {place: self._tags(place, wishes) for place in places}
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                made = pool.map(
                    lambda wish: self._make_host(wish, where[wish.name], tags[where[wish.name]], addressing),
                    wishes,
                )
                self.hosts.update({host.name: host for host in made})

    @property
    @override
    def network(self) -> NamespaceNetwork:
        return self._network

    @override
    def lost(self) -> dict[str, list[str]]:
        """Return the nodes on engines that do not answer; later requests to these do not wait long either."""
        places = list(self._engines)
        if not places:
            return {}
        with ThreadPoolExecutor(len(places)) as pool:
            answering = dict(zip(places, pool.map(self._answers, places), strict=True))
        for place, engine in self._engines.items():
            engine.api.timeout = _TIMEOUT_S if answering[place] else _ANSWER_S
        return {
            _machine(place): [host.name for host in self.hosts.values() if host.place == place]
            for place in places
            if not answering[place]
        }

    def _answers(self, place: str) -> bool:
        if is_silent(place):
            return False
        try:
            with refused():
                self._probes[place].ping()
        except LocalError:
            return False
        return True

    @override
    def close(self) -> None:
        """Remove everything from each engine that answers; the journal keeps the others for a later attempt."""
        super().close()
        self._network.close()
        lost = self.lost()
        # The first engine is a swarm's manager: it removes overlays, once the others have no containers on them.
        for place, engine in reversed(self._engines.items()):
            if _machine(place) not in lost:
                # An overlay stays as long as a lost machine has a part of it.
                time_s = {"timeout_s": _ANSWER_S} if lost else {}
                try:
                    with refused():
                        remove_from(engine, f"{DOCKER_LABEL}={self.lease.label}", **time_s)
                except LocalError as error:
                    self.report(f"{_machine(place)}: {error}")
            engine.close()
            self._probes[place].close()
        self._engines.clear()
        self._probes.clear()
        self.hosts.clear()

    # ---- networks

    def _make_networks(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> list[NetworkWish]:
        """Make networks; those without a subnet get one that is free now."""
        place, engine = next(iter(self._engines.items()))
        taken = used(engine, here=_is_of_this_machine(place))
        for wish in networks:
            if wish.subnet:
                taken[ip_network(wish.subnet)] = f"network {wish.name}"
        given = []
        for wish in networks:
            subnets = iter([ip_network(wish.subnet)]) if wish.subnet else free(self.lease.label.number, taken)
            subnet = self._make_network(engine, wish, subnets, hosts)
            taken[subnet] = f"network {wish.name}"
            given.append(replace(wish, subnet=str(subnet)))
        return given

    def _make_network(
        self, engine: "DockerClient", wish: NetworkWish, subnets: Iterator[Subnet], hosts: Sequence[HostWish]
    ) -> Subnet:
        """Make a network with the first of some subnets that the engine accepts."""
        import docker.errors
        from docker.types import IPAMConfig, IPAMPool

        last: LocalError | None = None
        for subnet in subnets:
            gateway = self._gateway(wish, subnet, hosts)
            try:
                engine.api.create_network(
                    self._name(wish.name), driver=self.driver, options=self._options(wish), internal=True,
                    attachable=self.driver == "overlay" or None, labels=self._labels, check_duplicate=True,
                    enable_ipv6=subnet.version == 6,
                    ipam=IPAMConfig(pool_configs=[IPAMPool(str(subnet), self._own_range(subnet), gateway)]),
                )  # fmt: skip
            except docker.errors.APIError as error:
                last = LocalError(f"network {wish.name}: Docker: {error.explanation or error}")
                if _OVERLAP not in str(error.explanation):
                    raise last from None
            else:
                return subnet
        raise last or LocalError(f"network {wish.name}: every subnet that could be had is in use; give it one")

    @staticmethod
    def _gateway(wish: NetworkWish, subnet: Subnet, hosts: Sequence[HostWish]) -> str:
        """Return the address of the bridge: the last one that no host requires."""
        addresses = assign([replace(wish, subnet=str(subnet))], [_only_on(host, wish.name) for host in hosts])
        taken = {str(found) for by_network in addresses.addresses.values() for found in by_network.values()}
        last = subnet.num_addresses - 2  # the very last one is for broadcasts
        for address in (subnet[number] for number in range(last, max(0, last - len(taken) - 1), -1)):
            if str(address) not in taken:
                return str(address)
        raise LocalError(f"network {wish.name}: {subnet} has no address left for Docker's own end of it")

    @staticmethod
    def _own_range(_subnet: Subnet) -> str | None:
        """Return the part of a subnet that Docker assigns addresses from; None for all of it."""
        return None

    def _options(self, wish: NetworkWish) -> dict[str, str]:
        return {"com.docker.network.driver.mtu": str(wish.mtu)}

    # ---- containers

    def _tags(self, place: str, hosts: Sequence[HostWish]) -> dict[str, str]:
        """Return the tags of the images of some hosts; the node's image is built again if its source changed."""
        wished = {wish.image for wish in hosts}
        return {name: images.tag(name) if name else node.build(place, announce=self.announce) for name in wished}

    def _make_host(self, wish: HostWish, place: str, tags: Mapping[str, str], all_of: Addressing) -> ContainerHost:
        api, addresses = self._engines[place].api, all_of.of(wish.name)
        endpoints = {
            name: {"ipv6_address" if ":" in address else "ipv4_address": address, "aliases": [wish.name]}
            for name, address in addresses.items()
        }
        first, *others = endpoints
        networking = {self._name(first): api.create_endpoint_config(**endpoints[first])}
        container: str = api.create_container(
            tags[wish.image],
            command=["sleep", "infinity"],
            entrypoint=[],
            name=self._name(wish.name),
            hostname=wish.name,
            labels=self._labels,
            environment={PROCESS_VARIABLE: str(self.lease.label)},
            working_dir=str(DIRECTORY),
            user="0:0",
            networking_config=api.create_networking_config(networking),
            host_config=api.create_host_config(
                network_mode=self._name(first),
                init=True,
                cap_drop=["ALL"],
                cap_add=_DAEMON_CAPABILITIES if wish.image else [],
                security_opt=["no-new-privileges"],
                restart_policy={"Name": "no"},
                **_LIMITS,
            ),
        )["Id"]
        for network in others:
            api.connect_container_to_network(container, self._name(network), **endpoints[network])
        api.start(container)
        logs = self.lease.directory / wish.name
        label = str(self.lease.label)
        return ContainerHost(wish.name, self._engines[place], place, container, addresses, logs, label)

    def _name(self, what: str) -> str:
        """Return the Docker name of a container or network: unique in the engine, and without dots for a swarm."""
        return f"{self.lease.label.name}-{self.lease.label.token}-{what}"

    @property
    def _labels(self) -> dict[str, str]:
        return {DOCKER_LABEL: str(self.lease.label)}


def _machine(place: str) -> str:
    """Return what messages call the engine at a place."""
    return f"Docker at {place}"


def _settled(networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> list[NetworkWish]:
    """Return the networks with the subnets that fixed addresses of hosts determine."""
    subnets = assign(networks, hosts).subnets
    settled = {wish.name for wish in networks if wish.subnet} | {
        name for host in hosts for name in host.addresses or ()
    }
    return [replace(wish, subnet=str(subnets[wish.name])) if wish.name in settled else wish for wish in networks]


def _only_on(host: HostWish, network: str) -> HostWish:
    """Return a host's requirements for one network only."""
    addresses = {name: address for name, address in (host.addresses or {}).items() if name == network}
    return replace(host, networks=tuple(name for name in host.networks if name == network), addresses=addresses)


def _is_of_this_machine(place: str) -> bool:
    return place.startswith("unix://")
