"""AU: what the structures of cephx contain, their versions, and their largest numbers."""

from dataclasses import replace
from random import Random
from typing import Any

from messenger.cephx.authorizer import Authorizer, open_reply
from messenger.cephx.ciphers import KeyUsage
from messenger.cephx.keys import CryptoKey
from messenger.cephx.session_reply import decode_session_reply
from messenger.cephx.structures import Authorize
from messenger.cephx.tickets import open_ticket
from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityType
from messenger.outputs import EventKind
from toolkit.faults.rewrites import decoded
from toolkit.faults.tap import Tape
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, stage
from toolkit.lab.ways import ways
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import cluster

_SOME_WAYS = ways("v2-crc", "v2-crc-w2", "v2-secure", "v2-secure-aes256k", "v1", "v1-aes256k", "v1-w2")
_WITHOUT_SECRET, _WITH_SECRET = 1, 2
"""Versions of a service's reply."""
_SECRET_BYTES = 64
_SERVICES = ["mon", "mds", "osd", "mgr"]
"""For which a client requests tickets when it logs in."""


def _payloads(tape: Tape, *tags: str) -> list[bytes]:
    """What the recorded frames with these tags carry for the other side's cephx."""
    frames = [decoded(frame) for frame in tape.frames if frame.tag in tags]
    return [bytes(frame.authorizer if hasattr(frame, "authorizer") else frame.auth_payload) for frame in frames]


@AU.scenario("AU-27", "authorizer_contents", priority=2, ways=_SOME_WAYS)
def authorizer_contents(lab: Lab) -> None:
    """An authorizer and its reply have the contents and versions that other services and clients expect.

    The ticket that a client presents names it and its capabilities, and expires later than it was made. The two
    authorizers have the same nonce; the second answers the challenge. The service's reply has version 1 in crc
    mode and on v1, and version 2 with a connection secret of 64 bytes in secure mode.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
    asked, answered = lab.tape("a", "b"), lab.tape("b", "a")
    lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 2)
    shown = _payloads(asked, "CONNECT", "AUTH_REQUEST", "AUTH_REQUEST_MORE")
    replies = _payloads(answered, "CONNECT_REPLY", "AUTH_DONE")
    lab.require(len(shown) == 2, f"{len(shown)} authorizers were presented")
    session_keys, authorizes = zip(*(_opened(lab, payload) for payload in shown), strict=True)
    first, second = authorizes
    lab.require(session_keys[0] == session_keys[1], "both authorizers present the same ticket")
    lab.require(first.nonce == second.nonce, f"nonces {first.nonce} and {second.nonce}")
    lab.require((first.have_challenge, second.have_challenge) == (False, True), f"{first}, then {second}")
    version, reply = _opened_reply(session_keys[0], replies[-1])
    wanted = _WITH_SECRET if lab.is_secure else _WITHOUT_SECRET
    lab.require(version == wanted, f"the reply has version {version}, {wanted} is due")
    size = len(reply.connection_secret)
    lab.require(size == (_SECRET_BYTES if lab.is_secure else 0), f"the connection secret has {size} bytes")
    lab.settle()


def _opened(lab: Lab, payload: bytes) -> tuple[CryptoKey, Authorize]:
    """The session key of an authorizer's ticket, and its contents; requires that the ticket is the client's."""
    decoder = Decoder(payload)
    decoder.u8()  # its version, and the auth mode
    shown = Authorizer.decode(decoder)
    lab.require(shown.service_id == EntityType.OSD, f"the authorizer is for service {shown.service_id}")
    secret_id = shown.ticket.secret_id
    key = lab.keys.service_keys(shown.service_id, secret_id)[0]
    info = open_ticket(shown.ticket, {secret_id: key})
    ticket = info.ticket
    lab.require(str(ticket.name) == "client.7", f"the ticket is that of {ticket.name}")
    lab.require(ticket.global_id == shown.global_id, f"it is for global_id {ticket.global_id}")
    lab.require(not ticket.caps.allow_all, "capabilities are text")
    caps = Decoder(ticket.caps.caps).string() if ticket.caps.caps else ""
    lab.require(caps == "allow *", f"it grants {caps!r}")
    lab.require(ticket.expires > ticket.created, f"it is valid from {ticket.created} to {ticket.expires}")
    return info.session_key, info.session_key.unseal(KeyUsage.AUTHORIZE, shown.sealed_authorize, Authorize.decode)


def _opened_reply(session_key: CryptoKey, payload: bytes) -> tuple[int, Any]:
    """The version of a service's reply, and the reply."""
    version = session_key.unseal(KeyUsage.AUTHORIZE_REPLY, Decoder(payload).blob(), _leading_u8)
    return version, open_reply(session_key, payload)


