"""Files that are kept of a cluster: readable by their owner only, without keys unless requested."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import done, msgrlab, peers, state
from tests.support.users import OTHER_UID, as_user, needs_root, shared
from tests.support.waiting import eventually
from toolkit.capture.formats import PcapngWriter
from toolkit.cluster import up
from toolkit.cluster.retention import keep_files
from toolkit.dissect.decode import CaptureDecoder
from toolkit.dissect.keys import KeyBook

__all__ = ["shared", "state"]

LOG_LINE = "service osd 3 AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The directory of a cluster that has everything that is kept, and more."""
    directory = tmp_path / "pair"
    (directory / "a" / "store").mkdir(parents=True)
    for name in ("service.keys", "ceph.keyring", "a/keys.log"):
        (directory / name).write_text(LOG_LINE)
    for name in ("history.ndjson", "supervisor.log", "a/a.log"):
        (directory / name).write_text("text\n")
    for name in ("journal", "a/ceph.conf", "a/keyring", "a/store/deep.log"):
        (directory / name).write_text("is not kept\n")
    with (directory / "a.pcapng").open("wb") as out:
        writer = PcapngWriter(out)
        writer.interface("lo")
        writer.packet(1, b"first")
        writer.secrets(LOG_LINE)
        writer.packet(2, b"second")
    return directory


def kept_in(directory: Path) -> dict[str, int]:
    """Modes of everything in a directory, by name."""
    return {
        path.relative_to(directory).as_posix(): path.stat().st_mode & 0o777
        for path in sorted(directory.rglob("*"))
    }


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_keep_files_writes_private_copies_without_keys(cluster: Path, tmp_path: Path) -> None:
    keep_files(cluster, tmp_path / "kept" / "pair")
    assert kept_in(tmp_path / "kept") == {
        "pair": 0o700,
        "pair/a": 0o700,
        "pair/a/a.log": 0o600,
        "pair/a.pcapng": 0o600,
        "pair/history.ndjson": 0o600,
        "pair/supervisor.log": 0o600,
    }
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    capture = (tmp_path / "kept/pair/a.pcapng").read_bytes()
    assert LOG_LINE.encode() not in capture
    assert b"first" in capture
    assert b"second" in capture


def test_keep_files_keeps_keys_on_request(cluster: Path, tmp_path: Path) -> None:
    keep_files(cluster, tmp_path / "kept", keys=True)
    modes = kept_in(tmp_path / "kept")
    assert modes.pop("a") == 0o700
    assert modes == dict.fromkeys(
        ("a/a.log", "a/keys.log", "a.pcapng", "ceph.keyring", "history.ndjson", "service.keys", "supervisor.log"),
        0o600,
    )
    assert (tmp_path / "kept/a.pcapng").read_bytes() == (cluster / "a.pcapng").read_bytes()


def test_truncated_capture_is_kept_up_to_its_last_whole_block(cluster: Path, tmp_path: Path) -> None:
    whole = (cluster / "a.pcapng").read_bytes()
    (cluster / "a.pcapng").write_bytes(whole[:-3])
    keep_files(cluster, tmp_path / "kept")
    kept = (tmp_path / "kept/a.pcapng").read_bytes()
    assert b"first" in kept
    assert b"second" not in kept


def test_keep_files_names_an_invalid_capture_and_keeps_the_rest(cluster: Path, tmp_path: Path) -> None:
    (cluster / "a.pcapng").write_bytes(b"\1\2\3\4" * 100)
    with pytest.raises(LocalError, match=r"a\.pcapng: not a capture .*--keep-keys"):
        keep_files(cluster, tmp_path / "kept")
    assert not (tmp_path / "kept/a.pcapng").exists()
    assert (tmp_path / "kept/history.ndjson").exists()


