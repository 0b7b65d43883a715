"""The states in which a node receives frames, how a raw peer brings it there, and which tags each state accepts.

The tables follow docs/protocol.md §4.7 to §4.10, and §3.4 to §3.7 for v1; they are not derived from the tables of
the messenger.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from messenger.cephx.exchange import AuthMethod
from messenger.v2.wire import (
    Ack,
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Hello,
    IdentMissingFeatures,
    KeepAlive2,
    KeepAlive2Ack,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Tag,
    Wait,
)
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.peer import RawPeer
from toolkit.node.raw.v2 import RawV2Link

if TYPE_CHECKING:
    from toolkit.lab.verbs.raw import RawVerbs

CONNECTOR, ACCEPTOR = "connector", "acceptor"
"""The node's role on a link."""
SOON: dict[str, Any] = {"ms_initial_backoff": 0.02, "ms_max_backoff": 0.02}
"""Config options of a node that dials again after 20 ms."""


@dataclass(frozen=True, slots=True)
class Place:
    """A state of a node's link in which it receives frames."""

    state: str
    role: str
    """The node's role on the link: connector or acceptor."""
    before: str
    """The next step of the handshake that the peer has to do; empty if the handshake is complete."""
    takes: frozenset[int] = frozenset()
    """On v2, tags that the state accepts; a frame may still be refused for its contents."""
    resumes: bool = False
    """True if the node resumes a session that was open before."""

    @property
    def name(self) -> str:
        """A name for cases of scenarios."""
        return f"{self.state} {self.role}" if not self.before else self.state


def _takes(*tags: Tag) -> frozenset[int]:
    return frozenset(tags)


_DATA = _takes(Tag.MESSAGE, Tag.KEEPALIVE2, Tag.KEEPALIVE2_ACK, Tag.ACK)

V2_PLACES = (
    Place("HELLO_CONNECTING", CONNECTOR, "hello", _takes(Tag.HELLO)),
    Place(
        "AUTH_CONNECTING", CONNECTOR, "auth_done", _takes(Tag.AUTH_BAD_METHOD, Tag.AUTH_REPLY_MORE, Tag.AUTH_DONE)
    ),
    Place("AUTH_CONNECTING_SIGN", CONNECTOR, "signature", _takes(Tag.AUTH_SIGNATURE)),
    Place("COMPRESSION_CONNECTING", CONNECTOR, "compression", _takes(Tag.COMPRESSION_DONE)),
    Place(
        "SESSION_CONNECTING", CONNECTOR, "ident", _takes(Tag.SERVER_IDENT, Tag.IDENT_MISSING_FEATURES, Tag.WAIT)
    ),
    Place(
        "SESSION_RECONNECTING",
        CONNECTOR,
        "ident",
        _takes(Tag.SESSION_RECONNECT_OK, Tag.SESSION_RESET, Tag.SESSION_RETRY, Tag.SESSION_RETRY_GLOBAL, Tag.WAIT),
        resumes=True,
    ),
    Place("READY", CONNECTOR, "", _DATA),
    Place("HELLO_ACCEPTING", ACCEPTOR, "hello", _takes(Tag.HELLO)),
    Place("AUTH_ACCEPTING", ACCEPTOR, "auth_request", _takes(Tag.AUTH_REQUEST)),
    Place("AUTH_ACCEPTING_MORE", ACCEPTOR, "auth_more", _takes(Tag.AUTH_REQUEST_MORE)),
    Place("AUTH_ACCEPTING_SIGN", ACCEPTOR, "signature", _takes(Tag.AUTH_SIGNATURE)),
    Place("COMPRESSION_ACCEPTING", ACCEPTOR, "compression", _takes(Tag.COMPRESSION_REQUEST)),
    Place("SESSION_ACCEPTING", ACCEPTOR, "ident", _takes(Tag.CLIENT_IDENT, Tag.SESSION_RECONNECT)),
    Place("READY", ACCEPTOR, "", _DATA),
)

