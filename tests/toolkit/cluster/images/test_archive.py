"""Debian's archive is verified: with real debootstrap and apt, from a tiny archive on this machine's loopback."""

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import msgrlab, state
from toolkit.cluster.images import archive as archive_module
from toolkit.cluster.images import debian
from toolkit.cluster.images.archive import Archive, Suite
from toolkit.cluster.images.work import ProgramFailed, Work
from toolkit.errors import Unsupported
from toolkit.machine.cache import IMAGES_VARIABLE

__all__ = ["state"]

TREE = Path(__file__).parent / "archive"
OLD, BOTH = TREE / "old.gpg", TREE / "both.gpg"
BULLSEYE, TRIXIE = Suite("bullseye", "20240101T000000Z"), Suite("trixie", "20240101T000000Z")

takes_debootstrap = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="images need root and debootstrap"
)


class Mirror:
    """A mirror on loopback, and what was asked of it."""

    def __init__(self, tree: Path) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                if "binary-" in self.path:  # one file for every architecture
                    self.path = "/".join(part for part in self.path.split("/") if not part.startswith("binary-"))
                super().do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tree))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", archive_module.MIRROR_VARIABLE, archive_module.KEYRING_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tiny archive, to be changed."""
    return shutil.copytree(TREE, tmp_path / "archive")


@pytest.fixture
def mirror(tree: Path) -> Iterator[Mirror]:
    mirror = Mirror(tree)
    yield mirror
    mirror.close()


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "log")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "image").mkdir()
    return tmp_path / "image"


def packages_of(suite: str, mirror: Mirror) -> list[str]:
    return [path for path in mirror.asked if path.startswith(f"/dists/{suite}/") and "Packages" in path]


@takes_debootstrap
def test_a_suite_that_is_signed_by_a_known_key_is_fetched(work: Work, mirror: Mirror, directory: Path) -> None:
    with pytest.raises(ProgramFailed):  # there is not much in it
        Archive(mirror.url, OLD).bootstrap(work, BULLSEYE, directory)
    assert "Valid Release signature" in work.log.read_text()
    assert packages_of("bullseye", mirror)


@takes_debootstrap
@pytest.mark.parametrize("spoil", ["unknown key", "changed", "unsigned"])
def test_archive_fetches_no_package_of_an_unverified_suite(
    spoil: str, work: Work, mirror: Mirror, tree: Path, directory: Path
) -> None:
    release = tree / "dists" / "trixie" / "InRelease"
    if spoil == "changed":
        release.write_text(release.read_text().replace("Components: main", "Components: main evil"))
    elif spoil == "unsigned":
        release.rename(release.with_name("Release"))
    keyring = OLD if spoil == "unknown key" else BOTH
    with pytest.raises(LocalError) as refused:
        Archive(mirror.url, keyring).bootstrap(work, TRIXIE, directory)
    assert "\n" not in str(refused.value)
    assert packages_of("trixie", mirror) == []
    if spoil == "unknown key":
        assert f"Debian trixie of {mirror.url} is not signed by a key in {OLD}" in str(refused.value)
        assert "or give --keyring FILE" in str(refused.value)


@takes_debootstrap
def test_keys_that_are_too_old_are_renewed_by_a_package_that_they_verify(
    work: Work, mirror: Mirror, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "_KEYRINGS", (OLD,))
    with pytest.raises(ProgramFailed):  # as above
        Archive(mirror.url).bootstrap(work, TRIXIE, directory)
    log = work.log.read_text()
    assert log.index("signed by unknown key") < log.index("Valid Release signature")
    assert packages_of("trixie", mirror)
    assert (tmp_path / ".debian-archive-keyring_9999.1.gpg").read_bytes() == BOTH.read_bytes()


@takes_debootstrap
def test_a_package_of_keys_that_is_not_verified_renews_nothing(
    work: Work, mirror: Mirror, tree: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "_KEYRINGS", (OLD,))
    with (tree / "pool/debian-archive-keyring_9999.1_all.deb").open("ab") as package:
        package.write(b"forged")
    with pytest.raises(LocalError, match="is not signed by a key in"):
        Archive(mirror.url).bootstrap(work, TRIXIE, directory)
    assert packages_of("trixie", mirror) == []


@takes_debootstrap
def test_command_announces_downloads_and_programs(mirror: Mirror, tmp_path: Path) -> None:
    failed = msgrlab(
        *("images", "build", "ceph:reef", "--directory", "--root", str(tmp_path / "images")),
        *("--mirror", mirror.url, "--keyring", str(OLD)),
    )
    assert failed.returncode == 2
    announced, refused = failed.stderr.splitlines()
    for words in ("Debian trixie", mirror.url, str(OLD), "as root in a chroot"):
        assert words in announced
    assert refused.startswith("msgrlab: Debian trixie of ")


@takes_debootstrap
def test_missing_image_is_announced_before_the_download(
    mirror: Mirror, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path / "images"))
    monkeypatch.setenv(archive_module.MIRROR_VARIABLE, mirror.url)
    monkeypatch.setenv(archive_module.KEYRING_VARIABLE, str(OLD))
    spec = tmp_path / "real.yaml"
    spec.write_text("nodes: {mon: {ceph: mon}}\nceph: {release: reef}\n")
    failed = msgrlab("up", str(spec), "--json")
    assert (failed.returncode, failed.stdout) == (2, "")
    announced, refused, logs = failed.stderr.splitlines()
    assert logs.startswith("all logs are in ")
    assert announced.startswith(f"making an image of Ceph 18.2.7 in {tmp_path}/images/ceph-reef: ")
    assert refused.startswith("msgrlab: Debian trixie of ")
    assert list(state.iterdir()) == [state / ".lock"]


def test_archive_arguments_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archive_module.MIRROR_VARIABLE, "http://mirror/")
    monkeypatch.setenv(archive_module.KEYRING_VARIABLE, str(OLD))
    assert Archive.wanted() == Archive("http://mirror", OLD)
    assert Archive.wanted("http://other", BOTH) == Archive("http://other", BOTH)
    monkeypatch.setenv(archive_module.KEYRING_VARIABLE, "/no/such.gpg")
    with pytest.raises(LocalError, match=r"keyring /no/such\.gpg: no such file"):
        Archive.wanted()


def test_missing_archive_keys_are_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "_KEYRINGS", (Path("/no/such.gpg"),))
    with pytest.raises(Unsupported, match="apt-get install debian-archive-keyring, or --keyring FILE"):
        Archive().keys()


def test_archive_prefers_the_snapshot_if_it_exists(
    mirror: Mirror, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "SNAPSHOTS", mirror.url)
    assert Archive().mirror_of(TRIXIE) == archive_module.MIRROR
    (tree / "dists").rename(tree / "moved")
    (tree / TRIXIE.snapshot).mkdir()
    (tree / "moved").rename(tree / TRIXIE.snapshot / "dists")
    assert Archive().mirror_of(TRIXIE) == f"{mirror.url}/{TRIXIE.snapshot}"
    assert Archive("http://other").mirror_of(TRIXIE) == "http://other"
    assert all(each.suite.snapshot.endswith("Z") for each in debian.RELEASES.values())
