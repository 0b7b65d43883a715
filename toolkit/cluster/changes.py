"""Changes of a running cluster: nodes, links, proxies and captures are added and removed.

The spec of the cluster changes with it, so it always describes what is running; each change is validated like a
whole spec. Changes of nodes, links and proxies are ``step`` records in the history.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from toolkit.checks.history import SCENARIO
from toolkit.cluster.nodes import MessengerNode
from toolkit.cluster.plan import addresses, host_wish, node_spec, service_keys
from toolkit.cluster.retention import SERVICE_KEYS
from toolkit.cluster.spec.files import checked
from toolkit.cluster.spec.model import Capture, ClusterSpec, LinkSpec, Node, Proxy
from toolkit.errors import Unsupported
from toolkit.machine.private import write_private
from toolkit.network.state import LinkState

if TYPE_CHECKING:
    from toolkit.capture.recorder import Taken
    from toolkit.cluster.cluster import Cluster

_DOWN_S = 10.0
"""Seconds that a cluster that goes down waits for a change in progress."""


class Changes:
    """Makes the changes of a cluster, one at a time; from any thread."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._is_over = False
        self._incarnations: dict[str, int] = {}
        """Last incarnation of each removed node; a new node of that name continues from it."""

    @property
    def former(self) -> tuple[str, ...]:
        """Names of removed nodes."""
        return tuple(name for name in self._incarnations if name not in self._cluster.nodes)

    def end(self) -> None:
        """Reject further changes, and wait for the one in progress, because the cluster goes down."""
        self._is_over = True
        if self._lock.acquire(timeout=_DOWN_S):
            self._lock.release()

    # ---- nodes

    def add_node(self, name: str, values: Mapping[str, Any]) -> MessengerNode:
        """Add a messenger, start it, and add it to the peers of the others; see :meth:`Cluster.add_node`."""
        cluster = self._cluster
        with self._changing(f"node add {name}") as undo:
            self._check_hosts(name)
            if name in cluster.spec.nodes:
                raise LocalError(f"node {name}: it exists already")
            if name in cluster.guests:
                raise LocalError(f"node {name}: a virtual machine on the network has that name")
            spec = _with(cluster.spec, "nodes", {name: dict(values)})
            if not isinstance(spec.nodes.get(name), Node):
                what = "count makes several" if name not in spec.nodes else "it is no messenger of ours"
                raise Unsupported(f"node {name}: {what}; one messenger is added at a time, with an entity")
            others = cluster.messengers()
            self._check_awake(others)
            self._write(f"add {name}")
            undo.callback(partial(cluster.backend.remove, name))
            cluster.backend.add(host_wish(spec, name))
            node = self._made(spec, name, others)
            undo.callback(partial(self._left, name, cluster.spec))
            cluster.spec, cluster.nodes = spec, {**cluster.nodes, name: node}
            node.spec.routes |= cluster.routes(name)
            undo.callback(node.kill)
            node.start()
            node.wait_ready()
            for other in others:
                self._introduce(node, other)
            return node

    def remove_node(self, name: str) -> list[str]:
        """Stop a messenger and remove it from the peers of the others; see :meth:`Cluster.remove_node`."""
        cluster = self._cluster
        with self._changing(f"node remove {name}"):
            node = cluster.node(name)
            self._check_hosts(name)
            if not isinstance(node, MessengerNode):
                raise Unsupported(
                    f"node {name} is a {node.kind}: only messengers of msgrlab can leave a running cluster"
                )
            others = [other for other in cluster.messengers() if other is not node]
            spec = without_node(cluster.spec, name)
            self._check_awake(others)
            self._write(f"remove {name}")
            with cluster.scene.leaving(name) as problems:
                cluster.captures.stop(name)
                node.stop()
                self._left(name, spec)
                cluster.backend.remove(name)
            return problems

    def _left(self, name: str, spec: ClusterSpec) -> None:
        """Remove a stopped node from the cluster's state and from the peers of the others."""
        cluster = self._cluster
        node = cluster.nodes[name]
        assert isinstance(node, MessengerNode)
        self._incarnations[name] = node.spec.incarnation
        cluster.spec = spec
        cluster.nodes = {other: each for other, each in cluster.nodes.items() if other != name}
        cluster.middlemen.leave(name)
        cluster.network.initial = {pair: one for pair, one in cluster.network.initial.items() if name not in pair}
        for other in cluster.messengers():
            if name in other.spec.peers:
                if other.state == "up":
                    other.command("forget", peer=name)
                del other.spec.peers[name], other.spec.peer_entities[name]
                for addr in node.spec.addrs:
                    other.spec.routes.pop(f"{addr.host}:{addr.port}", None)

    def _check_hosts(self, name: str) -> None:
        backend = self._cluster.backend
        if not backend.removes_hosts:
            raise Unsupported(
                f"node {name}: the backend {backend.name} cannot change the nodes of a running cluster:"
                " --backend process or netns"
            )

    @staticmethod
    def _check_awake(nodes: Sequence[MessengerNode]) -> None:
        """Raise LocalError if one of these nodes is frozen, because it would process the change too late."""
        for node in nodes:
            if node.state == "frozen":
                raise LocalError(f"node {node.name} is frozen: msgrlab fault thaw {node.name}")

    def _made(self, spec: ClusterSpec, name: str, others: Sequence[MessengerNode]) -> MessengerNode:
        cluster = self._cluster
        used = {addr.nonce for other in others for addr in other.spec.addrs}
        cluster.last_nonce = next(nonce for nonce in count(cluster.last_nonce + 1) if nonce not in used)
        host = cluster.backend.hosts[name]
        addrs = {other.name: other.spec.addr for other in others}
        addrs[name] = str(addresses(spec, name, host, cluster.last_nonce))
        options = node_spec(spec, name, host, addrs, cluster.shared_key, cluster.began_s)
        options.incarnation = self._incarnations.get(name, 0) + 1
        key_log = service_keys(spec, cluster.shared_key)
        write_private(cluster.directory / SERVICE_KEYS, key_log.encode())
        if cluster.backend.keys is not None:
            cluster.backend.keys.add_key_log(key_log)
        return MessengerNode(host, options, cluster.take, cluster.now, cluster.messengers)

    def _introduce(self, node: MessengerNode, other: MessengerNode) -> None:
        """Add a new node to another node's peers."""
        other.spec.peers[node.name] = node.spec.addr
        other.spec.peer_entities[node.name] = node.spec.entity
        other.spec.routes |= (routes := self._cluster.routes(other.name))
        if other.state == "up":
            other.command("learn", peer=node.name, addr=node.spec.addr, entity=node.spec.entity, routes=routes)

    # ---- links, proxies, captures

    def add_link(self, values: Mapping[str, Any]) -> LinkSpec:
        """Impair a link; see :meth:`Cluster.add_link`."""
        cluster = self._cluster
        ends = f"{values['from']} {values['to']}"
        with self._changing(f"link add {ends}"):
            if values["from"] in cluster.guests or values["to"] in cluster.guests:
                detail = "a virtual machine is not in the spec of the cluster"
                raise Unsupported(f"link {ends}: {detail}: msgrlab fault link {ends} delay-ms=20")
            spec = _with(cluster.spec, "links", [dict(values)])
            added = spec.links[len(cluster.spec.links) :]
            ways = link_states(added)
            for way, state in ways.items():
                cluster.scene.set_base(*way, state)
            cluster.network.initial = {**cluster.network.initial, **ways}
            cluster.spec = spec
            self._write(f"add {ends}", "link")
            return added[0]

    def remove_link(self, sender: str, receiver: str) -> None:
        """Remove the impairment of a link; see :meth:`Cluster.remove_link`."""
        cluster = self._cluster
        with self._changing(f"link remove {sender} {receiver}"):
            there = link_states(cluster.spec.links)
            matching = [link for link in cluster.spec.links if (link.sender, link.receiver) == (sender, receiver)]
            if not matching:
                known = ", ".join(f"{link.sender} {link.receiver}" for link in cluster.spec.links)
                raise LocalError(f"no link from {sender} to {receiver} was given; there are {known or 'none'}")
            left = [link for link in cluster.spec.links if link not in matching]
            kept = link_states(left)
            for way in there.keys() - kept.keys():
                cluster.scene.set_base(*way, LinkState())
            cluster.network.initial = kept
            cluster.spec = cluster.spec.model_copy(update={"links": tuple(left)})
            self._write(f"remove {sender} {receiver}", "link")

    def add_proxy(self, dialler: str, dialled: str, script: Sequence[str]) -> Proxy:
        """Insert a proxy between two nodes; see :meth:`Cluster.add_proxy`."""
        cluster = self._cluster
        with self._changing(f"proxy from {dialler} to {dialled}") as undo:
            values = {"from": dialler, "to": dialled, "script": list(script)}
            spec = _with(cluster.spec, "proxies", [values])
            if len(spec.proxies) != len(cluster.spec.proxies) + 1:
                raise LocalError(f"proxy from {dialler} to {dialled}: name two nodes, not a group")
            undo.callback(partial(self._end_proxy, dialler, dialled))
            cluster.middlemen.open(spec.proxies[-1:])
            self._reroute(dialler)
            cluster.load_scripts(spec.proxies[-1:])
            cluster.spec = spec
            self._write(f"proxy {dialler} {dialled}", "link")
            return spec.proxies[-1]

    def remove_proxy(self, dialler: str, dialled: str) -> None:
        """Remove a proxy; see :meth:`Cluster.remove_proxy`."""
        cluster = self._cluster
        with self._changing(f"proxy from {dialler} to {dialled}"):
            if (dialler, dialled) not in cluster.proxies:
                known = ", ".join(" ".join(pair) for pair in cluster.proxies)
                raise LocalError(f"no proxy from {dialler} to {dialled}; there are {known or 'none'}")
            self._end_proxy(dialler, dialled)
            left = tuple(one for one in cluster.spec.proxies if (one.sender, one.receiver) != (dialler, dialled))
            cluster.spec = cluster.spec.model_copy(update={"proxies": left})
            self._write(f"proxy {dialler} {dialled} --remove", "link")

    def _end_proxy(self, dialler: str, dialled: str) -> None:
        cluster = self._cluster
        for fault in cluster.scene_faults():
            if fault.WORD == "proxy" and fault.nodes in {(dialler, dialled), (dialled, dialler)}:
                cluster.scene.undo(fault)
        cluster.middlemen.remove(dialler, dialled)
        self._reroute(dialler)

    def _reroute(self, dialler: str) -> None:
        """Update the addresses that a messenger dials; its open connections stay as they are."""
        node = self._cluster.nodes[dialler]
        if not isinstance(node, MessengerNode):
            return
        self._check_awake([node])
        direct = {
            f"{addr.host}:{addr.port}": f"{addr.host}:{addr.port}"
            for other in self._cluster.messengers()
            for addr in AddrVec.parse(other.address)
        }
        routes = direct | self._cluster.routes(dialler)
        node.spec.routes = {addr: onward for addr, onward in routes.items() if addr != onward}
        if node.state == "up":
            node.command("learn", peer=dialler, addr=node.spec.addr, routes=routes)

    def start_capture(self, node: str, file: str) -> "Taken":
        """Start to capture a node's packets; see :meth:`Cluster.start_capture`."""
        cluster = self._cluster
        with self._changing(f"capture of {node}"):
            values = {"node": node, "file": file}
            spec = _with(cluster.spec, "captures", [values])
            if node not in cluster.nodes:
                raise LocalError(f"capture of {node}: name a node, not a group")
            cluster.captures.start([Capture(node=node, file=file)])
            cluster.spec = spec
            return cluster.captures.taken[node]

    def stop_capture(self, node: str) -> "Taken":
        """Stop the capture of a node; see :meth:`Cluster.stop_capture`."""
        cluster = self._cluster
        with self._changing(f"capture of {node}"):
            taken = cluster.captures.stop(node)
            if taken is None:
                known = ", ".join(cluster.captures.taken)
                raise LocalError(f"no capture of {node}; there are {known or 'none'}")
            left = tuple(one for one in cluster.spec.captures if one.node != node)
            cluster.spec = cluster.spec.model_copy(update={"captures": left})
            return taken

    # ---- all of them

    @contextmanager
    def _changing(self, what: str) -> Iterator[ExitStack]:
        """Run one change at a time; if it fails, close the yielded stack, which undoes what was done."""
        with self._lock:
            if self._is_over:
                raise LocalError(f"{what}: cluster {self._cluster.name!r} is going down")
            with ExitStack() as undo:
                yield undo
                undo.pop_all()

    def _write(self, args: str, verb: str = "node") -> None:
        self._cluster.history.append(self._cluster.now(), SCENARIO, "step", verb=verb, args=args)


