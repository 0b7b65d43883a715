"""The spec of a node: its start parameters, as plain values."""

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
from messenger.session.policy import PolicySet, ThrottleLimit
from toolkit.node.auth import Credentials
from toolkit.node.program import ProgramSpec

MODES = ("crc", "secure", "compressed")
"""Connection modes; ``compressed`` is crc with all frames between OSDs compressed."""
_COMPRESSED = {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1}
"""Options of mode ``compressed``: compress every frame between OSDs that can be."""

_ENTITY_NUMBER = re.compile("-?[0-9]{1,18}")
"""Numbers that fit in 64 bits on the wire."""


@dataclass(slots=True, kw_only=True)
class NodeSpec(ProgramSpec):
    """Start parameters of a node, as JSON values."""

    WHAT = "node"

    entity: str
    """Entity name as TYPE.NUM, for example ``osd.1``."""
    addr: str
    """Its address; a client that does not listen has port 0."""
    policy: str
    """Policies by entity type of the peer, in the form of :meth:`PolicySet.parse`."""
    mode: str
    """Connection mode, one of :data:`MODES`."""
    service_key: str
    """The key that all nodes share, in its text form; they authenticate by cephx with tickets made from it."""
    peers: dict[str, str]
    """Addresses of all nodes by name."""
    peer_entities: dict[str, str]
    """Entity names of all nodes by name."""
    auth: dict[str, Any] = field(default_factory=dict)
    """Authentication other than by the shared key; see toolkit/node/auth.py."""
    workers: int = 0
    """Number of further shards, which run open connections; 0 for a single shard."""
    throttle: dict[str, int] = field(default_factory=dict)
    """Limits of the policy's dispatch throttles, ``messages`` and ``size_bytes``; none by default."""
    requires: int = 0
    """Feature bits that the policy requires of every peer."""
    key_log: str = ""
    """File to append the keys of its links to (docs/keylog.md); empty for none."""
    v1_only: bool = False
    """True to dial peers at their v1 addresses, if they have any; otherwise v2 is preferred."""

    @property
    def listens(self) -> bool:
        """True if peers can dial it."""
        return bool(self.addrs.front.port)

    @property
    def addrs(self) -> AddrVec:
        """Its addresses."""
        return AddrVec.parse(self.addr)

    @property
    def entity_name(self) -> EntityName:
        """Its entity name."""
        return parse_entity(self.entity)

    @property
    def key(self) -> CryptoKey:
        """The shared key."""
        return CryptoKey.from_base64(self.service_key)

    def auth_client(self) -> AuthClient:
        """Return the client that authenticates it to others."""
        return Credentials(self).client

    def auth_server(self) -> AuthServer:
        """Return the server that authenticates others to it."""
        return Credentials(self).server

    def policies(self) -> PolicySet:
        """Return the policies by entity type of the peer."""
        policies = PolicySet.parse(self.policy, self.config())
        limits = {kind: ThrottleLimit(f"policy_{kind}", limit) for kind, limit in self.throttle.items()}
        default = policies.default.requiring(self.requires)
        try:
            policies.default = default.throttled(**limits) if limits else default
        except TypeError as error:
            raise LocalError(f"node throttles: {error}") from None
        return policies

    def config(self) -> Config:
        """Return its options, including those of the connection mode."""
        if self.mode not in MODES:
            raise LocalError(f"unknown mode {self.mode!r}; known: {', '.join(MODES)}")
        mode = ConMode.SECURE if self.mode == "secure" else ConMode.CRC
        compressed = _COMPRESSED if self.mode == "compressed" else {}
        try:
            return Config.only_mode(mode, **(compressed | self.options))
        except TypeError as error:
            raise LocalError(f"node options: {error}") from None


@cache
def parse_entity(text: str) -> EntityName:
    """Parse an entity name, ``TYPE.NUM``.

    Raises:
        LocalError: it is not one.
    """
    label, _, number = text.partition(".")
    if not _ENTITY_NUMBER.fullmatch(number):
        raise LocalError(f"entity {text!r} is not TYPE.NUMBER, as in osd.1")
    return EntityName(EntityType.from_label(label), int(number))