def _leading_u8(decoder: Decoder) -> int:
    value = decoder.u8()
    decoder.raw(decoder.remaining)
    return value


class _Largest(Random):
    """A source whose numbers are as large as they can be; its bytes, for keys, are random."""

    def getrandbits(self, k: int, /) -> int:
        """Return 2 ** ``k`` - 1."""
        return (1 << k) - 1

    def randbytes(self, n: int) -> bytes:
        """Return ``n`` random bytes."""
        return super().getrandbits(n * 8).to_bytes(n, "little")


@AU.scenario(
    "AU-28",
    "largest_nonce_and_challenge",
    priority=2,
    ways=_SOME_WAYS,
    cases={"nonce": {"role": ACCEPTOR}, "challenge": {"role": CONNECTOR}},
)
def largest_nonce_and_challenge(lab: Lab, role: str) -> None:
    """The successor of the largest nonce or challenge is 0.

    A client's nonce is 2^64 - 1: the service answers with 0. Or a service's challenge is 2^64 - 1: the client
    answers with 0. The session opens on that link, and messages pass.
    """
    peer = stage(lab, role)
    link = peer.dial("a") if role == ACCEPTOR else peer.accept("a")
    link.me = replace(link.me, rng=_Largest(1))
    link.handshake()
    if role == ACCEPTOR:
        lab.expect_state("a", "b", "READY")
    link.write(link.message(1))
    lab.expect_delivered("b", "a", 1)
    lab.require(lab.faults("a") == [], f"links broke: {lab.faults('a')}")
    lab.require(lab.events("a", "b", EventKind.REFUSED) == 0, "nothing was refused")


@AU.scenario(
    "AU-29",
    "old_login_request",
    priority=2,
    ways=ways("v2-crc", "v2-crc-w2"),
    cases={f"version {version}": {"version": version} for version in (1, 2, 3)},
)
def old_login_request(lab: Lab, version: int) -> None:
    """A login of version 1 gets one ticket, one of version 2 or 3 those of all services in its mask.

    Version 1 of a login request has no mask of services, and its client expects nothing behind the first ticket.
    Version 2 has the mask; version 3, that of today, also promises the old ticket with a claim. All three log in,
    and a client with all tickets opens a session with an OSD.
    """
    entities = cluster(lab)
    lab.spoil("c", version=version)
    tape = lab.tape("m", "c")
    lab.dial("c", "m")
    lab.expect_login("c", "m")
    lab.expect_ticket("c", "osd", 2)
    done = _payloads(tape, "AUTH_DONE")
    lab.require(len(done) == 1, f"{len(done)} logins")
    reply = decode_session_reply(done[0], CryptoKey.from_base64(entities["client.7"]["key"]))
    services = [EntityType(grant.service_id).label for grant in reply.services]
    lab.require(services == (_SERVICES if version > 1 else []), f"the reply has tickets for {services}")
    lab.require(reply.auth.service_id == EntityType.AUTH, f"the first ticket is for {reply.auth.service_id}")
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 2)
