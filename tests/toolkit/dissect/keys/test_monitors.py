"""Links to monitors, decrypted with the keys of entities alone (docs/protocol.md §5.5, §5.6)."""

from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthMethod, AuthResult, ConMode
from messenger.cephx.key_server import MON_NAME
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.minting import MintingClient
from messenger.cephx.none import NoneClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.structures import NAMED_KEY_SECRET_ID, AuthMode, Prelude
from messenger.cephx.tickets import ServiceKey
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.v2 import wire
from tests.support.cephx import (
    ADMIN,
    AES,
    AES256K,
    HOUR_S,
    NOW_S,
    OSD_0,
    Cluster,
    MAuthPair,
    mauth_pair,
    renewing_pair,
)
from tests.support.overheard import (
    TO_CLIENT,
    TO_SERVER,
    osd_of,
    replay_answer,
    replay_login,
    replay_mauth,
    replay_request,
)
from toolkit.dissect.keys import KeyBook, LinkKeys

MON, OSD = EntityType.MON, EntityType.OSD
by_types = pytest.mark.parametrize("types", [(AES, AES), (AES, AES256K), (AES256K, AES256K)])


def knowing(cluster: Cluster, *names: AuthName) -> KeyBook:
    """The keys of some entities."""
    return KeyBook({name: cluster.key(name) for name in names})


@by_types
@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_the_entitys_key_opens_its_link(types: tuple[KeyType, KeyType], mode: ConMode) -> None:
    cluster = Cluster(*types)
    link, result = replay_login(knowing(cluster, ADMIN), cluster.client(), cluster.server, mode=mode)
    assert link.missing == ""
    assert link.session_key is not None
    assert (link.session_key.type, link.session_key.secret) == (result.session_key_type, result.session_key)
    assert (link.connection_secret or b"") == result.connection_secret
    assert (link.connection_secret is None) == (mode is ConMode.CRC)


@by_types
def test_its_tickets_open_its_links_to_services(types: tuple[KeyType, KeyType]) -> None:
    cluster = Cluster(*types)
    book, client = knowing(cluster, ADMIN), cluster.client()
    replay_login(book, client, cluster.server)
    link, result = replay_login(book, client, osd_of(cluster), peer=OSD)
    assert (link.connection_secret, link.missing) == (result.connection_secret, "")


@by_types
def test_a_reclaimed_id_brings_tickets_that_open_as_well(types: tuple[KeyType, KeyType]) -> None:
    cluster = Cluster(*types)
    book, client = knowing(cluster, ADMIN), cluster.client()
    replay_login(book, client, cluster.server)
    for hours in 1, 2:  # the second by the ticket that came with the first
        link, result = replay_login(book, client, cluster.server, now_s=NOW_S + hours * HOUR_S)
        assert (link.connection_secret, link.missing) == (result.connection_secret, "")
        ticket = client.tickets[EntityType.AUTH]
        assert book.session_key(ticket.blob) == ticket.session_key


def test_a_reclaim_whose_old_ticket_was_not_seen_opens_all_but_the_new_one() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    book = knowing(cluster, ADMIN)
    link, result = replay_login(book, client, cluster.server)
    assert (link.connection_secret, link.missing) == (result.connection_secret, "")
    assert book.session_key(client.tickets[EntityType.AUTH].blob) is None
    assert book.session_key(client.tickets[OSD].blob) == client.tickets[OSD].session_key


@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_tickets_renewed_by_messages_are_learnt(protocol: str) -> None:
    cluster = Cluster()
    book, client = knowing(cluster, ADMIN), cluster.client()
    link = LinkKeys(book)
    if protocol == "v1":
        pair = mauth_pair(cluster, client)
        pair.start()
    else:
        link, result = replay_login(book, client, cluster.server)
        session = MonAuthSession(cluster.server, cluster.rng, established=result)
        pair = MAuthPair(MonAuthClient(client, cluster.rng, established=result), session)
    replay_mauth(link, pair)
    for hours in 1, 71:  # service tickets, then the AUTH ticket with them
        pair.requests.clear()
        pair.answers.clear()
        pair.renew(NOW_S + hours * HOUR_S)
        assert pair.requests
        replay_mauth(link, pair)
        for ticket in client.tickets.values():
            assert book.session_key(ticket.blob) == ticket.session_key


def test_messages_are_understood_without_the_beginning_of_the_link() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    pair = renewing_pair(cluster, client)
    pair.renew(NOW_S + 71 * HOUR_S)
    book = knowing(cluster, OSD_0, ADMIN)
    replay_mauth(LinkKeys(book), pair)
    assert book.session_key(client.tickets[OSD].blob) == client.tickets[OSD].session_key


@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_a_daemons_key_gives_the_keys_of_its_service(protocol: str) -> None:
    cluster = Cluster()
    book, daemon = knowing(cluster, OSD_0), cluster.client(OSD_0)
    rotating = RotatingKeyring(OSD)
    if protocol == "v1":
        pair, link = mauth_pair(cluster, daemon, rotating=rotating), LinkKeys(book)
        pair.start()
    else:
        link, _ = replay_login(book, daemon, cluster.server, own=OSD)
        pair = renewing_pair(cluster, daemon, rotating=rotating)
        pair.renew(NOW_S)
    replay_mauth(link, pair)
    client = cluster.client()
    cluster.login(client)  # which is not captured
    link, result = replay_login(book, client, osd_of(cluster), peer=OSD)
    assert (link.connection_secret, link.missing) == (result.connection_secret, "")


