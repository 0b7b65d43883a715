"""Rules between the parts of a spec: which nodes can reach each other, and which settings exclude each other."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.session.policy import Policy, PolicySet
from toolkit.cluster.spec import groups
from toolkit.cluster.spec.mistakes import Mistake, unknown
from toolkit.cluster.spec.options import option_mistakes
from toolkit.cluster.spec.parts import (
    AnyNode,
    Capture,
    Ceph,
    Daemon,
    LinkSpec,
    Network,
    Node,
    Proxy,
    RadosClient,
    Speech,
    Traffic,
    Workload,
)
from toolkit.embedded.lifetimes import LIFETIMES, require_lifetimes

MAX_PAIRS = 10_000
"""Most links, and most pairs of nodes of each other field but traffic."""
MAX_WAYS = 40_000
"""Most pairs of nodes of traffic: a full mesh of the largest cluster."""
_COMPRESSING = ("reef", "tentacle")
"""Releases whose OSDs support on-wire compression."""
_OLD_CIPHER_ONLY = ("nautilus", "pacific", "reef")
_PRIVATE = [ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8")]
_IPV6_MTU_BYTES = 1280
_RESERVED_HOSTS = 1
"""Addresses that a backend takes on a network, for its bridge or gateway."""

Nodes = Mapping[str, AnyNode]


def networks_of(node: AnyNode, networks: Sequence[str]) -> tuple[str, ...]:
    """Return the networks that a node is on; peers dial it on the first."""
    return node.networks or tuple(networks)


def rdma_mistakes(nodes: Nodes, proxies: Sequence[Proxy], ceph: Ceph) -> list[Mistake]:
    """Return what the transport rdma does not support: daemons of Nautilus, and proxies."""
    found = []
    if ceph.release == "nautilus" and any(isinstance(node, Daemon) for node in nodes.values()):
        text = "listeners of nautilus answer without the queue pair of the connector; give pacific or later"
        found.append(Mistake(("ceph", "release"), text))
    if proxies:
        found.append(Mistake(("proxies",), "frames of RDMA links pass no proxy; leave out transport: rdma"))
    return found


# ---- networks


def subnet_mistakes(networks: Mapping[str, Network]) -> list[Mistake]:
    """Return subnets that are invalid, not private, or overlap another one."""
    if not networks:
        return [Mistake((), "a cluster has at least one network; leave networks out for one that has all nodes")]
    found: list[Mistake] = []
    seen: dict[str, IPv4Network | IPv6Network] = {}
    for name, network in networks.items():
        if not network.subnet:
            continue
        subnet, wrong = _subnet(network.subnet)
        if subnet is None:
            found.append(Mistake((name, "subnet"), wrong))
            continue
        if subnet.version != 4 and network.mtu < _IPV6_MTU_BYTES:
            found.append(Mistake((name, "mtu"), f"IPv6 needs {_IPV6_MTU_BYTES} bytes"))
        for other, taken in seen.items():
            if subnet.version == taken.version and subnet.overlaps(taken):
                found.append(Mistake((name, "subnet"), f"{subnet} overlaps {taken} of {other}"))
        seen[name] = subnet
    return found


def _subnet(text: str) -> tuple[IPv4Network | IPv6Network | None, str]:
    """Parse a private subnet; returns None and the reason if it is not one."""
    try:
        subnet = ip_network(text, strict=False)
    except ValueError:
        return None, f"{text!r} is no subnet; give one as in 10.77.0.0/24"
    if "/" not in text:
        return None, f"{text!r} is one address; give a subnet as in 10.77.0.0/24"
    if str(subnet) != text and text.partition("/")[0] != str(subnet.network_address):
        return None, f"{text} is an address in {subnet}; give {subnet}"
    private = [known for known in _PRIVATE if known.version == subnet.version]
    if not any(subnet.subnet_of(known) for known in private):  # type: ignore[arg-type]
        return None, f"{subnet} is not private; give one inside {', '.join(map(str, private))}"
    return subnet, ""


def room_mistakes(networks: Mapping[str, Network], nodes: Nodes) -> list[Mistake]:
    """Return subnets that are too small for the nodes on them."""
    found = []
    for name, network in networks.items():
        if not network.subnet:
            continue
        subnet = ip_network(network.subnet)
        on_it = sum(name in networks_of(node, list(networks)) for node in nodes.values())
        ends = 2 if subnet.version == 4 else 1
        room = max(0, subnet.num_addresses - ends - _RESERVED_HOSTS)
        if on_it > room:
            found.append(Mistake(("networks", name, "subnet"), f"{subnet} has room for {room} nodes, not {on_it}"))
    return found


# ---- nodes


def identity_mistakes(nodes: Nodes) -> list[Mistake]:
    """Return nodes that have the same entity name."""
    found: list[Mistake] = []
    owners: dict[str, str] = {}
    for name, node in nodes.items():
        for made, copy in groups.copies(name, node):
            identity, field = _identity(copy)
            if identity in owners:
                found.append(Mistake((name, field), f"{owners[identity]} is {identity} already"))
                break
            if identity:
                owners[identity] = made
        if isinstance(node, RadosClient) and node.rados == "client.admin":
            found.append(Mistake((name, "rados"), "client.admin is the cluster's own; give another"))
    return found


def _identity(node: AnyNode) -> tuple[str, str]:
    """Return the node's entity name and the field that has it; both empty for daemons, which the cluster names."""
    if isinstance(node, Node):
        return node.entity, "entity"
    return (node.rados, "rados") if isinstance(node, RadosClient) else ("", "")


