"""Links to services, decrypted with the services' keys or their clients' (docs/protocol.md §5.7, §3.3, §3.7)."""

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthServer, ConMode
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.service import CephxService
from messenger.cephx.signature import message_signer
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.v1.wire import Connect, ConnectReply, Tag
from messenger.v2 import wire
from tests.support.cephx import ADMIN, AES, AES256K, NOW_S, Cluster
from tests.support.overheard import TO_CLIENT, TO_SERVER, osd_of, replay_connect, replay_login
from toolkit.dissect.keys import KeyBook, LinkKeys

OSD = EntityType.OSD
COVERED = (1, 2, 3, 4, 5, 6, 7, 8)
by_type = pytest.mark.parametrize("service", [AES, AES256K])
by_protocol = pytest.mark.parametrize("replay", [replay_login, replay_connect])


def with_service_keys(cluster: Cluster, service: EntityType = OSD) -> KeyBook:
    """The keys that a service shares with the monitors."""
    cluster.keys.rotate(NOW_S)
    return KeyBook(services={service: cluster.keys.secrets(service)})


@by_type
@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_the_services_keys_open_a_link(service: KeyType, mode: ConMode) -> None:
    cluster = Cluster(AES, service)
    client = cluster.client()
    cluster.login(client)
    link, result = replay_login(with_service_keys(cluster), client, osd_of(cluster), peer=OSD, mode=mode)
    assert link.missing == ""
    assert link.session_key is not None
    assert link.session_key.secret == result.session_key
    assert (link.connection_secret or b"") == result.connection_secret


@by_type
@pytest.mark.parametrize("features", [ALL_FEATURES, ALL_FEATURES & ~Feature.CEPHX_V2])
def test_messages_on_v1_are_signed_with_the_session_key(service: KeyType, features: int) -> None:
    cluster = Cluster(service, service)
    client = cluster.client()
    cluster.login(client)
    link, result = replay_connect(
        with_service_keys(cluster), client, osd_of(cluster), OSD, features=features | Feature.MSG_AUTH
    )
    signer = message_signer(result, features)
    assert link.signer is not None
    assert signer is not None
    assert link.signer(*COVERED) == signer(*COVERED)
    assert (link.missing, link.connection_secret) == ("", None)


def test_without_the_feature_nothing_is_signed() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    features = ALL_FEATURES & ~Feature.MSG_AUTH
    link, _ = replay_connect(with_service_keys(cluster), client, osd_of(cluster), OSD, features=features)
    assert link.session_key is not None
    assert link.signer is None


def test_authorizers_are_repeated_after_a_retry() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    book = with_service_keys(cluster)
    link, _ = replay_connect(book, client, osd_of(cluster), OSD)
    reply = ConnectReply(Tag.RETRY_GLOBAL, ALL_FEATURES, authorizer=b"")
    link.v1_piece(TO_CLIENT, reply)
    assert link.session_key is not None
    link.v1_piece(TO_SERVER, Connect(ALL_FEATURES, EntityType.CLIENT, 2, 0, 24))
    assert (link.session_key, link.signer, link.missing) == (None, None, "")


def test_clients_of_monitors_on_v1_have_no_keys() -> None:
    link = LinkKeys(KeyBook())
    link.v1_piece(TO_SERVER, Connect(ALL_FEATURES, EntityType.CLIENT, 1, 0, 15))
    link.v1_piece(TO_CLIENT, ConnectReply(Tag.READY, ALL_FEATURES))
    assert (link.session_key, link.signer, link.missing) == (None, None, "")


@by_protocol
def test_auth_none_has_no_keys(replay) -> None:
    name = NoneClient(ADMIN, 4100)
    options = {"mode": ConMode.CRC} if replay is replay_login else {}
    link, _ = replay(KeyBook(), name, NoneServer(), peer=OSD, **options)
    assert (link.session_key, link.connection_secret, link.signer, link.missing) == (None, None, None, "")


@by_protocol
def test_link_names_the_missing_keys(replay) -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    link, _ = replay(KeyBook(), client, osd_of(cluster), peer=OSD)
    assert (link.session_key, link.connection_secret, link.signer) == (None, None, None)
    assert link.missing == (
        "service key of osd with secret_id 2 "
        "(or the key of the entity with global_id 4100 and its exchange with a monitor)"
    )


