"""The model of a cluster spec as a whole; parts.py has its parts, rules.py what they mean to each other."""

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
    Link,
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
    "Link",
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

    Nodes of a ``count`` stand here by themselves, and so does what is between groups; ``speaks`` of a node
    is whole.
    """

    # each field is checked against those above it, which stand for sure
    name: ClusterName
    """What it is called; the file's name unless given."""
    about: str = ""
    """What it is for, in a line."""
    backend: BackendName = "process"
    """What it is made of, unless the command line says otherwise: programs of this machine, network namespaces, or
    containers."""
    transport: TransportName = "tcp"
    """What links of messengers of ours are made of: TCP connections, or queue pairs of soft-RoCE devices that the
    cluster makes (docs/rdma.md), on the backend process."""
    seed: Seed = 1
    """Repeats what nodes draw for their faults (ms_inject_*) and pauses; keys are new each time."""
    speaks: Speech = Speech()
    """What all nodes speak unless they say otherwise."""
    networks: dict[NodeName, Network] = Field(default={"public": Network()})
    """Networks by name; one, called public, unless given."""
    nodes: dict[NodeName, AnyNode]
    """Nodes by name."""
    ceph: Ceph = Ceph()
    """About the real daemons among the nodes."""
    links: tuple[Link, ...] = ()
    """What happens to packets between nodes, where it is not nothing."""
    traffic: TrafficList = ()
    """What nodes send by themselves; the name of a workload (rados-register) has all clients do that."""
    captures: tuple[Capture, ...] = ()
    """Nodes whose packets are captured."""
    proxies: tuple[Proxy, ...] = ()
    """Pairs of nodes of which one dials the other through a frame-aware proxy."""
    timeline: tuple[Moment, ...] = ()
    """Faults at certain moments."""
    chaos: Chaos | None = None
    """Faults at random."""
    records: Annotated[int, Field(ge=0)] = 1_000_000
    """Most records of its history in memory, a kilobyte each; later ones are dropped. 0 is for clusters whose
    history is not needed."""
    judged_every: Annotated[int, Field(ge=0)] = 100_000
    """When so many records have come, they are judged, and those of messages that have arrived leave memory; the
    file keeps them. 0: none leave."""
    disk_bytes: Annotated[int, Field(ge=0)] = 1 << 33
    """Most bytes of the history's file; later records are judged, but not written."""
    scenarios: tuple[Line, ...] = ()
    """Of the catalogue: those that show what the cluster is for (ids as ``msgrlab list`` shows them)."""

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
            else node.model_copy(update={"speaks": rules.spoken_by(node, above["speaks"])})
            for name, node in found.items()
        }

    @field_validator("links")
    @classmethod
    def _check_links(cls, links: tuple[Link, ...], info: ValidationInfo) -> tuple[Link, ...]:
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
        refuse(rules.between_mistakes(messages, nodes) + rules.workload_mistakes(workloads, nodes))
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
        networks = list(self.networks)
        refuse(
            rules.room_mistakes(self.networks, self.nodes)
            + rules.ceph_mistakes(self.ceph, self.nodes, self.speaks, networks)
            + (rules.rdma_mistakes(self.nodes, self.captures, self.proxies) if self.transport == "rdma" else [])
        )
        return self

    def daemons(self) -> dict[str, Daemon]:
        """The real daemons of Ceph."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, Daemon)}

    def messengers(self) -> dict[str, Node]:
        """Our own nodes."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, Node)}

    def clients(self) -> dict[str, RadosClient]:
        """Our clients of the real daemons."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, RadosClient)}

    def speech_of(self, node: str) -> Speech:
        """What a node speaks."""
        return rules.spoken_by(self.nodes[node], self.speaks)

    def networks_of(self, node: str) -> tuple[str, ...]:
        """The networks that a node is on, the one that peers use first."""
        return rules.networks_of(self.nodes[node], list(self.networks))

    def as_json(self) -> dict[str, Any]:
        """The JSON object."""
        return self.model_dump(mode="json", by_alias=True)


def _stand(info: ValidationInfo, *fields: str) -> bool:
    """True if these fields, which are above, have been found right."""
    return all(field in info.data for field in fields)


def _too_many(items: Sequence[object]) -> list[Mistake]:
    return (
        [Mistake((), f"{len(items)} are too many: {_MAX_MOMENTS} are possible")]
        if len(items) > _MAX_MOMENTS
        else []
    )
