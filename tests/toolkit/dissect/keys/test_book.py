"""A book of keys: files, key logs, and keys that it drops."""

from pathlib import Path

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthResult, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import TicketBlob
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import LocalError
from messenger.keylog import LinkSecrets
from messenger.v1.wire import ConnectReply, Tag
from messenger.v2 import wire
from tests.support.cephx import ADMIN, OSD_0, Cluster
from tests.support.overheard import TO_CLIENT, osd_of, replay_connect, replay_login
from toolkit.dissect.keys import KeyBook, LinkKeys
from toolkit.dissect.keys.recent import Recent

OSD = EntityType.OSD
KEY = CryptoKey(KeyType.AES, bytes(range(16)))


def logged(protocol: str, payload: bytes, result: AuthResult) -> KeyBook:
    """A book that has nothing but a key log of one line."""
    secrets = LinkSecrets.of(protocol, payload, result)
    assert secrets is not None
    book = KeyBook()
    book.add_key_log(secrets.line())
    return book


# ---- files


def test_keyrings_and_key_logs_from_files(tmp_path: Path) -> None:
    cluster = Cluster()
    (tmp_path / "admin").write_text(f"[client.admin]\nkey = {cluster.key(ADMIN).to_base64()}\n")
    (tmp_path / "osd").write_text(f"[osd.0]\nkey = {cluster.key(OSD_0).to_base64()}\n[mds.a]\n")
    (tmp_path / "log").write_text(f"service mgr 7 {KEY.to_base64()}\n")
    book = KeyBook.read([tmp_path / "admin", tmp_path / "osd"], [tmp_path / "log"])
    assert book.keys_of(ADMIN) == [(ADMIN, cluster.key(ADMIN))]
    assert book.keys_of(OSD_0) == [(OSD_0, cluster.key(OSD_0))]
    assert book.keys_of(AuthName(EntityType.MDS, "a")) == []
    assert book.service_keys(EntityType.MGR, 7) == [KEY]


@pytest.mark.parametrize(
    ("keyring", "log", "error"),
    [
        ("[client.admin]\nkey = ?\n", "", "keyring:2: key is not base64"),
        ("", "v2 x\n", "log:1: neither"),
        (None, "", "keyring: No such file or directory"),
        ("", None, "log: No such file or directory"),
        ("", b"\xff\xfe", "log:1: not a key log: byte 0xff is not text in UTF-8"),
    ],
)
def test_invalid_key_files_are_reported_in_one_line(
    tmp_path: Path, keyring: str | None, log: str | bytes | None, error: str
) -> None:
    for name, content in (("keyring", keyring), ("log", log)):
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LocalError) as caught:
        KeyBook.read([tmp_path / "keyring"], [tmp_path / "log"])
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- key logs


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_a_line_opens_its_link_without_any_keyring(mode: ConMode) -> None:
    cluster = Cluster()
    client = cluster.client()
    frames: list[wire.AuthDone] = []
    for peer in (EntityType.MON, OSD):
        server = cluster.server if peer is EntityType.MON else osd_of(cluster)
        ear = _Ear(frames)
        _, result = replay_login(KeyBook(), client, server, peer=peer, mode=mode, link=ear)
        link = LinkKeys(logged("v2", frames[-1].auth_payload, result))
        link.control(TO_CLIENT, frames[-1])
        assert link.missing == ""
        assert link.session_key is not None
        assert link.session_key.secret == result.session_key
        assert (link.connection_secret or b"") == result.connection_secret


class _Ear(LinkKeys):
    """Keeps what AUTH_DONE was."""

    def __init__(self, frames: list[wire.AuthDone]) -> None:
        super().__init__(KeyBook())
        self._frames = frames

    def control(self, direction, frame) -> None:
        if isinstance(frame, wire.AuthDone):
            self._frames.append(frame)


def test_a_line_of_v1_signs() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    link, result = replay_connect(KeyBook(services={OSD: cluster.keys.secrets(OSD)}), client, osd_of(cluster), OSD)
    again = LinkKeys(logged("v1", b"last word", result))
    again.v1_piece(TO_CLIENT, ConnectReply(Tag.READY, (1 << 64) - 1, authorizer=b"last word"))
    assert link.signer is not None
    assert again.signer is not None
    assert again.signer(*range(8)) == link.signer(*range(8))
    assert again.missing == ""


def test_key_log_line_of_another_link_opens_nothing() -> None:
    book = logged("v2", b"another", AuthResult(1, KEY.secret, bytes(64), session_key_type=KeyType.AES))
    link, _ = replay_login(book, Cluster().client(), Cluster().server)
    assert (link.connection_secret, link.missing) == (None, "key of client.admin")


def test_reported_secrets_equal_those_of_a_key_log() -> None:
    cluster = Cluster()
    reported: list[LinkSecrets] = []
    link = LinkKeys(KeyBook({ADMIN: cluster.key(ADMIN)}))
    link.on_secrets = reported.append
    _, result = replay_login(KeyBook(), cluster.client(), cluster.server, link=link)
    (secrets,) = reported
    assert secrets.connection_secret == result.connection_secret
    assert secrets.session_key.secret == result.session_key


# ---- forgetting


def test_the_oldest_is_forgotten() -> None:
    recent: Recent[int, str] = Recent(3)
    for number in (1, 2, 3, 1, 4):
        recent.put(number, str(number))
    assert [number in recent for number in range(5)] == [False, True, False, True, True]
    assert (len(recent), recent.get(4), recent.get(2)) == (3, "4", None)


def test_tickets_are_distinguished_by_all_their_parts() -> None:
    book = KeyBook()
    book.learn_ticket(TicketBlob(1, b"sealed"), KEY)
    assert book.session_key(TicketBlob(1, b"sealed")) == KEY
    assert book.session_key(TicketBlob(2, b"sealed")) is None
    assert book.session_key(TicketBlob(1, b"other")) is None


def test_key_book_ignores_too_long_names() -> None:
    book = KeyBook()
    book.learn_name(7, AuthName(EntityType.CLIENT, "x" * 10_000))
    assert book.name_of(7) is None