def link_states(links: Sequence[LinkSpec]) -> dict[tuple[str, str], LinkState]:
    """Return the impairment of each (sender, receiver) pair that the links describe."""
    found: dict[tuple[str, str], LinkState] = {}
    for link in links:
        state = LinkState(**{name: getattr(link, name) for name in LinkState.model_fields})
        found[link.sender, link.receiver] = state
        if link.both_ways:
            found[link.receiver, link.sender] = state
    return found


def _with(spec: ClusterSpec, field: str, more: dict[str, Any] | list[dict[str, Any]]) -> ClusterSpec:
    """Return the spec with ``more`` added to one of its fields.

    Raises:
        LocalError: the result is not valid.
    """
    values = spec.as_json()
    values[field] = {**values[field], **more} if isinstance(more, dict) else [*values[field], *more]
    return checked(values)


def without_node(spec: ClusterSpec, name: str) -> ClusterSpec:
    """Return the spec without a node and without all items that name it.

    Raises:
        LocalError: the remaining spec is not valid.
    """
    from toolkit.faults.language import parse  # noqa: PLC0415 - only for specs that have a timeline

    values = spec.as_json()
    del values["nodes"][name]
    for between in ("links", "traffic", "proxies"):
        values[between] = [one for one in values[between] if name not in {one["from"], one.get("to")}]
    values["captures"] = [one for one in values["captures"] if one["node"] != name]
    values["timeline"] = [one for one in values["timeline"] if name not in parse(one["fault"]).nodes]
    return checked(values)
