"""Real captures of four releases: they decode as they did, and as the daemons' own logs have it."""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from captures.expected import CAPTURE, EXPECTED, HERE, KEYRING, expected_lines
from captures.recipes import RECIPES
from messenger.cephx.ciphers import KeyType
from messenger.cephx.keyring import Keyring
from toolkit.cluster.images import RELEASES
from toolkit.dissect.daemon_log import LoggedMessage, read_log
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.witness import compare

LARGEST_BYTES = {"reef-files": 1 << 20}
"""Of captures that are larger than others."""
MOST_BYTES = 300 << 10
ALL_BYTES = 5 << 20

NAMES = sorted(RECIPES)
OSDS = [name for name in NAMES if RECIPES[name].osds > 1]
CLIENTS = [name for name in NAMES if RECIPES[name].osds == 1]
SECURE = [name for name in NAMES if RECIPES[name].mode == "secure"]
V1 = [name for name in NAMES if RECIPES[name].v1_only]
COMPRESSED = [name for name in NAMES if RECIPES[name].options]


@cache
def frames_of(name: str) -> tuple[DecodedFrame, ...]:
    """The decode of a capture with its keyring."""
    return decoded(name, KEYRING)


def decoded(name: str, *keyrings: str | Path) -> tuple[DecodedFrame, ...]:
    book = KeyBook.read([HERE / name / path for path in keyrings])
    return tuple(decode_capture(HERE / name / CAPTURE, book))


def only(name: str, entity: str, directory: Path) -> Path:
    """A keyring with one key of the capture's."""
    sections = (HERE / name / KEYRING).read_text().split("[")
    path = directory / "keyring"
    path.write_text("".join(f"[{section}" for section in sections if section.startswith(f"{entity}]")))
    return path


def logs_of(name: str, daemon: str = "*") -> list[list[LoggedMessage]]:
    return [read_log(path) for path in sorted((HERE / name).glob(f"{daemon}.log.gz"))]


def messages(frames: tuple[DecodedFrame, ...]) -> list[DecodedFrame]:
    return [frame for frame in frames if frame.message is not None]


def test_every_recipe_has_its_capture():
    made = {path.name for path in HERE.iterdir() if (path / CAPTURE).exists()}
    assert made == set(RECIPES)


def test_captures_are_small():
    sizes = {name: sum(path.stat().st_size for path in (HERE / name).iterdir()) for name in NAMES}
    assert all(size < LARGEST_BYTES.get(name, MOST_BYTES) for name, size in sizes.items()), sizes
    assert sum(sizes.values()) < ALL_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_the_decode_is_as_expected(name):
    expected = gzip.decompress((HERE / name / EXPECTED).read_bytes()).decode().splitlines()
    for now, then in zip(expected_lines(frames_of(name)), expected, strict=True):
        assert json.loads(now) == json.loads(then)


@pytest.mark.parametrize("name", NAMES)
def test_everything_decodes(name):
    for frame in frames_of(name):
        assert frame.error is None, frame
        assert frame.tag not in {"UNKNOWN", "GAP"}, frame
        assert frame.crc in {Verdict.OK, Verdict.NONE}, frame
        assert frame.auth in {Verdict.OK, Verdict.NONE}, frame


@pytest.mark.parametrize("name", NAMES)
def test_the_daemons_logs_agree(name):
    logs = logs_of(name)
    result = compare(frames_of(name), logs)
    assert result.differences == []
    assert result.unwitnessed == []
    assert result.sent + result.repeated == len(messages(frames_of(name)))
    assert result.received + result.unread == result.sent
    assert result.unread <= 16  # a client that closes does not read what comes then
    assert result.unsent <= 16  # nor do daemons that end send what they still meant to


def test_logs_and_captures_contain_many_message_types():
    """The comparison with logs is worth its name: in each release it had messages of every kind of daemon."""
    for release in RELEASES:
        names = {
            frame.message.name
            for name in NAMES
            if RECIPES[name].release == release
            for frame in messages(frames_of(name))
        }
        assert len(names) > 35
        assert {
            "mon_map",
            "osd_op_reply",
            "osd_repop",
            "watch-notify",
            "mgrreport",
            "mdsbeacon",
            "log_ack",
        } <= names