def test_missing_key_names_the_entity_after_its_exchange_with_a_monitor() -> None:
    cluster = Cluster()
    book, client = KeyBook(), cluster.client()
    replay_login(book, client, cluster.server)
    link, _ = replay_login(book, client, osd_of(cluster), peer=OSD)
    assert link.missing == (
        "service key of osd with secret_id 2 (or the key of client.admin and its exchange with a monitor)"
    )
    book.add_key(ADMIN, cluster.key(ADMIN))
    link, _ = replay_login(book, client, osd_of(cluster), peer=OSD)
    assert link.missing == ("service key of osd with secret_id 2 (or the exchange of client.admin with a monitor)")


def test_a_services_key_that_does_not_fit() -> None:
    cluster, other = Cluster(), Cluster(seed=5)
    client = cluster.client()
    cluster.login(client)
    link, _ = replay_login(with_service_keys(other), client, osd_of(cluster), peer=OSD)
    assert link.missing == "service key of osd with secret_id 2 does not fit"


def test_key_book_holds_service_keys_of_two_clusters() -> None:
    book = KeyBook()
    for seed in 1, 5:
        cluster = Cluster(seed=seed)
        cluster.keys.rotate(NOW_S)
        for secret_id, key in cluster.keys.secrets(OSD).items():
            book.add_service_key(OSD, secret_id, key)
    for seed in 1, 5:
        cluster = Cluster(seed=seed)
        client = cluster.client()
        cluster.login(client)
        link, result = replay_login(book, client, osd_of(cluster), peer=OSD)
        assert (link.connection_secret, link.missing) == (result.connection_secret, "")


def test_reply_under_another_session_key_does_not_fit() -> None:
    cluster, other = Cluster(), Cluster(seed=5)
    client, stranger = cluster.client(), other.client()
    cluster.login(client)
    other.login(stranger)
    link = LinkKeys(with_service_keys(cluster))
    opening = client.exchange(OSD, NOW_S, cluster.rng).start()
    link.control(TO_SERVER, wire.AuthRequest(opening.method, [2], opening.payload))
    assert link.session_key is None  # nothing is taken before the end
    link.control(TO_CLIENT, wire.AuthDone(4100, 2, _answer_of(other, stranger)))
    assert (link.session_key, link.connection_secret) == (None, None)
    assert link.missing == "session key of the ticket does not fit"


def _answer_of(cluster: Cluster, client) -> bytes:
    """A service's last word in some other exchange."""
    server: AuthServer = CephxService(OSD, cluster.keys.secrets(OSD))
    mine, theirs = (side.exchange(OSD, NOW_S, cluster.rng) for side in (client, server))
    opening = mine.start()
    more = theirs.start(opening.method, ConMode.SECURE, opening.payload)
    return theirs.more(mine.more(more.payload)).payload


def test_link_without_its_handshake_names_the_missing_exchange() -> None:
    link = LinkKeys(KeyBook({AuthName(EntityType.CLIENT, "admin"): Cluster().key(ADMIN)}))
    link.control(TO_CLIENT, wire.AuthDone(4100, 2, b"sealed"))
    assert link.missing == "the beginning of the link's authentication, which the capture does not have"


def test_frames_in_the_wrong_direction_are_ignored() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    link, result = replay_login(with_service_keys(cluster), client, osd_of(cluster), peer=OSD)
    link.control(TO_CLIENT, wire.AuthRequest(2, [2], b"\x0a"))
    link.control(TO_SERVER, wire.AuthDone(1, 2, b""))
    link.control(TO_SERVER, wire.AuthBadMethod(2, -13, [2], [2]))
    assert link.connection_secret == result.connection_secret
    assert link.session_key is not None
    assert link.missing == ""


@pytest.mark.parametrize("seen_at_the_monitor", [False, True])
def test_stolen_ticket_gives_no_session_key(seen_at_the_monitor: object) -> None:
    cluster = Cluster()
    client = cluster.client()
    book = KeyBook({ADMIN: cluster.key(ADMIN)}) if seen_at_the_monitor else with_service_keys(cluster)
    replay_login(book, client, cluster.server)
    genuine = client.exchange(OSD, NOW_S, cluster.rng).start().payload
    stolen = genuine[:-16] + bytes(16)
    link = LinkKeys(book)
    link.control(TO_SERVER, wire.AuthRequest(2, [2], stolen))
    link.control(TO_CLIENT, wire.AuthDone(4100, 2, b"whatever"))
    assert (link.session_key, link.missing) == (None, "session key of the ticket does not fit")
