"""Helpers of scenarios with a raw peer: an open session, and the frames of a session by kind."""

from typing import Any

from messenger.v1.wire import Ack as V1Ack
from messenger.v1.wire import ConnectReply, Seq
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import MESSAGE_HEADER, Ack, SessionReconnect, SessionReconnectOk, SessionReset
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, stage
from toolkit.node.raw.peer import RawPeer


def opened(lab: Lab, role: str, **options: Any) -> tuple[RawPeer, Any]:  # noqa: ANN401 - Config options
    """Open a session between node ``a`` and raw peer ``b``; returns b and its open link; see :func:`stage`."""
    peer = stage(lab, role, **options)
    link = peer.dial("a") if role == ACCEPTOR else peer.accept("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
    return peer, link


def hang_up(lab: Lab, link: Any) -> None:  # noqa: ANN401 - of either protocol
    """End a link, and wait until node ``a`` has recorded the fault."""
    before = len(lab.faults("a"))
    link.hang_up()
    lab.expect_fault_count("a", before + 1)


def messages(link: Any, after_s: float = 0.1) -> list[Any]:  # noqa: ANN401 - of either protocol
    """The node's messages that arrive on a link within ``after_s`` seconds."""
    return [frame for frame in link.rest(after_s) if hasattr(frame, "tid")]


def acks(link: Any, after_s: float = 0.1) -> list[int]:  # noqa: ANN401 - as above
    """The seqs of the node's ACKs that arrive on a link within ``after_s`` seconds."""
    return [frame.seq for frame in link.rest(after_s) if isinstance(frame, Ack | V1Ack)]


def acknowledge(lab: Lab, link: Any, seq: int) -> None:  # noqa: ANN401 - as above
    """Have the peer acknowledge all messages up to a seq."""
    link.send(V1Ack(seq) if lab.is_v1 else Ack(seq))


def asked(lab: Lab, link: Any) -> Any:  # noqa: ANN401 - SessionReconnect, or Connect
    """Authenticate, and return the frame by which the node resumes its session."""
    if lab.is_v1:
        link.handshake(until=link.connect)
        connect, step = link.authenticated()
        link.proof = step.payload
        return connect
    link.handshake(until=link.ident)
    return link.expect(SessionReconnect)


def resume(lab: Lab, link: Any, wish: Any, in_seq: int) -> None:  # noqa: ANN401 - as above
    """Grant what :func:`asked` returned, and announce ``in_seq`` as received."""
    if not lab.is_v1:
        link.send(SessionReconnectOk(in_seq))
        return
    link.reply = link.reply_to(wish, V1Tag.SEQ, authorizer=link.proof)
    link.agree(link.reply.features & wish.features)
    link.send(link.reply, Seq(in_seq))
    link.expect(Seq)


def refuse_session(lab: Lab, link: Any, wish: Any) -> None:  # noqa: ANN401 - as above
    """Answer the wish to resume a session with a full reset."""
    link.send(link.reply_to(wish, V1Tag.RESETSESSION) if lab.is_v1 else SessionReset(full=True))


def reply_of(frame: object) -> str:
    """The name of the tag of a v1 reply; empty for other frames."""
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
