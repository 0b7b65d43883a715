"""The key log: the meaning of its lines, and the lines that messengers write."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthResult, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import NAMED_KEY_SECRET_ID
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.keylog import LinkSecrets, ServiceSecret, link_digest, parse_key_log
from messenger.link import Protocol
from tests.support.aio import messenger, on_loop

K1 = CryptoKey(KeyType.AES, bytes(range(16)))
K1_TEXT = K1.to_base64()
RESULT = AuthResult(4100, K1.secret, bytes(range(64)), session_key_type=KeyType.AES)
LINK = link_digest(b"the acceptor's last word")
SECRET_TEXT = bytes(range(64)).hex()


def test_a_secure_link() -> None:
    secrets = LinkSecrets.of("v2", b"the acceptor's last word", RESULT)
    assert secrets is not None
    assert secrets.line() == f"v2 {LINK} {K1_TEXT} {SECRET_TEXT}\n"
    assert list(parse_key_log(secrets.line())) == [secrets]


@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_a_link_in_crc_mode(protocol: str) -> None:
    secrets = LinkSecrets.of(protocol, b"", AuthResult(1, K1.secret, session_key_type=KeyType.AES))
    assert secrets is not None
    assert secrets.line().endswith(f" {K1_TEXT} -\n")
    assert list(parse_key_log(secrets.line())) == [secrets]


def test_a_link_without_keys_has_no_line() -> None:
    assert LinkSecrets.of("v2", b"", AuthResult(4100)) is None


@pytest.mark.parametrize(("text", "secret_id"), [("3", 3), ("-1", NAMED_KEY_SECRET_ID)])
def test_keys_of_services(text: str, secret_id: int) -> None:
    assert list(parse_key_log(f"service osd {text} {K1_TEXT}")) == [ServiceSecret(EntityType.OSD, secret_id, K1)]


def test_blank_lines_and_comments_are_ignored() -> None:
    assert list(parse_key_log("\n  \n# v2 is what follows\n   # more\n")) == []


def test_secrets_do_not_show() -> None:
    secrets = LinkSecrets.of("v2", b"", RESULT)
    assert SECRET_TEXT[:8] not in repr(secrets)
    assert repr(bytes(range(16))) not in repr(secrets)


BAD_LINES = {
    "gibberish": "neither 'v1 or v2 LINK SESSION_KEY CONNECTION_SECRET' nor 'service TYPE SECRET_ID KEY'",
    f"v3 {LINK} {K1_TEXT} -": "neither",
    f"v2 {LINK} {K1_TEXT}": "neither",
    f"v2 {LINK[1:]} {K1_TEXT} -": "a link is 32 hex digits in lower case",
    f"v2 {LINK.upper()} {K1_TEXT} -": "a link is 32 hex digits in lower case",
    f"v2 {LINK} {K1_TEXT[1:]} -": "key is ",
    f"v2 {LINK} {K1_TEXT} zz": "the connection secret is not in hex",
    f"v2 {LINK} {K1_TEXT} 00ff": "connection secret of 2 bytes, 64 are due",
    f"service nobody 3 {K1_TEXT}": "unknown entity type 'nobody'",
    f"service osd x {K1_TEXT}": "a secret_id is a number of 64 bits, or -1",
    f"service osd -2 {K1_TEXT}": "a secret_id is a number of 64 bits, or -1",
    f"service osd {1 << 64} {K1_TEXT}": "a secret_id is a number of 64 bits, or -1",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_malformed_line_is_reported_with_its_number(line: str) -> None:
    with pytest.raises(LocalError) as caught:
        list(parse_key_log(f"# fine\n\n{line}\n", "some/file"))
    assert str(caught.value).startswith("some/file:3: ")
    assert BAD_LINES[line] in str(caught.value)
    assert K1_TEXT not in str(caught.value)


# ---- written by messengers


async def _connect(mine: Any, theirs: Any, *, bind: Protocol = Protocol.V2, **options: Any) -> None:
    """One link between two messengers, each with its own key log."""
    async with messenger(1, key_log=mine, **options) as client, messenger(2, key_log=theirs, **options) as server:
        address = await server.bind(protocol=bind)
        await client.connect(address, EntityType.OSD).ready(10.0)
        await asyncio.sleep(0)


WAYS = [(Protocol.V2, ConMode.CRC), (Protocol.V2, ConMode.SECURE), (Protocol.V1, ConMode.CRC)]


@pytest.mark.parametrize(("protocol", "mode"), WAYS)
@on_loop
async def test_both_ends_write_the_same_line(protocol: Protocol, mode: ConMode) -> None:
    mine: list[str] = []
    theirs: list[str] = []
    await _connect(mine.append, theirs.append, bind=protocol, mode=mode)
    assert mine == theirs
    (secrets,) = parse_key_log("".join(mine))
    assert isinstance(secrets, LinkSecrets)
    assert secrets.protocol == protocol
    assert len(secrets.connection_secret) == (64 if mode is ConMode.SECURE else 0)


@pytest.mark.parametrize("protocol", Protocol)
@on_loop
async def test_auth_none_writes_nothing(protocol: Protocol) -> None:
    lines: list[str] = []
    await _connect(lines.append, lines.append, bind=protocol, auth="none")
    assert lines == []


@on_loop
async def test_file_is_appended_to_and_private(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    for links in 1, 2:
        await _connect(path, path, mode=ConMode.SECURE)
        assert len(list(parse_key_log(path.read_text()))) == 2 * links
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@on_loop
async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"keys\.log: No such file or directory"):
        messenger(1, key_log=tmp_path / "nowhere" / "keys.log")


@on_loop
async def test_a_file_that_others_could_read_gets_no_keys(tmp_path: Path) -> None:
    log = tmp_path / "keys.log"
    log.touch(0o644)
    (tmp_path / "link").symlink_to(log)
    with pytest.raises(LocalError, match=r"keys\.log: is open to other users \(mode 0644\); chmod 600 first"):
        messenger(1, key_log=log)
    with pytest.raises(LocalError, match="link: is a symbolic link; give the file itself"):
        messenger(1, key_log=tmp_path / "link")
    assert log.read_bytes() == b""


@on_loop
async def test_a_file_that_is_opened_to_others_later_gets_no_more_keys(tmp_path: Path) -> None:
    records: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: records.append(context))
    log = tmp_path / "keys.log"
    async with messenger(1, key_log=log) as client, messenger(2) as server:
        address = await server.bind()
        log.chmod(0o644)
        await client.connect(address, EntityType.OSD).ready(10.0)
        await asyncio.sleep(0)
    assert log.read_bytes() == b""
    assert [context["message"] for context in records] == ["the key log cannot be written"]


@on_loop
async def test_a_full_disk_does_not_stop_the_messenger() -> None:
    records: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: records.append(context))

    def full(_line: str) -> None:
        raise OSError(28, "No space left on device")

    await _connect(full, None)
    assert [context["message"] for context in records] == ["the key log cannot be written"]
