"""One run of one case: the links that it opens, and the log of what was sent and received."""

import socket
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from messenger.cephx.exchange import AuthClient, AuthMethod, ConMode
from messenger.cephx.none import NoneServer
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.features import Msgr2Feature
from messenger.v2.wire import ServerIdent
from toolkit.conformance.peers import V1Peer, V2Peer
from toolkit.conformance.target import RNG, Facts, Target
from toolkit.node.raw.link import Identity, Other

COMPRESSING = Msgr2Feature.REVISION_1 | Msgr2Feature.COMPRESSION


class Attempt:
    """One run of a case: opens links to the target. A context manager, which closes them.

    All links of an attempt come from one peer: one address with its own nonce, and a global_seq that grows.

    Args:
        target: the implementation under test.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.log: list[str] = []
        """Frames and bytes sent and received, one line each, in order."""
        self.client_cookie = RNG.getrandbits(63) + 1
        self._stack = ExitStack()
        self._addr: EntityAddr | None = None
        self._links = 0
        self._nonce = RNG.getrandbits(31) + 1

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def facts(self) -> Facts:
        """Properties of the target that the survey found."""
        return self.target.facts

    # ---- links, by the state in which they are returned

    def dial(self, auth_client: AuthClient | None = None, **options: Any) -> V2Peer:
        """Open a TCP connection to a v2 target; nothing has been sent on it."""
        options = {"features": Msgr2Feature.REVISION_1, "mode": self.usual_mode} | options
        peer: V2Peer = self._link(V2Peer, auth_client, options)
        peer.client_cookie = self.client_cookie
        return peer

    def dial_v1(self, auth_client: AuthClient | None = None, **options: Any) -> V1Peer:
        """Open a TCP connection to a v1 target; nothing has been sent on it."""
        peer: V1Peer = self._link(V1Peer, auth_client, options)
        peer.addr = peer.me.addrs.front
        return peer

    def greeted(self, **options: Any) -> V2Peer:
        """Open a v2 link and exchange banners and HELLOs."""
        peer = self.dial(**options)
        peer.banner()
        peer.hello()
        return peer

    def proven(self, **options: Any) -> V2Peer:
        """Open a v2 link up to AUTH_DONE; the peer's AUTH_SIGNATURE is due."""
        peer = self.greeted(**options)
        peer.auth_request()
        peer.auth_more()
        return peer

    def admitted(self, **options: Any) -> V2Peer:
        """Open a v2 link, exchange signatures, decline compression if it is negotiated; CLIENT_IDENT is due."""
        peer = self.proven(**options)
        peer.signature()
        if peer.agreed_features & Msgr2Feature.COMPRESSION:
            peer.compression()
        return peer

    def open(self, **options: Any) -> V2Peer:
        """Open a v2 session."""
        peer = self.admitted(**options)
        self.ident(peer)
        return peer

    def ident(self, peer: V2Peer, **changes: Any) -> ServerIdent:
        """Send CLIENT_IDENT for a new session and return the target's SERVER_IDENT."""
        peer.send(peer.client_ident(**changes))
        return peer.expect(ServerIdent)

    def identified_v1(self, **options: Any) -> V1Peer:
        """Open a v1 link and exchange banners and addresses; CONNECT is due."""
        peer = self.dial_v1(**options)
        peer.banner()
        peer.identify()
        return peer

    def open_v1(self, **options: Any) -> V1Peer:
        """Open a v1 session."""
        peer = self.identified_v1(**options)
        peer.connect()
        peer.seq()
        return peer

    # ---- parameters of links

    @property
    def usual_mode(self) -> ConMode:
        """The default connection mode of cases: crc if the target allows it."""
        modes = self.facts.modes
        return ConMode.CRC if ConMode.CRC in modes or not modes else modes[0]

    @property
    def method(self) -> AuthMethod:
        """The method by which this peer authenticates."""
        return AuthMethod.CEPHX if self.target.by_cephx else AuthMethod.NONE

    def addr(self, ip_of: EntityAddr | None = None) -> EntityAddr:
        """Return the address of this attempt's peer: port 0 for a client, a reserved port for a daemon.

        The reserved port refuses connections, so that the target cannot connect back.
        """
        if self._addr is None:
            assert ip_of is not None
            if self.target.name.type is EntityType.CLIENT:
                kind = AddressType.ANY if self.target.addr.type is AddressType.MSGR2 else AddressType.LEGACY
                self._addr = replace(ip_of, type=kind, port=0, nonce=self._nonce)
            else:
                self._addr = replace(ip_of, port=self._reserve(ip_of), nonce=self._nonce)
        return self._addr

    def _reserve(self, local: EntityAddr) -> int:
        family = socket.AF_INET if len(local.ip) == 4 else socket.AF_INET6
        reserved = self._stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        reserved.bind((local.host, 0))
        return int(reserved.getsockname()[1])

    def _link(self, kind: Any, auth_client: AuthClient | None, options: dict[str, Any]) -> Any:
        stream, local = self.target.connect()
        self._stack.callback(stream.close)
        me = Identity(
            self.target.name,
            AddrVec((self.addr(local),)),
            auth_client or self.target.auth_client,
            NoneServer(),
            RNG,
            time.time,
        )
        other = Other(self.facts.entity_type, self.target.addr)
        peer = kind(stream, me, other, connecting=True, socket_addr=local, **options)
        self._links += 1
        number = peer.global_seq = self._links
        peer.patience_s = self.target.patience_s
        peer.note = lambda what: self.log.append(what if number == 1 else f"on link {number}, {what}")
        return peer
