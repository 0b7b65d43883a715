"""The exchange of authorizer, challenge and reply, and malformed frames in it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from messenger.cephx.authorizer import open_reply, seal_reply
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import AuthorizeReply
from messenger.outputs import EventKind
from messenger.v1.wire import ConnectReply
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import AuthBadMethod, AuthDone, AuthReplyMore, AuthRequestMore
from toolkit.dissect.keys.service import ServiceLogin
from toolkit.faults.mangle import Mangle, Replay, Rewrite
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, breaks, leave, stage
from toolkit.lab.ways import V2_WAYS
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import refusal_codes, refusals

_EACCES = -13


def _client_and_osd(lab: Lab, **options: Any) -> None:  # noqa: ANN401 - Config options
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2", **options)


def _gets_in_afterwards(lab: Lab, count: int = 2) -> None:
    """Require that the client opens its session without further changes, and its messages arrive once."""
    lab.spoil("a")
    lab.expect_delivered("a", "b", count, within_s=30)
    lab.settle()
    lab.require(lab.delivered("a", "b") == count, "every message is delivered once")


@AU.scenario(
    "AU-06",
    "challenge_required",
    cases={"no answer": {"how": "silent"}, "replayed": {"how": "replay"}, "replayed whole": {"how": "whole"}},
)
def challenge_required(lab: Lab, how: str) -> None:
    """An authorizer that does not answer the challenge of its link is refused.

    The second authorizer has no answer, or was recorded on an earlier link, or both authorizers were. Every link
    has a new challenge: the acceptor refuses with EACCES and opens no session.
    """
    _client_and_osd(lab)
    tags = ("CONNECT", "CONNECT") if lab.is_v1 else ("AUTH_REQUEST", "AUTH_REQUEST_MORE")
    mangles = []
    if how == "silent":
        lab.spoil("a", silent=True)
    else:
        seconds = lab.is_v1  # there both authorizers are in CONNECTs
        mangles = [
            Mangle("a", tags[1], 4 if seconds else 2, change=Replay(tags[1], 2 if seconds else 1, instead=True))
        ]
        if how == "whole":
            first = Replay(tags[0], 1, instead=True)
            mangles.append(Mangle("a", tags[0], 3 if seconds else 2, change=first))
        for mangle in mangles:
            lab.mangle("a", "b", mangle)
        lab.send("a", "b")
        lab.expect_delivered("a", "b", 1)
        lab.expect_acked("a")
        lab.mark_down("a", "b")
        lab.wait(0.1)
    delivered = lab.delivered("a", "b")
    sessions = len(lab.records("b", "auth"))
    lab.send("a", "b", 2 - delivered)
    lab.expect_mangled(*mangles)
    lab.expect_broken("b", 1 + (how != "silent"))
    if how == "silent":
        lab.wait(0.3)
        lab.require(len(lab.records("b", "auth")) == sessions, "nobody has got in")
        # An authorizer of v1 without an answer is challenged, and a client does not take two challenges.
        lab.require(lab.is_v1 or refusals(lab, "a", "b") > 0, "the application receives an event")
    codes = refusal_codes(lab, "b")
    lab.require(lab.is_v1 or how == "whole" or bool(codes), "the peer receives an answer")
    lab.require(set(codes) <= {_EACCES, "BADAUTHORIZER"}, f"codes received: {codes}")
    _gets_in_afterwards(lab)
    lab.require(len(lab.records("b", "auth")) == sessions + 1, "one link got in, the honest one")


@AU.scenario(
    "AU-07",
    "challenge_mismatch",
    cases={
        "the challenge itself": {"off": -1},
        "one too many": {"off": 1},
        "another": {"off": 0x123456789},
        "second try": {"off": 0},
    },
)
def challenge_mismatch(lab: Lab, off: int) -> None:
    """A challenge has one right answer, itself plus one, and one attempt.

    The client answers with the challenge itself, with the challenge plus two, and with another number, and is
    refused with EACCES each time; with the right answer its session opens. A raw peer first answers an older
    challenge, and is refused; the right answer to the same challenge then comes too late: on v2 it breaks the
    link, on v1 it gets another challenge instead of a session.
    """
    if not off:
        _second_try(lab)
        return
    _client_and_osd(lab)
    lab.spoil("a", answer=off)
    lab.send("a", "b", 2)
    lab.expect_broken("a", 2)
    lab.require(not lab.records("b", "auth"), "a wrong answer got in")
    lab.require(set(refusal_codes(lab, "b")) <= {_EACCES, "BADAUTHORIZER"}, f"told: {refusal_codes(lab, 'b')}")
    _gets_in_afterwards(lab)


def _second_try(lab: Lab) -> None:
    """Answer an older challenge, then the right one."""
    peer = stage(lab, ACCEPTOR)
    link = peer.dial("a")
    if lab.is_v1:
        link.handshake(until=link.connect)
        connect = link.connect_message()
        challenges = []
        for _ in range(2):
            link.send(connect)
            challenges.append(link.expect(ConnectReply))
        answers = []
        for challenge in challenges:
            link.exchange.repeated()
            answers.append(link.exchange.more(challenge.authorizer))
        replies = []
        for answer in answers:
            link.send(replace(connect, authorizer=answer))
            replies.append(link.expect(ConnectReply).tag)
        lab.require(replies == [V1Tag.BADAUTHORIZER, V1Tag.CHALLENGE_AUTHORIZER], f"the replies were {replies}")
    else:
        link.handshake(until=link.auth_more)
        old = link.exchange.more(link.expect(AuthReplyMore).auth_payload)
        leave(lab, link)
        link = peer.dial("a")
        link.handshake(until=link.auth_more)
        right = link.exchange.more(link.expect(AuthReplyMore).auth_payload)
        link.send(AuthRequestMore(old))
        refusal = link.expect(AuthBadMethod)
        lab.require(refusal.result == _EACCES, f"{refusal} came")
        breaks(lab, link, lambda: link.send(AuthRequestMore(right)), "UNEXPECTED_FRAME", state="AUTH_ACCEPTING")
    lab.require(not lab.records("a", "auth"), "a second answer got in")
    peer.dial("a").handshake()
    lab.expect_state("a", "b", "READY")


def _session_key(lab: Lab, seen: list[bytes]) -> CryptoKey:
    """The session key that a holder of the service's key can decrypt from the recorded authorizer."""
    session_key = ServiceLogin(lab.keys, seen[-1]).session_key
    assert session_key is not None
    return session_key


