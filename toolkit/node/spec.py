"""What a node of a scenario is: everything it needs to know to start, as plain values."""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from messenger.cephx.exchange import AuthClient, AuthServer, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import LocalError
from messenger.session.policy import POLICIES, Policy, PolicySet, ThrottleLimit
from toolkit.node.auth import Credentials
from toolkit.node.program import ProgramSpec

MODES = ("crc", "secure", "compressed")
"""Connection modes; ``compressed`` is crc with every frame between OSDs compressed."""
_COMPRESSED = {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1}
"""Options of mode ``compressed``: between OSDs, every frame that can be."""

_ENTITY_NUMBER = re.compile("-?[0-9]{1,18}")
"""What surely fits into the 64 bits of the wire."""


@dataclass(slots=True, kw_only=True)
class NodeSpec(ProgramSpec):
    """Everything a node needs to know to start, as plain JSON values."""

    WHAT = "node"

    entity: str
    """Messenger name as TYPE.NUM, for example ``osd.1``."""
    addr: str
    """Own address; a client that does not listen has port 0."""
    policy: str
    """Policy towards every peer; others for some types may follow: ``lossless_peer client=stateless_server``."""
    mode: str
    """Connection mode: crc or secure."""
    service_key: str
    """The key all nodes share, in its text form; authentication is cephx with tickets made from it."""
    peers: dict[str, str]
    """Addresses of all nodes by name."""
    peer_entities: dict[str, str]
    """Messenger names of all nodes by name."""
    auth: dict[str, Any] = field(default_factory=dict)
    """How it authenticates and whom it believes, if not by the shared key; see toolkit/node/auth.py."""
    workers: int = 0
    """Other shards that run the data phases; 0: everything on one."""
    throttle: dict[str, int] = field(default_factory=dict)
    """What the policy limits the application to: ``messages`` and ``size_bytes``, where there is a limit."""
    requires: int = 0
    """Feature bits that the policy requires of every peer."""
    key_log: str = ""
    """File to append the keys of its links to (docs/keylog.md); none unless given."""
    v1_only: bool = False
    """It dials peers at their v1 addresses, if they have any; otherwise v2 comes first."""

    @property
    def listens(self) -> bool:
        """True if peers can dial it."""
        return bool(self.addrs.front.port)

    @property
    def addrs(self) -> AddrVec:
        """Own addresses."""
        return AddrVec.parse(self.addr)

    @property
    def entity_name(self) -> EntityName:
        """Own messenger name."""
        return parse_entity(self.entity)

    @property
    def key(self) -> CryptoKey:
        """The shared key."""
        return CryptoKey.from_base64(self.service_key)

    def auth_client(self) -> AuthClient:
        """How it authenticates to others."""
        return Credentials(self).client

    def auth_server(self) -> AuthServer:
        """How others authenticate to it."""
        return Credentials(self).server

    def policies(self) -> PolicySet:
        """The policies towards the types of peers."""
        default, *others = self.policy.split()
        policy = _policy(default).requiring(self.requires)
        limits = {kind: ThrottleLimit(f"policy_{kind}", limit) for kind, limit in self.throttle.items()}
        try:
            policies = PolicySet(policy.throttled(**limits) if limits else policy)
        except TypeError as error:
            raise LocalError(f"node throttles: {error}") from None
        for other in others:
            peer_type, _, name = other.partition("=")
            policies.by_type[EntityType.from_label(peer_type)] = _policy(name)
        return policies

    def config(self) -> Config:
        """Options with the connection mode applied."""
        if self.mode not in MODES:
            raise LocalError(f"unknown mode {self.mode!r}; known: {', '.join(MODES)}")
        mode = ConMode.SECURE if self.mode == "secure" else ConMode.CRC
        compressed = _COMPRESSED if self.mode == "compressed" else {}
        try:
            return Config.only_mode(mode, **(compressed | self.options))
        except TypeError as error:
            raise LocalError(f"node options: {error}") from None


def _policy(name: str) -> Policy:
    if name not in POLICIES:
        raise LocalError(f"unknown policy {name!r}; known: {', '.join(POLICIES)}")
    return POLICIES[name]


@cache
def parse_entity(text: str) -> EntityName:
    """A messenger name from ``TYPE.NUM``.

    Raises:
        LocalError: it is not one.
    """
    label, _, number = text.partition(".")
    if not _ENTITY_NUMBER.fullmatch(number):
        raise LocalError(f"entity {text!r} is not TYPE.NUMBER, as in osd.1")
    return EntityName(EntityType.from_label(label), int(number))
