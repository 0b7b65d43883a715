"""The model of a whole cluster spec. parts.py has its parts, rules.py the rules between them."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from toolkit.cluster.spec import groups, rules, texts
from toolkit.cluster.spec.mistakes import Mistake, refuse
from toolkit.cluster.spec.parts import (
    AnyNode,
    BackendName,
    Capture,
    Ceph,
    Chaos,
    ClusterName,
    Daemon,
    Line,
    LinkSpec,
    Moment,
    Network,
    Node,
    NodeName,
    Part,
    Proxy,
    RadosClient,
    Seed,
    Speech,
    Traffic,
    TrafficList,
    TransportName,
    Workload,
)

__all__ = [
    "AnyNode",
    "BackendName",
    "Capture",
    "Ceph",
    "Chaos",
    "ClusterSpec",
    "Daemon",
    "LinkSpec",
    "Moment",
    "Network",
    "Node",
    "NodeName",
    "Proxy",
    "RadosClient",
    "Speech",
    "Traffic",
    "Workload",
]

_MAX_MOMENTS = 10_000


class ClusterSpec(Part):
    """A cluster.

    After validation, nodes with a ``count`` are expanded, and so are links, traffic, proxies and captures of
    groups; a node's ``speaks`` has the cluster's values where its own left them out.
    """

    # the order matters: a field is validated against the fields above it
    name: ClusterName
    """Name of the cluster; the file's name unless given."""
    about: str = ""
    """Purpose of the cluster, in a line."""
    backend: BackendName = "process"
    """What runs the nodes, unless the command line names another backend: programs on this machine's loopback,
    network namespaces, containers, or a micro-VM."""
    transport: TransportName = "tcp"
    """Transport of all links: TCP, or queue pairs of soft-RoCE devices that the cluster makes (docs/rdma.md;
    backends process and vm)."""
    seed: Seed = 1
    """Seed of the nodes' random numbers, for injected faults (ms_inject_*) and back-off; keys differ in each
    run."""
    speaks: Speech = Speech()
    """Protocol, mode, authentication and cipher of all nodes, unless a node has its own."""
    networks: dict[NodeName, Network] = Field(default={"public": Network()})
    """Networks by name; one, called public, unless given."""
    nodes: dict[NodeName, AnyNode]
    """Nodes by name."""
    ceph: Ceph = Ceph()
    """Settings of the real daemons among the nodes."""
    links: tuple[LinkSpec, ...] = ()
    """Impairments of packets between nodes; links without an entry are not impaired."""
    traffic: TrafficList = ()
    """Messages and workloads that nodes send by themselves; the name of a workload alone (rados-register) starts
    it on all clients."""
    captures: tuple[Capture, ...] = ()
    """Nodes whose packets are captured."""
    proxies: tuple[Proxy, ...] = ()
    """Pairs of nodes of which one dials the other through a frame-aware proxy."""
    timeline: tuple[Moment, ...] = ()
    """Faults at given times."""
    chaos: Chaos | None = None
    """Faults at random times."""
    records: Annotated[int, Field(ge=0)] = 1_000_000
    """Most history records in memory, at about a kilobyte each; later ones are dropped. 0 keeps no history."""
    judged_every: Annotated[int, Field(ge=0)] = 100_000
    """Number of new records after which a long history is checked again; records of delivered messages then leave
    memory, but stay in the file. 0 never checks while the cluster runs, and keeps all records in memory."""
    disk_bytes: Annotated[int, Field(ge=0)] = 1 << 33
    """Most bytes of the history's file; later records are checked, but not written."""
    scenarios: tuple[Line, ...] = ()
    """Ids of scenarios in the catalogue (``msgrlab list``) that show the purpose of this cluster."""

    @field_validator("networks")
    @classmethod
    def _check_networks(cls, networks: dict[str, Network]) -> dict[str, Network]:
        refuse(rules.subnet_mistakes(networks))
        return networks

    @field_validator("nodes")
    @classmethod
    def _check_nodes(cls, nodes: dict[str, AnyNode], info: ValidationInfo) -> dict[str, AnyNode]:
        above = info.data
        found, mistakes = groups.expanded(nodes)
        mistakes += rules.identity_mistakes(nodes)
        if "networks" in above:
            mistakes += rules.membership_mistakes(nodes, list(above["networks"]))
        if "speaks" in above:
            mistakes += rules.speech_mistakes(nodes, above["speaks"])
        refuse(mistakes)
        if "speaks" not in above:
            return found
        return {
            name: node
            if isinstance(node, Daemon) or node.speaks is None
            else node.model_copy(update={"speaks": rules.speech_of(node, above["speaks"])})
            for name, node in found.items()
        }

    @field_validator("links")
    @classmethod
    def _check_links(cls, links: tuple[LinkSpec, ...], info: ValidationInfo) -> tuple[LinkSpec, ...]:
        if not _stand(info, "nodes", "networks"):
            return links
        nodes, networks = info.data["nodes"], list(info.data["networks"])
        refuse(rules.between_mistakes(links, nodes))
        refuse(rules.link_mistakes(links, nodes, networks))
        return groups.apart(links, nodes)

    @field_validator("traffic")
    @classmethod
    def _check_traffic(cls, traffic: TrafficList, info: ValidationInfo) -> TrafficList:
        if not _stand(info, "nodes", "networks", "speaks"):
            return traffic
        nodes, networks = info.data["nodes"], list(info.data["networks"])
        messages = {place: item for place, item in enumerate(traffic) if isinstance(item, Traffic)}
        workloads = {place: item for place, item in enumerate(traffic) if isinstance(item, Workload)}
        refuse(rules.between_mistakes(messages, nodes, rules.MAX_WAYS) + rules.workload_mistakes(workloads, nodes))
        refuse(rules.traffic_mistakes(messages, nodes, networks, info.data["speaks"]))
        return groups.apart(messages.values(), nodes) + groups.workloads_apart(workloads.values(), nodes)

    @field_validator("captures")
    @classmethod
    def _check_captures(cls, captures: tuple[Capture, ...], info: ValidationInfo) -> tuple[Capture, ...]:
        if not _stand(info, "nodes"):
            return captures
        refuse(rules.capture_mistakes(captures, info.data["nodes"]))
        return groups.captures_apart(captures, info.data["nodes"])

    @field_validator("proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[Proxy, ...], info: ValidationInfo) -> tuple[Proxy, ...]:
        if not _stand(info, "nodes", "networks"):
            return proxies
        nodes, networks = info.data["nodes"], list(info.data["networks"])
        refuse(rules.between_mistakes(proxies, nodes))
        refuse(rules.proxy_mistakes(proxies, nodes, networks))
        if any(proxy.script for proxy in proxies):
            refuse(texts.script_mistakes(proxies))
        return groups.apart(proxies, nodes)

    @field_validator("timeline")
    @classmethod
    def _check_timeline(cls, timeline: tuple[Moment, ...], info: ValidationInfo) -> tuple[Moment, ...]:
        refuse(_too_many(timeline))
        if timeline:
            refuse(texts.timeline_mistakes(timeline, info.data.get("nodes")))
        return timeline

    @field_validator("chaos")
    @classmethod
    def _check_chaos(cls, chaos: Chaos | None) -> Chaos | None:
        if chaos is not None and chaos.faults:
            refuse(texts.chaos_mistakes(chaos.faults))
        return chaos

    @model_validator(mode="after")
    def _check_together(self) -> "ClusterSpec":
        mistakes = rules.room_mistakes(self.networks, self.nodes)
        mistakes += rules.ceph_mistakes(self.ceph, self.nodes, self.speaks, list(self.networks))
        if self.transport == "rdma":
            mistakes += rules.rdma_mistakes(self.nodes, self.proxies, self.ceph)
        refuse(mistakes)
        return self

    def daemons(self) -> dict[str, Daemon]:
        """Return the Ceph daemons, embedded ones included."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, Daemon)}

    def messengers(self) -> dict[str, Node]:
        """Return the messengers of msgrlab."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, Node)}

    def clients(self) -> dict[str, RadosClient]:
        """Return the RADOS clients of msgrlab."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, RadosClient)}

    def speech_of(self, node: str) -> Speech:
        """Return what a node speaks."""
        return rules.speech_of(self.nodes[node], self.speaks)

    def networks_of(self, node: str) -> tuple[str, ...]:
        """Return the networks that a node is on; peers dial it on the first."""
        return rules.networks_of(self.nodes[node], list(self.networks))

    def as_json(self) -> dict[str, Any]:
        """Return the spec as a JSON object."""
        return self.model_dump(mode="json", by_alias=True)


def _stand(info: ValidationInfo, *fields: str) -> bool:
    """True if these fields, which are validated earlier, are valid."""
    return all(field in info.data for field in fields)


def _too_many(items: Sequence[object]) -> list[Mistake]:
    return (
        [Mistake((), f"{len(items)} are too many: {_MAX_MOMENTS} are possible")]
        if len(items) > _MAX_MOMENTS
        else []
    )
