"""The parts of a cluster spec, each checked for itself; what they have to do with each other is in rules.py."""

import re
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
from messenger.session.policy import POLICIES
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
"""Short: namespaces and interfaces are named after nodes."""
ClusterName = Annotated[
    str, AfterValidator(_cluster_name), WithJsonSchema({"type": "string", "pattern": f"^{_CLUSTER.pattern}$"})
]
BackendName = Literal["process", "netns", "docker", "swarm"]
TransportName = Literal["tcp", "rdma"]
OptionValue = Annotated[bool | int | float | str, BeforeValidator(_option_value)]
Line = Annotated[str, AfterValidator(_one_line)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class Part(BaseModel):
    """What all parts have in common."""

    model_config = _SETTINGS


class Speech(Part):
    """What nodes speak."""

    protocol: Literal["v1", "v2", "v1+v2"] = "v2"
    """msgr v1, msgr v2, or both: a node that listens then has an address for each, and peers that speak v2 dial
    that of v2."""
    mode: Literal["crc", "secure", "compressed"] = "crc"
    """Of v2 connections: checksums, encryption, or checksums with every frame between OSDs compressed; embedded
    OSDs compress what they say to clients that ask for it. v1 has only crc."""
    auth: Literal["cephx", "none"] = "cephx"
    """How nodes authenticate."""
    cipher: Literal["aes", "aes256k"] = "aes"
    """Of all keys of the cluster."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """``v1``, ``v2`` or both of them."""
        return tuple(self.protocol.split("+"))

    @model_validator(mode="after")
    def _agrees(self) -> "Speech":
        refuse(self.contradictions())
        return self

    def contradictions(self) -> list[Mistake]:
        """What does not go together in it."""
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
    """What every kind of node can have."""

    networks: tuple[str, ...] = ()
    """The cluster's networks that it is on; all unless given. Peers dial it on the first."""
    count: Annotated[int, Field(ge=1, le=MAX_NODES)] = 1
    """So many alike: ``osd`` with ``count: 3`` is osd0, osd1 and osd2. Entities are numbered on; client.writer
    becomes client.writer0 and so on."""
    group: str = ""
    """Name of alike nodes, which stands for all of them wherever a node can be named; ``count`` sets it."""

    @field_validator("group")
    @classmethod
    def _is_group(cls, text: str) -> str:
        return _node_name(text) if text else text


class Node(Member):
    """One of our own messengers, as a program of its own."""

    entity: str
    """Messenger name as TYPE.NUMBER, for example osd.1."""
    policy: str = "lossless_peer"
    """Towards every peer; others for some types may follow: ``lossless_peer client=stateless_server``."""
    listens: bool = True
    """True if other nodes can dial it."""
    speaks: Speech | None = None
    """What it speaks otherwise than the cluster does."""
    options: dict[str, OptionValue] = {}
    """Of its messenger, by Ceph's names (ms_*, auth_*); docs/options.md has them."""
    workers: Annotated[int, Field(ge=0, le=64)] = 0
    """Threads for open connections."""

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
        default, *others = text.split() or [""]
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
    """A real daemon of Ceph."""

    ceph: Literal["mon", "osd", "mgr", "mds"]
    """Which one."""
    options: dict[str, OptionValue] = {}
    """For its own section of ceph.conf."""

    @field_validator("options")
    @classmethod
    def _are_options(cls, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
        refuse(ceph_option_mistakes(options))
        return options


class RadosClient(Member):
    """A client of the real cluster, one of ours, as a program of its own."""

    rados: str
    """Its entity name, as in client.writer; the cluster has a key for it."""
    pool: str = "objects"
    """The pool whose objects it reads and writes; ``ceph.pools`` has it."""
    speaks: Speech | None = None
    """What it speaks otherwise than the cluster does."""
    options: dict[str, OptionValue] = {}
    """Of its messenger, by Ceph's names (ms_*, auth_*); docs/options.md has them."""

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
"""A real daemon if it has a key ``ceph``, a client of real daemons with ``rados``, else a messenger of ours."""


class Ceph(Part):
    """What the real daemons share."""

    release: Literal["host", "embedded", "nautilus", "pacific", "reef", "tentacle"] = "host"
    """``host`` for what is installed on this machine, or the newest image where nodes are containers; ``embedded``
    for daemons of ours that real clients can use (docs/embedded.md); others come from images."""
    store: Literal["memstore", "bluestore"] = "memstore"
    """Where OSDs keep objects: in memory, or in a sparse file."""
    options: dict[str, OptionValue] = {}
    """For the [global] section of ceph.conf."""
    pools: dict[str, Annotated[int, Field(ge=1, le=256)]] = {"objects": 8}
    """Pools to be made where there are OSDs, and their numbers of placement groups."""

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
    """As in 10.77.0.0/24; whatever is free unless given."""
    mtu: Annotated[int, Field(ge=576, le=65_535)] = 1500
    """Longest packet in bytes."""


class Link(LinkState):
    """How packets between two nodes are treated from the beginning on."""

    model_config = _SETTINGS

    sender: NodeName = Field(alias="from")
    """The sender of the packets; a group stands for each of its nodes."""
    receiver: NodeName = Field(alias="to")
    """Their receiver."""
    both_ways: bool = False
    """True: also packets in the other direction."""


class Traffic(Part):
    """What a node sends to another by itself, from the moment on at which all are up."""

    sender: NodeName = Field(alias="from")
    """The node that sends; a group stands for each of its nodes."""
    receiver: NodeName = Field(alias="to")
    """To whom."""
    every_ms: Annotated[float, Field(gt=0, le=3_600_000)] = 100.0
    """Time from one to the next."""
    size_bytes: Annotated[int, Field(ge=0, le=1 << 26)] = 100
    """Of a message's data."""
    count: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    """So many messages; 0: for as long as it is up."""
    keepalive: bool = False
    """Heartbeats instead of messages: KEEPALIVE2 frames."""

    @property
    def beginning(self) -> tuple[str, dict[str, Any]]:
        """The command that has the sender begin, and its arguments."""
        about = {"size_bytes": self.size_bytes, "count": self.count, "keepalive": self.keepalive}
        return "traffic", {"peer": self.receiver, "every_ms": self.every_ms, **about}

    @property
    def ending(self) -> tuple[str, dict[str, Any]]:
        """The command that has it end."""
        return "traffic", {"peer": self.receiver, "every_ms": 0, "keepalive": self.keepalive}


class Workload(Part):
    """What a client of daemons does to objects by itself, from the moment on at which all are up."""

    workload: Literal["rados-register"]
    """``rados-register``: writes, appends, exclusive creates, removes, omap and reads, on objects that all such
    clients of a pool share; each call and each answer is in the history, where ``linearizable`` judges them."""
    sender: NodeName | Literal[""] = Field(alias="from", default="")
    """The client; a group stands for each of its nodes, and so does nothing for all clients."""
    objects: Annotated[int, Field(ge=1, le=64)] = 3
    """On so many objects."""
    every_ms: Annotated[float, Field(gt=0, le=3_600_000)] = 50.0
    """Time from one operation of a client to its next, which waits for the answer."""
    count: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    """So many operations of a client, then a last look at each object; 0: for as long as it is up."""

    @property
    def beginning(self) -> tuple[str, dict[str, Any]]:
        """The command that has the client begin, and its arguments."""
        return "registers", {"objects": self.objects, "every_ms": self.every_ms, "count": self.count}

    @property
    def ending(self) -> tuple[str, dict[str, Any]]:
        """The command that has it end."""
        return "registers", {"every_ms": 0}


WORKLOADS = ("rados-register",)


def _short_traffic(value: object) -> object:
    """The name of a workload alone has all clients do it."""
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
    """Packets of a node, written to the cluster's directory for as long as it is up."""

    node: NodeName
    """The node; a group stands for each of its nodes."""
    file: str = ""
    """Name; NODE.pcapng unless given."""

    @field_validator("file")
    @classmethod
    def _is_file(cls, name: str) -> str:
        if name and (not _FILE.fullmatch(name) or not name.endswith((".pcapng", ".pcap"))):
            refuse([Mistake((), f"give a name without directories that ends in .pcapng or .pcap, not {name!r}")])
        return name

    @property
    def file_name(self) -> str:
        """Of the capture."""
        return self.file or f"{self.node}.pcapng"


class Proxy(Part):
    """A frame-aware proxy between two nodes; one node dials the other through it."""

    sender: NodeName = Field(alias="from")
    """The node that dials."""
    receiver: NodeName = Field(alias="to")
    """The node that is dialled."""
    script: tuple[Line, ...] = ()
    """What it does, a line each (docs/proxy.md)."""


class Moment(Part):
    """A fault of a timeline."""

    at_s: Annotated[float, Field(ge=0, le=1e6)]
    """Since the cluster was ready."""
    fault: Line
    """As ``msgrlab fault`` has it: ``partition a b``."""


class Chaos(Part):
    """Faults drawn at random, one after the other; they overlap if they last longer than the next one takes."""

    seed: Seed = 1
    """Decides which ones, and when."""
    faults: tuple[Line, ...] = ()
    """Kinds that are drawn; all that the backend can do unless given."""
    every_s: Annotated[float, Field(gt=0, le=1e6)] = 2.0
    """On average."""
    lasts_s: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """On average, of those that last."""
    for_s: Annotated[float, Field(gt=0, le=1e6)] = 30.0
    """Then everything is healed."""


def _policy(name: str) -> list[Mistake]:
    return [] if name in POLICIES else [Mistake((), unknown("policy", name, list(POLICIES)))]