V1_PLACES = (
    Place("CONNECTING_WAIT_BANNER_AND_IDENTIFY", CONNECTOR, "identify"),
    Place("CONNECTING_SEND_CONNECT_MSG", CONNECTOR, "connect"),
    Place("CONNECTING_WAIT_ACK_SEQ", CONNECTOR, "seq"),
    Place("OPENED", CONNECTOR, ""),
    Place("ACCEPTING", ACCEPTOR, "identify"),
    Place("ACCEPTING_WAIT_CONNECT_MSG_AUTH", ACCEPTOR, "connect"),
    Place("ACCEPTING_HANDLED_CONNECT_MSG", ACCEPTOR, "seq"),
    Place("OPENED", ACCEPTOR, ""),
)


def stage(lab: "RawVerbs", role: str, **options: Any) -> RawPeer:  # noqa: ANN401 - Config options
    """Create a node ``a`` that has this role on links with raw peer ``b``; returns the peer.

    A connector keeps dialling, an acceptor never dials.

    Args:
        lab: the lab of the scenario.
        role: role of the node, CONNECTOR or ACCEPTOR.
        options: ``policy`` of the node, and Config options; those of :data:`SOON` are the default.
    """
    peer = lab.raw("b", "osd.2")
    policy = options.pop("policy", "lossless_client" if role == CONNECTOR else "stateful_server")
    lab.node("a", "osd.1", policy, **(SOON | options))
    lab.start()
    if role == CONNECTOR:
        lab.dial("a", "b")
    return peer


def breaks(lab: "RawVerbs", link: RawLink, send: Callable[[], object], *reasons: str, state: str = "") -> None:
    """Require that ``send`` breaks the link, for one of these reasons.

    Args:
        lab: the lab of the scenario.
        link: link of a raw peer with node ``a``.
        send: sends the frame that breaks it.
        reasons: names of FaultReason.
        state: state of the link that the fault names; any unless given.

    Raises:
        ScenarioFailed: the link does not break, or for another reason, or in another state.
    """
    before = len(lab.faults("a"))
    with suppress(ScenarioFailed):  # a handshake step that gets no answer; the checks below report that
        send()
    link.expect_closed()
    lab.expect_fault_count("a", before + 1)
    reason, detail = lab.faults("a")[-1], lab.last_fault("a")
    lab.require(reason in reasons, f"{reason} ({detail}) where {' or '.join(reasons)} was expected")
    lab.require(not state or f" in {state}" in detail, f"{detail!r} where {state} was meant")


def leave(lab: "RawVerbs", link: RawLink) -> None:
    """End an open link of node ``a``, and wait until the node has closed it."""
    closes = lab.closes("a")
    link.hang_up()
    lab.expect_closes("a", closes + 1)


def arrive(peer: RawPeer, place: Place, options: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - of either protocol
    """Open a link of node ``a`` and bring it into a state; a connector must be about to dial.

    Args:
        peer: the raw peer at the other end.
        place: the state.
        options: options of the raw peer's link.
    """
    link = peer.dial("a", **(options or {})) if place.role == ACCEPTOR else peer.accept("a", **(options or {}))
    return link.handshake(until=getattr(link, place.before)) if place.before else link.handshake()


def v2_samples(link: RawV2Link) -> dict[int, ControlFrame]:
    """A well-formed control frame of every tag, by tag."""
    me, mode = link.me, link.mode
    frames: list[ControlFrame] = [
        Hello(me.name.type, link.other.addr),
        AuthRequest(AuthMethod.CEPHX, [mode], b"authorizer"),
        AuthBadMethod(AuthMethod.CEPHX, -13, [AuthMethod.CEPHX], [mode]),
        AuthReplyMore(b"more"),
        AuthRequestMore(b"more"),
        AuthDone(4100, mode, b"reply"),
        AuthSignature(link.own_signature or bytes(32)),
        link.client_ident(),
        link.server_ident(),
        IdentMissingFeatures(1),
        link.session_reconnect(),
        SessionReset(full=True),
        SessionRetry(5),
        SessionRetryGlobal(5),
        SessionReconnectOk(0),
        Wait(),
        KeepAlive2(1, 0),
        KeepAlive2Ack(1, 0),
        Ack(0),
        CompressionRequest(is_compress=False, methods=[]),
        CompressionDone(is_compress=False, method=0),
    ]
    return {frame.TAG: frame for frame in frames}