def _listen(lab: Lab) -> list[bytes]:
    """Record the authorizer of the next link."""
    seen: list[bytes] = []

    def keep(frame: Any) -> Any:  # noqa: ANN401 - of either protocol
        seen.append(frame.authorizer if lab.is_v1 else frame.auth_payload)
        return frame

    lab.mangle(
        "a", "b", Mangle("a", "CONNECT" if lab.is_v1 else "AUTH_REQUEST", change=Rewrite(keep, "only read"))
    )
    return seen


def _rewrite_reply(lab: Lab, edit: Callable[[bytes], bytes]) -> Mangle:
    """Replace the acceptor's last reply in the next exchange."""
    if lab.is_v1:

        def reply(frame: ConnectReply) -> ConnectReply:
            return replace(frame, authorizer=edit(frame.authorizer))

        return lab.mangle("a", "b", Mangle("b", "CONNECT_REPLY", 2, change=Rewrite(reply, "another reply")))

    def done(frame: AuthDone) -> AuthDone:
        return replace(frame, auth_payload=edit(frame.auth_payload))

    return lab.mangle("a", "b", Mangle("b", "AUTH_DONE", change=Rewrite(done, "another reply")))


@AU.scenario(
    "AU-08",
    "reply_nonce_mismatch",
    cases={name: {"how": name} for name in ("nonce off by one", "nonce of another", "garbage", "nothing")},
)
def reply_nonce_mismatch(lab: Lab, how: str) -> None:
    """A client leaves an acceptor that does not prove its key.

    The reply does not carry the nonce of this exchange plus one, though it is sealed with the right key; or it is
    random bytes, or empty. The client closes the link without a session, and a proper acceptor gets the session.
    """
    _client_and_osd(lab)
    seen = _listen(lab)

    def edit(payload: bytes) -> bytes:
        if how == "garbage":
            return bytes(byte ^ 0xA5 for byte in payload)
        if how == "nothing":
            return b""
        key = _session_key(lab, seen)
        reply = open_reply(key, payload)
        nonce = reply.nonce_plus_one + (1 if how == "nonce off by one" else 0x5555)
        return seal_reply(key, AuthorizeReply(nonce % (1 << 64), reply.connection_secret), lab.rng)

    mangle = _rewrite_reply(lab, edit)
    lab.send("a", "b", 2)
    lab.expect_mangled(mangle)
    lab.expect_broken("a", 1)
    reason = lab.faults("a")[0]
    lab.require(reason in {"AUTH_REPLY", "MALFORMED"}, f"why the client left: {reason}")
    lab.require(not lab.events("a", "b", EventKind.CONNECT), "no session was opened")
    _gets_in_afterwards(lab)


_MALFORMED: dict[str, dict[str, Any]] = {
    "empty": {"keep_bytes": 0},
    **{f"cut at {size}": {"keep_bytes": size} for size in (1, 2, 8, 9, 12, 13, 14, 22, 26, 30, 60, 100, 140, 170)},
    "other global_id": {"global_id": 1},
    "flipped ticket": {"ticket": (25, 0x40)},
    "flipped authorize": {"authorizer": (-3, 0x40)},
    "unknown secret": {"authorizer": (14, 0x20)},
    "wrong service": {"authorizer": (9, 0x20)},
    "wrong mode": {"authorizer": (0, 0x04)},
    "longer": {"extra_bytes": 5000},
}