def test_key_without_a_name_is_tried_for_every_entity() -> None:
    cluster = Cluster()
    book = KeyBook()
    book.add_keyring(Keyring.parse(cluster.key(OSD_0).to_base64()))
    book.add_keyring(Keyring.parse(cluster.key(ADMIN).to_base64()))
    link, result = replay_login(book, cluster.client(), cluster.server)
    assert link.connection_secret == result.connection_secret


def test_the_missing_key_is_named() -> None:
    cluster = Cluster()
    link, _ = replay_login(knowing(cluster, OSD_0), cluster.client(), cluster.server)
    assert (link.connection_secret, link.session_key) == (None, None)
    assert link.missing == "key of client.admin"


@by_types
def test_wrong_key_is_distinguished_from_a_missing_one(types: tuple[KeyType, KeyType]) -> None:
    cluster = Cluster(*types)
    wrong = CryptoKey.generate(Random(7), NOW_S, types[0])
    book = KeyBook({ADMIN: wrong})
    client = cluster.client()
    link, _ = replay_login(book, client, cluster.server)
    assert (link.connection_secret, link.missing) == (None, "key of client.admin does not fit")
    link, _ = replay_login(book, client, osd_of(cluster), peer=OSD)
    assert link.missing == (
        "service key of osd with secret_id 2 (or a key of client.admin that fits, and its exchange with a monitor)"
    )


def test_link_opens_with_one_of_several_keys() -> None:
    cluster = Cluster()
    book = KeyBook({ADMIN: CryptoKey(KeyType.AES, bytes(16))})
    book.add_key(ADMIN, cluster.key(ADMIN))
    link, result = replay_login(book, cluster.client(), cluster.server)
    assert (link.connection_secret, link.missing) == (result.connection_secret, "")


def test_second_authentication_attempt_replaces_the_first() -> None:
    cluster = Cluster()
    book = knowing(cluster, ADMIN)
    link = LinkKeys(book)
    link.control(TO_SERVER, wire.AuthRequest(AuthMethod.GSS, [2], b"ticket"))
    link.control(TO_CLIENT, wire.AuthBadMethod(AuthMethod.GSS, -95, [2], [2]))
    assert link.missing == ""
    opening = cluster.client(OSD_0).exchange(MON, NOW_S, cluster.rng).start()
    link.control(TO_SERVER, wire.AuthRequest(opening.method, [2], opening.payload))
    link.control(TO_CLIENT, wire.AuthBadMethod(opening.method, -13, [2], [2]))
    assert link.missing == ""
    _, result = replay_login(book, cluster.client(), cluster.server, link=link)
    assert (link.connection_secret, link.missing) == (result.connection_secret, "")


def test_link_with_auth_none_needs_no_key() -> None:
    cluster = Cluster()
    cluster.server.service_required = (AuthMethod.NONE,)
    link, _ = replay_login(KeyBook(), NoneClient(ADMIN), cluster.server, mode=ConMode.CRC)
    assert (link.connection_secret, link.session_key, link.missing) == (None, None, "")


def test_other_authentication_methods_are_named_as_missing() -> None:
    link = LinkKeys(KeyBook())
    link.control(TO_SERVER, wire.AuthRequest(AuthMethod.GSS, [1], b"ticket"))
    assert link.missing == "keys of gss, which cannot be followed"


def test_link_between_monitors_needs_the_key_of_mon() -> None:
    cluster = Cluster()
    link, result = _between_monitors(cluster, knowing(cluster, MON_NAME))
    assert (link.connection_secret, link.missing) == (result.connection_secret, "")
    link, _ = _between_monitors(cluster, knowing(cluster, ADMIN))
    assert link.missing == "key of mon."
    link, _ = _between_monitors(cluster, KeyBook({MON_NAME: cluster.key(ADMIN)}))
    assert link.missing == "key of mon. does not fit"


def _between_monitors(cluster: Cluster, book: KeyBook) -> tuple[LinkKeys, AuthResult]:
    own = ServiceKey(NAMED_KEY_SECRET_ID, cluster.key(MON_NAME))
    client = MintingClient(MON_NAME, 0, {MON: own})
    return replay_login(book, client, cluster.server, own=MON)


def test_missing_key_names_a_hostile_entity_in_one_printable_line() -> None:
    cluster = Cluster()
    evil = AuthName(EntityType.CLIENT, "admin\n\x1b[2J" + "x" * 1000)
    link = LinkKeys(KeyBook())
    link.control(TO_SERVER, wire.AuthRequest(2, [2], encoded(Prelude(AuthMode.MON, evil, 0))))
    _, result = replay_login(KeyBook(), cluster.client(), cluster.server)
    link.control(TO_CLIENT, wire.AuthDone(result.global_id, 2, b"\x00\x01\x00\x00\x00\x00rest"))
    assert link.missing.isprintable()
    assert len(link.missing) < 100


def test_introduction_identifies_the_owner_of_the_id() -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, cluster.client())
    pair.start()
    book = knowing(cluster, ADMIN)
    link = LinkKeys(book)
    replay_request(link, pair.requests[0])
    replay_answer(link, pair.answers[0])
    assert book.name_of(4100) == ADMIN
    assert link.missing == ""