def test_keep_files_does_not_overwrite_files(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/history.ndjson").write_text("mine")
    with pytest.raises(LocalError, match=r"history\.ndjson: it exists already"):
        keep_files(cluster, tmp_path / "kept")
    assert (tmp_path / "kept/history.ndjson").read_text() == "mine"
    assert (tmp_path / "kept/a/a.log").exists()


@needs_root
def test_another_user_cannot_read_kept_files(cluster: Path, shared: Path) -> None:
    keep_files(cluster, shared / "kept", keys=True)
    with pytest.raises(AssertionError, match="PermissionError"):
        as_user(OTHER_UID, lambda: list((shared / "kept").iterdir()))
    (shared / "kept").chmod(0o755)  # nor if the directory is opened later on
    with pytest.raises(AssertionError, match="PermissionError"):
        as_user(OTHER_UID, (shared / "kept/a.pcapng").read_bytes)


@pytest.mark.needs("capture")
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("keys", [False, True])
def test_a_capture_of_a_cluster_opens_with_the_keys_that_were_kept(*, keys: bool, tmp_path: Path) -> None:
    settings = ["speaks.mode=secure", "captures=[{node: a}]"]
    with up(peers(), settings=settings, keep=tmp_path / "kept", keep_keys=keys) as cluster:
        cluster.nodes["a"].command("send", peer="b", count=3)
        eventually(lambda: [one["in_seq"] for one in cluster.nodes["b"].status()["sessions"]] == [3])
    books = [KeyBook()] + [KeyBook.read([], [path]) for path in (tmp_path / "kept").glob("service.keys")]
    opened = []
    for book in books:
        with CaptureDecoder(tmp_path / "kept/a.pcapng", book) as frames:
            opened.append(any(frame.message is not None for frame in frames))
    assert opened == [keys] * len(books)


def test_keys_alone_are_not_kept() -> None:
    refused = msgrlab("down", "--keep-keys")
    assert (refused.returncode, refused.stderr) == (2, "msgrlab: --keep-keys needs --keep DIR\n")


def test_down_with_a_folder_that_cannot_be_made_takes_nothing_down(state: Path) -> None:
    done("up", "two-peers")
    refused = msgrlab("down", "--keep", "/dev/null/kept")
    expected = "msgrlab: --keep /dev/null/kept: Not a directory; nothing was taken down\n"
    assert (refused.returncode, refused.stderr) == (2, expected)
    assert "two-peers on process: up" in done("status")
    done("down")


def test_what_cannot_be_kept_stays_in_the_directory_of_the_cluster(state: Path, tmp_path: Path) -> None:
    done("up", "two-peers")
    (state / "two-peers" / "a" / "mine.pcapng").write_bytes(bytes(100))
    first = msgrlab("down", "--keep", str(tmp_path / "first"))
    assert first.returncode == 1
    assert "not a capture that keys can be taken out of: give --keep-keys" in first.stdout
    assert f"the files are still in {state}/two-peers, until msgrlab down two-peers" in first.stdout
    assert (state / "two-peers" / "history.ndjson").exists()
    assert "left behind" in done("status")
    done("down", "two-peers", "--keep", str(tmp_path / "second"), "--keep-keys")
    assert (tmp_path / "second" / "two-peers" / "a" / "mine.pcapng").read_bytes() == bytes(100)


def test_cluster_with_a_place_to_keep_that_cannot_be_made_is_not_started(state: Path) -> None:
    with pytest.raises(LocalError, match="/dev/null/kept: Not a directory"), up(peers(), keep="/dev/null/kept"):
        pytest.fail("it is up")
    assert not state.exists()


def test_what_a_script_cannot_keep_stays_in_the_directory_of_the_cluster(state: Path, tmp_path: Path) -> None:
    stays = pytest.raises(LocalError, match=r"the files are still in .*pair, until msgrlab down pair")
    with stays, up(peers(), keep=tmp_path / "kept") as pair:
        (pair.directory / "mine.pcapng").write_bytes(bytes(100))
    assert (state / "pair" / "mine.pcapng").read_bytes() == bytes(100)
    done("down", "pair")


def test_folder_without_a_copy_is_not_left_behind(cluster: Path, tmp_path: Path) -> None:
    for path in cluster.glob("**/*"):
        if path.is_file() and path.name != "a.pcapng":
            path.unlink()
    (cluster / "a.pcapng").write_bytes(bytes(100))
    with pytest.raises(LocalError, match="give --keep-keys"):
        keep_files(cluster, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_down_keeps_keys_on_request(state: Path, tmp_path: Path) -> None:
    for name, words in (("without", []), ("with", ["--keep-keys"])):
        done("up", "two-peers")
        assert done("down", "--keep", str(tmp_path / name), *words) == "two-peers: down\n"
    assert not list((tmp_path / "without").rglob("*.keys"))
    assert [path.name for path in (tmp_path / "with").rglob("*.keys")] == ["service.keys"]
    assert all(mode in {0o600, 0o700} for mode in kept_in(tmp_path / "with").values())
