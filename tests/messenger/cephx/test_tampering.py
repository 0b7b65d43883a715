"""Payloads with one bit changed on the way: refused by name or without effect, and never a crash (family AU).

aes has no integrity of its own (CVE-2025-30156): some changes of what it encrypts pass here unnoticed, and
AUTH_SIGNATURE reveals them. aes256k reveals every change of what it encrypts. Neither encrypts the versions of
structures, which nothing reads, the mask of wanted services, and tickets for services, which their holder cannot
open and their services check.
"""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.authorizer import open_authorizer, open_challenge, open_reply, seal_challenge, seal_reply
from messenger.cephx.ciphers import KeyType, SealError
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.refusal import RefusedError
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.service import CephxService
from messenger.cephx.session_reply import decode_session_reply
from messenger.cephx.structures import AuthorizeReply
from messenger.cephx.tickets import Ticket
from messenger.denc.entity import EntityType
from messenger.errors import DecodeError
from tests.support.cephx import ADMIN, AES, AES256K, HOUR_S, NOW_S, OSD_0, Cluster, single_bit_flips

MON, OSD, CLIENT = EntityType.MON, EntityType.OSD, EntityType.CLIENT
KEY = CryptoKey.generate(Random(1), NOW_S, AES256K)
TICKET_VERSION_BYTE = 13
Tamper = Callable[[bytes], bytes]


def unnoticed(payload: bytes, judge: Callable[[bytes], object]) -> set[int]:
    """The bytes of which a bit may change without being refused; the judgement must then be the same."""
    genuine = judge(payload)
    taken = set()
    for bit, flipped in single_bit_flips(payload):
        try:
            judged = judge(flipped)
        except (RefusedError, DecodeError):
            continue
        assert judged == genuine, bit
        taken.add(bit // 8)
    return taken


def test_aes256k_authorizer() -> None:
    cluster = Cluster(AES256K, AES256K)
    client = cluster.client()
    cluster.login(client)
    payload = client.exchange(OSD, NOW_S, cluster.rng).start().payload
    keys = {OSD: cluster.keys.secrets(OSD)}

    def judge(authorizer: bytes) -> object:
        opened = open_authorizer(authorizer, keys)
        return opened.info, opened.authorize

    assert unnoticed(payload, judge) == {TICKET_VERSION_BYTE}


def test_aes256k_challenge_and_reply() -> None:
    challenge = seal_challenge(KEY, 77, Random(2))
    assert unnoticed(challenge, lambda payload: open_challenge(KEY, payload)) == set()
    reply = seal_reply(KEY, AuthorizeReply(78, bytes(range(64))), Random(3))
    assert unnoticed(reply, lambda payload: open_reply(KEY, payload)) == set()


def test_aes256k_tickets_from_a_monitor() -> None:
    cluster = Cluster(AES256K, AES256K)
    client = cluster.client(wanted=0x20)
    mine = client.exchange(MON, NOW_S, cluster.rng)
    theirs = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
    payload = theirs.more(
        mine.more(theirs.start(AuthMethod.CEPHX, ConMode.SECURE, mine.start().payload).payload)
    ).payload

    def judge(done: bytes) -> object:
        reply = decode_session_reply(done, cluster.key(ADMIN))
        return Ticket.received(reply.auth, NOW_S).session_key, reply.auth.ticket.validity, reply.connection_secret

    taken = unnoticed(payload, judge)
    ticket_blob = range(6 + 5 + 4 + 1 + 4 + 102 + 1 + 4, len(payload) - 4 - 121 - 4)
    assert taken - set(ticket_blob) == {6, 15}, "the versions of the reply and of the ticket in it"


def test_aes256k_ciphertext_for_another_use() -> None:
    with pytest.raises(SealError, match="for another use"):
        open_challenge(KEY, KEY.seal(0x10, bytes(9), Random(1)))


# ---- whole conversations


class Conversation:
    """A daemon logs in, again with its old ticket, and uses its tickets; one of the payloads is tampered with."""

    def __init__(self, key_type: KeyType, tampered: int, tamper: Tamper) -> None:
        self.cluster = Cluster(key_type, key_type)
        self.client = self.cluster.client(OSD_0)
        self._countdown = tampered
        self._tamper = tamper

    def on_the_way(self, payload: bytes) -> bytes:
        self._countdown -= 1
        return self._tamper(payload) if self._countdown == -1 and payload else payload

    def handshakes(self) -> list[object]:
        """Log in by v2; returns the identity that each side has of the other."""
        self.cluster.login(self.client)
        monitor = self.cluster.server.exchange(OSD, NOW_S, self.cluster.rng)
        ends = [self._handshake(MON, monitor)]
        service = CephxService(OSD, self.cluster.keys.secrets(OSD)).exchange(OSD, NOW_S, self.cluster.rng)
        return [*ends, self._handshake(OSD, service)]

    def _handshake(self, peer: EntityType, theirs) -> object:
        mine = self.client.exchange(peer, NOW_S, self.cluster.rng)
        way = self.on_the_way
        more = theirs.start(AuthMethod.CEPHX, ConMode.SECURE, way(mine.start().payload))
        done = theirs.more(way(mine.more(way(more.payload))))
        result = mine.done(done.result.global_id, ConMode.SECURE, way(done.payload))
        return (
            result.global_id,
            done.result.global_id,
            done.result.name,
            done.result.caps,
            result.session_key == done.result.session_key,
            result.connection_secret == done.result.connection_secret,
        )

    def messages(self) -> list[object]:
        """Log in by MAuth; returns the daemon's identity at the monitor, and True if it has the right keys."""
        keyring = RotatingKeyring(OSD)
        mine = MonAuthClient(self.client, self.cluster.rng, rotating=keyring)
        theirs = MonAuthSession(self.cluster.server, self.cluster.rng)
        request = mine.start(NOW_S)
        for now_s in (NOW_S, NOW_S + HOUR_S, NOW_S + 60 * HOUR_S):
            while request is not None:
                answer = theirs.handle(request.protocol, self.on_the_way(request.payload), now_s)
                if answer.refusal:
                    raise answer.refusal.error(answer.detail)
                payload = self.on_the_way(answer.payload)
                request = mine.handle(answer.protocol, answer.result, answer.global_id, payload, now_s)
            request = mine.due(now_s)
        return [theirs.result.name, theirs.result.caps, self.client.global_id]


FLIPS = {"tampered": st.integers(0, 17), "seed": st.integers(0, (1 << 32) - 1)}


def flip_one(seed: int) -> Tamper:
    def flip(payload: bytes) -> bytes:
        bit = Random(seed).randrange(len(payload) * 8)
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        return bytes(flipped)

    return flip


@pytest.mark.parametrize("kind", ["handshakes", "messages"])
@pytest.mark.parametrize("key_type", [AES, AES256K])
def test_one_bit_anywhere(key_type: KeyType, kind: str) -> None:
    genuine = getattr(Conversation(key_type, 99, bytes), kind)()

    @given(**FLIPS)
    def tampered_with(tampered: int, seed: int) -> None:
        try:
            outcome = getattr(Conversation(key_type, tampered, flip_one(seed)), kind)()
        except (RefusedError, DecodeError):
            return
        if key_type == AES256K:
            assert outcome == genuine
        else:  # somebody with other keys than the other side's, perhaps, but nobody else
            assert [end[:2] for end in outcome if isinstance(end, tuple)] == [
                end[:2] for end in genuine if isinstance(end, tuple)
            ]

    tampered_with()
