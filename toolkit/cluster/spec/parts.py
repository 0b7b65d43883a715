"""The parts of a cluster spec, each validated by itself; rules.py has the rules between them."""

import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from messenger.denc.entity import EntityType
from messenger.session.policy import MESSENGERS, POLICIES
from toolkit.cluster.spec.mistakes import Mistake, refuse, unknown
from toolkit.cluster.spec.options import ceph_option_mistakes, global_option_mistakes, option_mistakes
from toolkit.network.state import LinkState

MAX_NODES = 200
MAX_SEED = (1 << 64) - 1
_SETTINGS = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

_NODE = re.compile("[a-z][a-z0-9]{0,7}")
_CLUSTER = re.compile("[a-z][a-z0-9-]{0,29}")
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_CLIENT = re.compile("client[.][A-Za-z0-9_-]{1,30}")
_POOL = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FILE = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_ENTITIES = (EntityType.MON, EntityType.MDS, EntityType.OSD, EntityType.CLIENT, EntityType.MGR)


def _node_name(name: str) -> str:
    if not _NODE.fullmatch(name):
        raise PydanticCustomError(
            "node_name",
            "{name} is no name here: a lower-case letter, then up to seven of a-z 0-9",
            {"name": repr(name)},
        )
    return name


def _cluster_name(name: str) -> str:
    if not _CLUSTER.fullmatch(name):
        raise PydanticCustomError(
            "cluster_name",
            "{name} is no name for a cluster: a lower-case letter, then up to 29 of a-z 0-9 -",
            {"name": repr(name)},
        )
    return name


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise PydanticCustomError("one_line", "give one line of text, not {text}", {"text": repr(text)})
    return text


def _option_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise PydanticCustomError("option_value", "give a number, true, false or text", {})
    return value