def membership_mistakes(nodes: Nodes, networks: Sequence[str]) -> list[Mistake]:
    """Return networks of nodes that do not exist, or are named twice."""
    found = []
    for name, node in nodes.items():
        for position, network in enumerate(node.networks):
            if network not in networks:
                found.append(Mistake((name, "networks", position), unknown("network", network, networks)))
            elif network in node.networks[:position]:
                found.append(Mistake((name, "networks", position), f"{network} is there twice"))
    return found


def speech_of(node: AnyNode, speaks: Speech) -> Speech:
    """Return what a node speaks: its own ``speaks`` completed by the cluster's."""
    own = None if isinstance(node, Daemon) else node.speaks
    if own is None:
        return speaks
    return speaks.model_copy(update=own.model_dump(exclude_unset=True))


def speech_mistakes(nodes: Nodes, speaks: Speech) -> list[Mistake]:
    """Return values of nodes' ``speaks`` that contradict each other or the cluster's."""
    found = []
    for name, node in nodes.items():
        if isinstance(node, Daemon) or node.speaks is None:
            continue
        own = speech_of(node, speaks)
        wrong = own.contradictions()
        if own.cipher != speaks.cipher:
            text = f"keys of a cluster are of one cipher, here {speaks.cipher}; give it in the cluster's speaks"
            wrong.append(Mistake(("cipher",), text))
        if own.mode == "compressed" and isinstance(node, Node) and not node.entity.startswith("osd."):
            text = "only links between OSDs are compressed; give crc, or an entity osd.NUMBER"
            wrong.append(Mistake(("mode",), text))
        found += [mistake.below(name, "speaks") for mistake in wrong]
    return found


# ---- what is between nodes


def between_mistakes(
    items: Sequence[groups.Between] | Mapping[int, groups.Between], nodes: Nodes, most: int = MAX_PAIRS
) -> list[Mistake]:
    """Return senders and receivers that are no nodes, or the same node.

    Args:
        items: the items of a list; a mapping has some of them, by their positions in it.
        nodes: the nodes.
        most: most pairs of nodes that the items stand for.
    """
    items = items if isinstance(items, Mapping) else dict(enumerate(items))
    known = [*nodes, *groups.members(nodes)]
    found: list[Mistake] = []
    for position, item in items.items():
        ends = {"from": item.sender, "to": item.receiver}
        strange = [
            Mistake((position, end), unknown("node", name, known))
            for end, name in ends.items()
            if name not in known
        ]
        if not strange and item.sender == item.receiver and item.sender in nodes:
            strange = [Mistake((position, "to"), f"it is {item.sender} itself; give another node")]
        found += strange
    if not found and sum(1 for item in items.values() for _ in groups.pairs(item, nodes)) > most:
        found.append(Mistake((), f"more than {most} pairs of nodes"))
    return found


def link_mistakes(links: Sequence[LinkSpec], nodes: Nodes, networks: Sequence[str]) -> list[Mistake]:
    """Return links between nodes without a common network, and duplicate links."""
    found = []
    seen: set[tuple[str, str]] = set()
    for position, link in enumerate(links):
        for sender, receiver in groups.pairs(link, nodes):
            ways = {(sender, receiver)} | ({(receiver, sender)} if link.both_ways else set())
            if not set(networks_of(nodes[sender], networks)) & set(networks_of(nodes[receiver], networks)):
                found.append(Mistake((position,), f"{sender} and {receiver} have no network in common"))
            elif ways & seen:
                one, other = min(ways & seen)
                found.append(Mistake((position,), f"the link from {one} to {other} is given twice"))
            else:
                seen |= ways
                continue
            break
    return found


def proxy_mistakes(proxies: Sequence[Proxy], nodes: Nodes, networks: Sequence[str]) -> list[Mistake]:
    """Return proxies between nodes that do not connect to each other, and duplicate ones."""
    found = []
    seen: set[tuple[str, str]] = set()
    for position, proxy in enumerate(proxies):
        for pair in groups.pairs(proxy, nodes):
            text = _unreachable(*pair, nodes, networks) or _does_not_listen(pair[1], nodes)
            if pair in seen:
                text = f"there is one from {pair[0]} to {pair[1]} already"
            if text:
                found.append(Mistake((position,), text))
                break
            seen.add(pair)
    return found