@AU.scenario(
    "AU-09",
    "authorizer_malformed",
    cases={
        **{name: {"what": what} for name, what in _MALFORMED.items()},
        **{f"reply of {size} more": {"reply_bytes": size} for size in (4096, 60_000, 200_000)},
    },
)
def authorizer_malformed(lab: Lab, what: dict[str, Any] | None = None, reply_bytes: int = 0) -> None:
    """A malformed authorizer is refused or breaks the link, and both sides go on.

    Authorizers are empty, cut at many places, have another global_id, another service or an unknown key, have
    flipped bits, or are far too long. Only the last kind opens a session, because bytes behind an authorizer are
    ignored; the acceptor goes on serving, and a proper authorizer opens a session. Or the acceptor's reply is
    thousands of bytes too long: on v2 the signatures detect it, on v1 the extra bytes are ignored, and a reply
    above the limit for unauthenticated peers breaks the link.
    """
    _client_and_osd(lab)
    if what is None:
        _large_reply(lab, reply_bytes)
        return
    lab.spoil("a", **what)
    lab.send("a", "b", 2)
    if "extra_bytes" in what:
        lab.expect_delivered("a", "b", 2)
        lab.settle()
        return
    lab.expect_broken("a", 2)
    lab.require(not lab.records("b", "auth"), "nobody has got in")
    reasons = {*lab.faults("a"), *lab.faults("b")}
    known = {"AUTH_DENIED", "AUTH_METHOD", "AUTH_REPLY", "MALFORMED", "EOF", "SOCKET"}
    lab.require(reasons <= known, f"why links broke: {reasons}")
    _gets_in_afterwards(lab)


def _large_reply(lab: Lab, size: int) -> None:
    limit = 128 << 10
    mangle = _rewrite_reply(lab, lambda payload: payload + bytes(size))
    lab.send("a", "b", 2)
    lab.expect_mangled(mangle)
    if not lab.is_v1 or size > limit:
        lab.expect_broken("a", 1)
        lab.require(size < limit or lab.faults("a") == ["OVERSIZE"], f"why: {lab.faults('a')}")
        lab.require(not lab.events("a", "b", EventKind.CONNECT), "no session was opened on that link")
    _gets_in_afterwards(lab)


def _other_secret(lab: Lab, size: int) -> Callable[[list[bytes], bytes], bytes]:
    def edit(seen: list[bytes], payload: bytes) -> bytes:
        key = _session_key(lab, seen)
        reply = open_reply(key, payload)
        return seal_reply(key, AuthorizeReply(reply.nonce_plus_one, bytes(size)), lab.rng)

    return edit


_DONE = ("short secret", "long secret", "inner length", "cut", "method 0", "mode 7", "error body", "empty frame")


@AU.scenario("AU-11", "auth_done_malformed", ways=V2_WAYS, cases={name: {"how": name} for name in _DONE})
def auth_done_malformed(lab: Lab, how: str) -> None:
    """A malformed AUTH_DONE breaks the link or is harmless.

    The connection secret is too short or far too long, inner lengths exceed the payload, the mode is 0 or
    undefined, the body is an error code or missing. None opens a session or allocates that much memory, and the
    next link opens.
    """
    _client_and_osd(lab)
    seen = _listen(lab)

    def edit(frame: AuthDone) -> AuthDone | bytes:
        payload = frame.auth_payload
        if how in {"short secret", "long secret"}:
            return replace(frame, auth_payload=_other_secret(lab, 10 if "short" in how else 4096)(seen, payload))
        if how == "inner length":
            return replace(frame, auth_payload=b"\xf0\xff\xff\x7f" + payload[4:])
        if how == "cut":
            return replace(frame, auth_payload=payload[: len(payload) // 2])
        if how in {"method 0", "mode 7"}:
            return replace(frame, con_mode=0 if how == "method 0" else 7)
        if how == "error body":
            return replace(
                frame, auth_payload=(0x100).to_bytes(2, "little") + (-13 & 0xFFFFFFFF).to_bytes(4, "little")
            )
        return replace(frame, auth_payload=b"")

    mangle = lab.mangle("a", "b", Mangle("b", "AUTH_DONE", change=Rewrite(edit, how)))
    lab.send("a", "b", 2)
    lab.expect_mangled(mangle)
    lab.expect_broken("a", 1)
    reason = lab.faults("a")[0]
    if reason in {"EOF", "SOCKET"}:  # a secret does not matter in crc mode; the acceptor notices by the signatures
        lab.require(lab.faults("b") == ["AUTH_SIGNATURE"], f"why the acceptor left: {lab.faults('b')}")
    else:
        known = {"AUTH_REPLY", "AUTH_METHOD", "MALFORMED", "AUTH_SIGNATURE", "AUTH_TAG"}
        lab.require(reason in known, f"why the client left: {reason}")
    lab.require(not lab.events("a", "b", EventKind.CONNECT), "no session was opened")
    _gets_in_afterwards(lab)