@pytest.mark.parametrize("name", NAMES)
def test_daemons_logged_the_mode_that_was_decoded(name):
    modes = {
        message.mode for log in logs_of(name) for message in log if message.mode and not message.own & message.peer
    }
    modes.discard("unknown")  # on v1, and for what is handed on when its connection is closed already
    assert modes == (set() if RECIPES[name].v1_only else {RECIPES[name].mode})
    assert {frame.mode for frame in messages(frames_of(name))} == {RECIPES[name].mode}


@pytest.mark.parametrize("name", OSDS)
def test_logs_of_osds_contain_no_other_links(name):
    assert compare(frames_of(name), logs_of(name, "osd.*")).uncaptured == set()


@pytest.mark.parametrize("name", SECURE)
def test_without_keys_secure_links_stay_closed(name):
    frames = decoded(name)
    assert messages(frames) == []
    closed = [frame for frame in frames if frame.auth is Verdict.NO_KEY]
    assert closed
    assert all(frame.error for frame in closed)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SECURE])
def test_without_keys_only_signatures_stay_open(name):
    frames = decoded(name)
    assert len(messages(frames)) == len(messages(frames_of(name)))
    unproved = [frame for frame in frames if frame.auth is Verdict.NO_KEY]
    assert bool(unproved) is (RECIPES[name].auth == "cephx")
    assert all("key of" in (frame.error or "") for frame in unproved)
    assert all(frame.error is None for frame in frames if frame.auth is not Verdict.NO_KEY)


@pytest.mark.parametrize("name", [name for name in SECURE if name in CLIENTS])
def test_the_key_of_a_client_opens_all_its_links(name, tmp_path):
    assert expected_lines(decoded(name, only(name, "client.admin", tmp_path))) == expected_lines(frames_of(name))


@pytest.mark.parametrize("name", [name for name in SECURE if name in OSDS])
def test_the_key_of_one_osd_opens_the_links_of_all_osds(name, tmp_path):
    frames = decoded(name, only(name, "osd.0", tmp_path))
    osd_links = {frame.stream.index for frame in frames if not frame.stream.server.endswith(":3300")}
    opened = [frame for frame in messages(frames) if frame.stream.index in osd_links]
    every = [frame for frame in messages(frames_of(name)) if frame.stream.index in osd_links]
    assert len(opened) == len(every) > 0


@pytest.mark.parametrize("name", [name for name in V1 if RECIPES[name].auth == "cephx"])
def test_v1_messages_are_signed(name):
    frames = frames_of(name)
    between_osds = [frame for frame in messages(frames) if not frame.stream.server.endswith(":6789")]
    assert between_osds
    assert all(frame.auth is Verdict.OK for frame in between_osds)


@pytest.mark.parametrize("name", SECURE)
def test_secure_messages_authenticate(name):
    assert all(frame.auth is Verdict.OK and frame.mode == "secure" for frame in messages(frames_of(name)))


@pytest.mark.parametrize("name", OSDS)
def test_the_cut_sends_messages_again(name):
    frames = frames_of(name)
    if RECIPES[name].v1_only:
        assert any(frame.tag == "CONNECT" and frame.fields["connect_seq"] for frame in frames)
    else:
        assert {"SESSION_RECONNECT", "SESSION_RECONNECT_OK"} <= {frame.tag for frame in frames}
    logs = logs_of(name)
    assert compare(frames, logs).repeated >= 5


@pytest.mark.parametrize("name", COMPRESSED)
def test_osds_compress(name):
    frames = frames_of(name)
    assert any(frame.tag == "COMPRESSION_DONE" and frame.fields["is_compress"] for frame in frames)
    assert any(frame.compressed and frame.message.name == "osd_repop" for frame in messages(frames))


@pytest.mark.parametrize("name", NAMES)
def test_tentacle_makes_keys_of_aes256k(name):
    keyring = Keyring.load(HERE / name / KEYRING)
    types = {entry.key.type for entry in keyring.entries.values()}
    assert types == {KeyType.AES256KRB5 if RECIPES[name].release == "tentacle" else KeyType.AES}