def traffic_mistakes(
    traffic: Mapping[int, Traffic], nodes: Nodes, networks: Sequence[str], speaks: Speech
) -> list[Mistake]:
    """Return traffic whose sender can have no session with its receiver."""
    ways = {pair for item in traffic.values() for pair in groups.pairs(item, nodes)}
    found = []
    for position, item in traffic.items():
        texts = (_unreceived(*pair, nodes, networks, speaks, ways) for pair in groups.pairs(item, nodes))
        if text := next(filter(None, texts), ""):
            found.append(Mistake((position,), text))
    return found


def workload_mistakes(workloads: Mapping[int, Workload], nodes: Nodes) -> list[Mistake]:
    """Return workloads without a client, and those of a client that has one already."""
    known = [*nodes, *groups.members(nodes)]
    found: list[Mistake] = []
    busy: set[str] = set()
    for position, item in workloads.items():
        if item.sender and item.sender not in known:
            found.append(Mistake((position, "from"), unknown("node", item.sender, known)))
            continue
        names = groups.clients_of(item, nodes)
        others = [name for name in names if not isinstance(nodes[name], RadosClient)]
        if not names:
            found.append(Mistake((position,), "there is no client to do it; give a node {rados: client.NAME}"))
        elif others:
            text = f"{others[0]} is {_described(nodes[others[0]])}: a workload is for clients of daemons"
            found.append(Mistake((position, "from"), text))
        elif twice := busy.intersection(names):
            found.append(Mistake((position,), f"{min(twice)} has a workload already"))
        busy.update(names)
    return found


def _unreceived(
    sender: str,
    receiver: str,
    nodes: Nodes,
    networks: Sequence[str],
    speaks: Speech,
    ways: set[tuple[str, str]],
) -> str:
    here, there = nodes[sender], nodes[receiver]
    for name, node in ((sender, here), (receiver, there)):
        if not isinstance(node, Node):
            return f"{name} is {_described(node)}: traffic is between messengers of ours"
    assert isinstance(here, Node)
    assert isinstance(there, Node)
    if text := _nothing_in_common(sender, speech_of(here, speaks), receiver, speech_of(there, speaks)):
        return text
    answers = (receiver, sender) in ways and here.listens and not _policy(there, here).server
    if answers and not _unreachable(receiver, sender, nodes, networks):
        return ""
    if not there.listens:
        return f"{receiver} does not listen, and has nothing to send to {sender} itself"
    policy = _policy(here, there)
    if policy.server:
        return f"{sender} waits to be dialled (policy {policy.name}), and {receiver} has nothing to send to it"
    return _unreachable(sender, receiver, nodes, networks)


def _described(node: AnyNode) -> str:
    if isinstance(node, Node):
        return "a messenger of ours"
    return "a real daemon" if isinstance(node, Daemon) else "a client of real daemons"


def _policy(node: Node, peer: Node) -> Policy:
    return _policies(node.policy).towards(_type(peer.entity))


_policies = cache(PolicySet.parse)


def _type(entity: str) -> EntityType:
    return EntityType.from_label(entity.partition(".")[0])


def _does_not_listen(name: str, nodes: Nodes) -> str:
    node = nodes[name]
    listens = isinstance(node, Daemon) or (isinstance(node, Node) and node.listens)
    return "" if listens else f"{name} does not listen"


def _unreachable(sender: str, receiver: str, nodes: Nodes, networks: Sequence[str]) -> str:
    """Return why ``sender`` cannot dial ``receiver``, which listens on its first network; empty if it can."""
    dialled_on = networks_of(nodes[receiver], networks)[0]
    if dialled_on in networks_of(nodes[sender], networks):
        return ""
    return f"{receiver} is dialled on its first network, {dialled_on}, and {sender} is not on that"


def _nothing_in_common(name: str, mine: Speech, other: str, theirs: Speech) -> str:
    common = [protocol for protocol in mine.protocols if protocol in theirs.protocols]
    if not common:
        return f"{name} speaks {mine.protocol}, {other} {theirs.protocol}: they have no protocol in common"
    if mine.auth != theirs.auth:
        return f"{name} authenticates by {mine.auth}, {other} by {theirs.auth}: they do not let each other in"
    if "v2" in common and (mine.mode == "secure") != (theirs.mode == "secure"):
        return f"{name} is {mine.mode}, {other} {theirs.mode}: they have no mode in common"
    return ""