NodeName = Annotated[
    str, AfterValidator(_node_name), WithJsonSchema({"type": "string", "pattern": f"^{_NODE.pattern}$"})
]
"""Short, because namespaces and interfaces are named after nodes."""
ClusterName = Annotated[
    str, AfterValidator(_cluster_name), WithJsonSchema({"type": "string", "pattern": f"^{_CLUSTER.pattern}$"})
]
BackendName = Literal["process", "netns", "docker", "swarm", "vm"]
TransportName = Literal["tcp", "rdma"]
OptionValue = Annotated[bool | int | float | str, BeforeValidator(_option_value)]
Line = Annotated[str, AfterValidator(_one_line)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class Part(BaseModel):
    """Base class of all parts."""

    model_config = _SETTINGS


class Speech(Part):
    """Protocol, mode, authentication and cipher."""

    protocol: Literal["v1", "v2", "v1+v2"] = "v2"
    """msgr v1, msgr v2 or both. With both, a node listens on an address for each, and peers that speak v2 dial the
    v2 address."""
    mode: Literal["crc", "secure", "compressed"] = "crc"
    """Mode of v2 connections: checksums, encryption, or checksums with all frames between OSDs compressed;
    embedded OSDs also compress links with clients that request it. v1 has only crc."""
    auth: Literal["cephx", "none"] = "cephx"
    """Authentication method of the nodes."""
    cipher: Literal["aes", "aes256k"] = "aes"
    """Cipher of all cephx keys of the cluster."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """``v1``, ``v2`` or both of them."""
        return tuple(self.protocol.split("+"))

    @model_validator(mode="after")
    def _agrees(self) -> "Speech":
        refuse(self.contradictions())
        return self

    def contradictions(self) -> list[Mistake]:
        """Return the values that exclude each other."""
        found = []
        if self.protocol == "v1" and self.mode != "crc":
            found.append(Mistake(("mode",), f"msgr v1 has no mode {self.mode}; give crc, or protocol v2"))
        if self.auth == "none" and self.mode == "secure":
            found.append(
                Mistake(("mode",), "without authentication there are no keys to encrypt with; give auth cephx")
            )
        if self.auth == "none" and self.cipher != "aes":
            found.append(
                Mistake(("cipher",), "without authentication there are no keys for a cipher; give auth cephx")
            )
        return found


class Member(Part):
    """Fields of all kinds of nodes."""

    networks: tuple[str, ...] = ()
    """Names of the networks that the node is on; all unless given. Peers dial it on the first."""
    count: Annotated[int, Field(ge=1, le=MAX_NODES)] = 1
    """Number of similar nodes: ``osd`` with ``count: 3`` is osd0, osd1 and osd2. Their entities are numbered from
    the given one; client.writer becomes client.writer0 and so on."""
    group: str = ""
    """Name of a group of similar nodes, which can be used instead of a node's name; ``count`` sets it."""

    @field_validator("group")
    @classmethod
    def _is_group(cls, text: str) -> str:
        return _node_name(text) if text else text


class Node(Member):
    """A messenger of msgrlab, in its own process."""

    entity: str
    """Entity name as TYPE.NUMBER, for example osd.1."""
    policy: str = "lossless_peer"
    """Connection policy towards all peers. Others for some entity types may follow:
    ``lossless_peer client=stateless_server``. Or the name of a messenger of Ceph's daemons, which has the policies
    and throttles of that: ``osd public``."""
    listens: bool = True
    """True if other nodes can dial it."""
    speaks: Speech | None = None
    """Values in which it differs from the cluster's ``speaks``."""
    options: dict[str, OptionValue] = {}
    """Options of its messenger, by Ceph's names (ms_*, auth_*); docs/options.md lists them."""
    workers: Annotated[int, Field(ge=0, le=64)] = 0
    """Number of threads that serve open connections; 0 serves them in the main thread."""

    @field_validator("entity")
    @classmethod
    def _is_entity(cls, text: str) -> str:
        label, _, number = text.partition(".")
        known = [kind.label for kind in _ENTITIES]
        if not _NUMBER.fullmatch(number):
            refuse([Mistake((), f"entity {text!r} is not TYPE.NUMBER, as in osd.1")])
        if label not in known:
            refuse([Mistake((), unknown("entity type", label, known))])
        return text

    @field_validator("policy")
    @classmethod
    def _is_policy(cls, text: str) -> str:
        if text in MESSENGERS:
            return text
        default, *others = text.split() or [""]
        if default not in POLICIES and get_close_matches(text, MESSENGERS):
            refuse([Mistake((), unknown("policy", text, [*POLICIES, *MESSENGERS]))])
        refuse(_policy(default))
        labels = [kind.label for kind in _ENTITIES]
        for other in others:
            label, equals, name = other.partition("=")
            if not equals:
                refuse([Mistake((), f"{other!r} is not TYPE=POLICY, as in client=stateless_server")])
            if label not in labels:
                refuse([Mistake((), unknown("entity type", label, labels))])
            refuse(_policy(name))
        return text

    @field_validator("options")
    @classmethod
    def _are_options(cls, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
        refuse(option_mistakes(options))
        return options

    @model_validator(mode="after")
    def _can_be_counted_on(self) -> "Node":
        number = int(self.entity.partition(".")[2])
        if not _NUMBER.fullmatch(str(number + self.count - 1)):
            refuse([Mistake(("count",), f"there are no {self.count} numbers from {number} on")])
        return self


class Daemon(Member):
    """A Ceph daemon, real or embedded (``ceph.release``)."""

    ceph: Literal["mon", "osd", "mgr", "mds"]
    """Type of the daemon."""
    options: dict[str, OptionValue] = {}
    """Options for its own section of ceph.conf."""

    @field_validator("options")
    @classmethod
    def _are_options(cls, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
        refuse(ceph_option_mistakes(options))
        return options


class RadosClient(Member):
    """A RADOS client of msgrlab, in its own process."""

    rados: str
    """Entity name, for example client.writer; the cluster makes a key for it."""
    pool: str = "objects"
    """The pool whose objects it reads and writes, one of ``ceph.pools``."""
    speaks: Speech | None = None
    """Values in which it differs from the cluster's ``speaks``."""
    options: dict[str, OptionValue] = {}
    """Options of its messenger, by Ceph's names (ms_*, auth_*); docs/options.md lists them."""

    @field_validator("rados")
    @classmethod
    def _is_client(cls, text: str) -> str:
        if not _CLIENT.fullmatch(text):
            refuse([Mistake((), f"{text!r} is no client: give client.NAME, with a NAME of A-Z a-z 0-9 _ -")])
        return text

    @field_validator("options")
    @classmethod
    def _are_options(cls, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
        refuse(option_mistakes(options))
        return options

    @model_validator(mode="after")
    def _can_be_counted_on(self) -> "RadosClient":
        if self.count > 1 and not _CLIENT.fullmatch(f"{self.rados}{self.count - 1}"):
            refuse([Mistake(("rados",), f"{self.rados!r} is too long to be numbered")])
        return self


def _kind_of_node(value: object) -> str:
    given = value.keys() if isinstance(value, dict) else ()
    if isinstance(value, Daemon) or "ceph" in given:
        return "<Daemon>"
    return "<RadosClient>" if isinstance(value, RadosClient) or "rados" in given else "<Node>"


AnyNode = Annotated[
    Annotated[Node, Tag("<Node>")]
    | Annotated[Daemon, Tag("<Daemon>")]
    | Annotated[RadosClient, Tag("<RadosClient>")],
    Discriminator(_kind_of_node),
]
"""A Ceph daemon if it has the key ``ceph``, a RADOS client with ``rados``, else a messenger of msgrlab."""


class Ceph(Part):
    """Settings that all Ceph daemons of the cluster share."""

    release: Literal["host", "embedded", "nautilus", "pacific", "reef", "tentacle"] = "host"
    """Release of the daemons: ``host`` for the programs installed on this machine, or the newest image where nodes
    are containers; ``embedded`` for msgrlab's own daemons, which real clients can use (docs/embedded.md); the
    others are run from images."""
    store: Literal["memstore", "bluestore"] = "memstore"
    """Object store of the OSDs: in memory, or in a sparse file."""
    options: dict[str, OptionValue] = {}
    """Options for the [global] section of ceph.conf."""
    pools: dict[str, Annotated[int, Field(ge=1, le=256)]] = {"objects": 8}
    """Pools that are made if there are OSDs, with their numbers of placement groups."""

    @field_validator("pools")
    @classmethod
    def _are_pools(cls, pools: dict[str, int]) -> dict[str, int]:
        refuse(
            Mistake((name,), f"{name!r} is no name for a pool: give A-Z a-z 0-9 _ . -")
            for name in pools
            if not _POOL.fullmatch(name)
        )
        return pools

    @field_validator("options")
    @classmethod
    def _are_options(cls, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
        refuse(global_option_mistakes(options))
        return options


class Network(Part):
    """A network between nodes."""

    subnet: str = ""
    """Subnet, for example 10.77.0.0/24; a free one unless given."""
    mtu: Annotated[int, Field(ge=576, le=65_535)] = 1500
    """MTU in bytes."""


class LinkSpec(LinkState):
    """Impairment of packets from one node to another, from the start of the cluster."""

    model_config = _SETTINGS

    sender: NodeName = Field(alias="from")
    """The sender of the packets; a group stands for each of its nodes."""
    receiver: NodeName = Field(alias="to")
    """The receiver of the packets."""
    both_ways: bool = False
    """True to impair the other direction as well."""


class Traffic(Part):
    """Messages that a node sends to another at a fixed rate, once all nodes are up."""

    sender: NodeName = Field(alias="from")
    """The node that sends; a group stands for each of its nodes."""
    receiver: NodeName = Field(alias="to")
    """The node that receives."""
    every_ms: Annotated[float, Field(gt=0, le=3_600_000)] = 100.0
    """Interval between messages."""
    size_bytes: Annotated[int, Field(ge=0, le=1 << 26)] = 100
    """Size of a message's data."""
    count: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    """Number of messages; 0 sends until the cluster goes down."""
    keepalive: bool = False
    """True to send KEEPALIVE2 frames instead of messages."""

    @property
    def beginning(self) -> tuple[str, dict[str, Any]]:
        """The command that starts the traffic: verb and arguments."""
        about = {"size_bytes": self.size_bytes, "count": self.count, "keepalive": self.keepalive}
        return "traffic", {"peer": self.receiver, "every_ms": self.every_ms, **about}

    @property
    def ending(self) -> tuple[str, dict[str, Any]]:
        """The command that stops the traffic: verb and arguments."""
        return "traffic", {"peer": self.receiver, "every_ms": 0, "keepalive": self.keepalive}


class Workload(Part):
    """Operations that a RADOS client does on objects, once all nodes are up."""

    workload: Literal["rados-register"]
    """``rados-register``: writes, appends, exclusive creates, removes, omap updates and reads, on objects that all
    such clients of a pool share. The history has each call and its reply, and the invariant ``linearizable``
    checks them."""
    sender: NodeName | Literal[""] = Field(alias="from", default="")
    """The client; a group stands for each of its nodes. Empty for all clients."""
    objects: Annotated[int, Field(ge=1, le=64)] = 3
    """Number of objects."""
    every_ms: Annotated[float, Field(gt=0, le=3_600_000)] = 50.0
    """Interval between a client's operations; the next one also waits for the reply."""
    count: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    """Number of operations of a client, which then reads each object once; 0 goes on until the cluster goes
    down."""

    @property
    def beginning(self) -> tuple[str, dict[str, Any]]:
        """The command that starts the workload: verb and arguments."""
        return "registers", {"objects": self.objects, "every_ms": self.every_ms, "count": self.count}

    @property
    def ending(self) -> tuple[str, dict[str, Any]]:
        """The command that stops the workload: verb and arguments."""
        return "registers", {"every_ms": 0}


WORKLOADS = ("rados-register",)


def _short_traffic(value: object) -> object:
    """Expand the name of a workload to a list with that workload for all clients."""
    if isinstance(value, list):
        return tuple(value)  # pydantic does not take it for one any more
    if not isinstance(value, str):
        return value
    if value not in WORKLOADS:
        refuse([Mistake((), unknown("workload", value, WORKLOADS))])
    return ({"workload": value},)


def _kind_of_traffic(value: object) -> str:
    is_workload = isinstance(value, Workload) or (isinstance(value, dict) and "workload" in value)
    return "<Workload>" if is_workload else "<Traffic>"


AnyTraffic = Annotated[
    Annotated[Traffic, Tag("<Traffic>")] | Annotated[Workload, Tag("<Workload>")], Discriminator(_kind_of_traffic)
]
TrafficList = Annotated[tuple[AnyTraffic, ...], BeforeValidator(_short_traffic)]


class Capture(Part):
    """A capture of a node's packets, in the cluster's directory, until the cluster goes down."""

    node: NodeName
    """The node; a group stands for each of its nodes."""
    file: str = ""
    """Name of the file; NODE.pcapng unless given."""

    @field_validator("file")
    @classmethod
    def _is_file(cls, name: str) -> str:
        if name and (not _FILE.fullmatch(name) or not name.endswith((".pcapng", ".pcap"))):
            refuse([Mistake((), f"give a name without directories that ends in .pcapng or .pcap, not {name!r}")])
        return name

    @property
    def file_name(self) -> str:
        """Name of the file."""
        return self.file or f"{self.node}.pcapng"


class Proxy(Part):
    """A frame-aware proxy that one node dials to reach another."""

    sender: NodeName = Field(alias="from")
    """The node that dials."""
    receiver: NodeName = Field(alias="to")
    """The node that is dialled."""
    script: tuple[Line, ...] = ()
    """Rules of the proxy, one per line (docs/proxy.md)."""


class Moment(Part):
    """A fault at a time of the timeline."""

    at_s: Annotated[float, Field(ge=0, le=1e6)]
    """Seconds since all nodes were ready."""
    fault: Line
    """The fault, as ``msgrlab fault`` takes it: ``partition a b``."""


class Chaos(Part):
    """Random faults, one after the other; those that last longer than the interval overlap."""

    seed: Seed = 1
    """Seed of the choice of faults and times."""
    faults: tuple[Line, ...] = ()
    """Kinds of faults to choose from; all that the backend supports unless given."""
    every_s: Annotated[float, Field(gt=0, le=1e6)] = 2.0
    """Mean interval between faults."""
    lasts_s: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Mean duration of faults that last."""
    for_s: Annotated[float, Field(gt=0, le=1e6)] = 30.0
    """Time after which no more faults start and all are healed."""


def _policy(name: str) -> list[Mistake]:
    return [] if name in POLICIES else [Mistake((), unknown("policy", name, list(POLICIES)))]
