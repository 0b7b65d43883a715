"""Groups of similar nodes: ``count`` makes several nodes of one entry, and a group's name stands for its nodes."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TypeVar

from toolkit.cluster.spec.mistakes import Mistake
from toolkit.cluster.spec.parts import (
    MAX_NODES,
    AnyNode,
    Capture,
    LinkSpec,
    Node,
    Proxy,
    RadosClient,
    Traffic,
    Workload,
)

_NAME_CHARS = 8
Between = TypeVar("Between", LinkSpec, Traffic, Proxy)
"""An item of a spec that has a sender and a receiver."""


def copies(name: str, node: AnyNode) -> Iterator[tuple[str, AnyNode]]:
    """Yield the nodes that one entry of ``nodes`` stands for, with their names.

    ``osd`` with ``count: 3`` gives osd0, osd1 and osd2.
    """
    if node.count == 1:
        yield name, node
        return
    for position in range(node.count):
        changed: dict[str, object] = {"count": 1, "group": node.group or name}
        if isinstance(node, Node):
            kind, _, number = node.entity.partition(".")
            changed["entity"] = f"{kind}.{int(number) + position}"
        elif isinstance(node, RadosClient):
            changed["rados"] = f"{node.rados}{position}"
        yield f"{name}{position}", node.model_copy(update=changed)


def expanded(nodes: Mapping[str, AnyNode]) -> tuple[dict[str, AnyNode], list[Mistake]]:
    """Return all nodes with ``count`` expanded, and the mistakes in their names and numbers."""
    found: dict[str, AnyNode] = {}
    makers: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for name, node in nodes.items():
        for made, copy in copies(name, node):
            if made in makers:
                mistakes.append(Mistake((name,), f"it makes a node {made}, and so does {makers[made]}"))
                break
            if len(made) > _NAME_CHARS:
                text = f"it makes a node {made}: names have {_NAME_CHARS} characters at most"
                mistakes.append(Mistake((name, "count"), text))
                break
            makers[made], found[made] = name, copy
    if not nodes:
        mistakes.append(Mistake((), "a cluster has at least one node"))
    if len(found) > MAX_NODES:
        mistakes.append(Mistake((), f"{len(found)} nodes are too many: {MAX_NODES} are possible"))
    mistakes += [
        Mistake((makers[names[0]],), f"{group} is the name of a node, and of a group of nodes as well")
        for group, names in members(found).items()
        if group in found
    ]
    return found, mistakes


def members(nodes: Mapping[str, AnyNode]) -> dict[str, list[str]]:
    """Return the names of the nodes in each group."""
    found: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.group:
            found.setdefault(node.group, []).append(name)
    return found


def pairs(item: Between, nodes: Mapping[str, AnyNode]) -> Iterator[tuple[str, str]]:
    """Yield the (sender, receiver) pairs of an item; within a group, each node with each other."""
    groups = members(nodes)
    senders, receivers = (groups.get(end, [end]) for end in (item.sender, item.receiver))
    seen: set[tuple[str, str]] = set()
    for sender, receiver in product(senders, receivers):
        there_already = isinstance(item, LinkSpec) and item.both_ways and (receiver, sender) in seen
        if sender != receiver and not there_already:
            seen.add((sender, receiver))
            yield sender, receiver


def apart(items: Iterable[Between], nodes: Mapping[str, AnyNode]) -> tuple[Between, ...]:
    """Expand items between groups to one item per pair of nodes."""
    return tuple(
        item.model_copy(update={"sender": sender, "receiver": receiver})
        for item in items
        for sender, receiver in pairs(item, nodes)
    )


def clients_of(workload: Workload, nodes: Mapping[str, AnyNode]) -> list[str]:
    """Return the nodes that run a workload: one client, those of a group, or all clients."""
    if workload.sender:
        return members(nodes).get(workload.sender, [workload.sender])
    return [name for name, node in nodes.items() if isinstance(node, RadosClient)]


def workloads_apart(workloads: Iterable[Workload], nodes: Mapping[str, AnyNode]) -> tuple[Workload, ...]:
    """Expand workloads to one per client."""
    return tuple(
        workload.model_copy(update={"sender": name})
        for workload in workloads
        for name in clients_of(workload, nodes)
    )


def captures_apart(captures: Iterable[Capture], nodes: Mapping[str, AnyNode]) -> tuple[Capture, ...]:
    """Expand captures to one per node."""
    groups = members(nodes)
    return tuple(
        capture.model_copy(update={"node": node})
        for capture in captures
        for node in groups.get(capture.node, [capture.node])
    )
