"""What scenarios with a raw peer have in common: an open session, and frames by kind."""

from typing import Any

from messenger.v1.wire import Ack as V1Ack
from messenger.v1.wire import ConnectReply, Seq
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import MESSAGE_HEADER, Ack, SessionReconnect, SessionReconnectOk, SessionReset
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, stage
from toolkit.node.raw.peer import RawPeer


def opened(lab: Lab, role: str, **options: Any) -> tuple[RawPeer, Any]:  # noqa: ANN401 - Config options
    """A node ``a`` with a session with raw peer ``b``, and b's open link; see :func:`stage`."""
    peer = stage(lab, role, **options)
    link = peer.dial("a") if role == ACCEPTOR else peer.accept("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
    return peer, link


def hang_up(lab: Lab, link: Any) -> None:  # noqa: ANN401 - of either protocol
    """End a link, and wait until the node has noticed."""
    before = len(lab.faults("a"))
    link.hang_up()
    lab.expect_fault_count("a", before + 1)


def messages(link: Any, after_s: float = 0.1) -> list[Any]:  # noqa: ANN401 - of either protocol
    """The messages of the node's that come on a link within some time."""
    return [frame for frame in link.rest(after_s) if hasattr(frame, "tid")]


def acks(link: Any, after_s: float = 0.1) -> list[int]:  # noqa: ANN401 - as above
    """What the node acknowledges on a link within some time."""
    return [frame.seq for frame in link.rest(after_s) if isinstance(frame, Ack | V1Ack)]


def acknowledge(lab: Lab, link: Any, seq: int) -> None:  # noqa: ANN401 - as above
    """Have the peer acknowledge everything up to a seq."""
    link.send(V1Ack(seq) if lab.is_v1 else Ack(seq))


def asked(lab: Lab, link: Any) -> Any:  # noqa: ANN401 - SessionReconnect, or Connect
    """The frame by which an authenticated node resumes its session."""
    if lab.is_v1:
        link.handshake(until=link.connect)
        connect, step = link.authenticated()
        link.proof = step.payload
        return connect
    link.handshake(until=link.ident)
    return link.expect(SessionReconnect)


def resume(lab: Lab, link: Any, wish: Any, in_seq: int) -> None:  # noqa: ANN401 - as above
    """Grant what :func:`asked` returned, claiming to have the node's messages up to a seq."""
    if not lab.is_v1:
        link.send(SessionReconnectOk(in_seq))
        return
    link.reply = link.reply_to(wish, V1Tag.SEQ, authorizer=link.proof)
    link.agree(link.reply.features & wish.features)
    link.send(link.reply, Seq(in_seq))
    link.expect(Seq)


def refuse_session(lab: Lab, link: Any, wish: Any) -> None:  # noqa: ANN401 - as above
    """Say that the session it asked for is not known, in full."""
    link.send(link.reply_to(wish, V1Tag.RESETSESSION) if lab.is_v1 else SessionReset(full=True))


def reply_of(frame: object) -> str:
    """The tag of a reply of v1."""
    return frame.tag.name if isinstance(frame, ConnectReply) else ""


def header(seq: int = 1, **fields: int) -> bytes:
    """The header segment of a MESSAGE frame."""
    known = {"type_": 2, "version": 1, "ack_seq": 0, "compat_version": 1, "reserved": 0} | fields
    return MESSAGE_HEADER.pack(
        seq,
        seq,
        known["type_"],
        127,
        known["version"],
        0,
        0,
        known["ack_seq"],
        3,
        known["compat_version"],
        known["reserved"],
    )