def capture_mistakes(captures: Sequence[Capture], nodes: Nodes) -> list[Mistake]:
    """Return captures of unknown nodes, and those that write to the same file."""
    known = [*nodes, *groups.members(nodes)]
    found = []
    files: set[str] = set()
    for position, capture in enumerate(captures):
        if capture.node not in known:
            found.append(Mistake((position, "node"), unknown("node", capture.node, known)))
            continue
        for each in groups.captures_apart([capture], nodes):
            if each.file_name in files:
                found.append(Mistake((position,), f"{each.file_name} is another capture already; give it a file"))
                break
            files.add(each.file_name)
    return found


# ---- real daemons


def ceph_mistakes(ceph: Ceph, nodes: Nodes, speaks: Speech, networks: Sequence[str]) -> list[Mistake]:
    """Return settings and nodes that the Ceph daemons do not support, and daemons that are missing."""
    daemons = {name: node for name, node in nodes.items() if isinstance(node, Daemon)}
    clients = {name: node for name, node in nodes.items() if isinstance(node, RadosClient)}
    if not daemons and not clients:
        if ceph != Ceph():
            return [Mistake(("ceph",), "there are no real daemons for it; nodes have them as {ceph: mon}")]
        return []
    kinds = {daemon.ceph: name for name, daemon in reversed(daemons.items())}
    found = []
    if "mon" not in kinds:
        first = next(iter({**daemons, **clients}))
        found.append(Mistake(("nodes", nodes[first].group or first), "it needs a monitor: a node {ceph: mon}"))
    if "osd" not in kinds:
        for name in [*([kinds["mds"]] if "mds" in kinds else []), *clients]:
            place = ("nodes", nodes[name].group or name)
            found.append(Mistake(place, "it needs an OSD, which stores things: a node {ceph: osd}"))
    found += [
        mistake for name, client in clients.items() for mistake in _client_mistakes(name, client, ceph, speaks)
    ]
    found += _public_mistakes({**daemons, **clients}, networks)
    if ceph.release == "embedded":
        return found + list(_embedded_mistakes(ceph, daemons))
    if speaks.mode == "compressed" and ceph.release not in ("host", *_COMPRESSING):
        text = f"{ceph.release} does not compress; {' and '.join(_COMPRESSING)} do"
        found.append(Mistake(("ceph", "release"), text))
    if speaks.cipher != "aes" and ceph.release in _OLD_CIPHER_ONLY:
        found.append(
            Mistake(("ceph", "release"), f"{ceph.release} has no keys of cipher {speaks.cipher}; give tentacle")
        )
    return found


def _embedded_mistakes(ceph: Ceph, daemons: Mapping[str, Daemon]) -> Iterator[Mistake]:
    monitors = 0
    for name, daemon in daemons.items():
        place = ("nodes", daemon.group or name)
        monitors += daemon.ceph == "mon"
        if daemon.ceph not in ("mon", "osd"):
            yield Mistake((*place, "ceph"), f"there is no embedded {daemon.ceph}; give mon or osd")
        elif daemon.ceph == "mon" and monitors == 2:
            yield Mistake(place, "an embedded cluster has one monitor")
        for mistake in option_mistakes(daemon.options):
            yield mistake.below(*place, "options")
    for name in LIFETIMES.keys() & ceph.options:
        try:
            require_lifetimes({name: ceph.options[name]})
        except LocalError as error:
            yield Mistake(("ceph", "options", name), str(error).partition(": ")[2])
    if ceph.store != "memstore":
        yield Mistake(("ceph", "store"), "embedded OSDs keep objects in memory; give memstore, or leave it out")


def _client_mistakes(name: str, client: RadosClient, ceph: Ceph, speaks: Speech) -> Iterator[Mistake]:
    if client.pool not in ceph.pools:
        yield Mistake(("nodes", client.group or name, "pool"), unknown("pool", client.pool, list(ceph.pools)))
    if text := _nothing_in_common(name, speech_of(client, speaks), "the daemons", speaks):
        yield Mistake(("nodes", client.group or name, "speaks"), text)


def _public_mistakes(parties: Nodes, networks: Sequence[str]) -> Iterator[Mistake]:
    """Yield daemons and clients that are not on the public network, the first one of the first monitor."""
    firsts = {name: networks_of(node, networks)[0] for name, node in parties.items() if isinstance(node, Daemon)}
    if not firsts:
        return
    mons = [name for name, node in parties.items() if isinstance(node, Daemon) and node.ceph == "mon"]
    public = firsts[(mons or list(firsts))[0]]
    for name, node in parties.items():
        place = ("nodes", node.group or name, "networks")
        if isinstance(node, Daemon) and firsts[name] != public:
            yield Mistake(
                place, f"daemons listen on their first network: give {public}, as the monitor has, first"
            )
        elif public not in networks_of(node, networks):
            yield Mistake(place, f"the daemons are on {public}; add it")
