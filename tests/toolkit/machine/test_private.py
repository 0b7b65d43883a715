"""Private directories, and locks that no symbolic link turns against their owner."""

import os
import socket
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.users import OTHER_UID, as_user, needs_root, shared
from toolkit.machine.private import Peer, check_private, locked, make_private

__all__ = ["shared"]


def test_a_directory_is_made_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "deep" / "er" / "state", "directory")
    finally:
        os.umask(before)
    assert (tmp_path / "deep" / "er" / "state").stat().st_mode & 0o777 == 0o700
    make_private(tmp_path / "deep" / "er" / "state", "directory")


def test_a_file_in_its_place_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LocalError, match=str(path)):
            make_private(path, "directory")


@needs_root
@pytest.mark.parametrize(
    ("mode", "gid", "accepted"),
    [
        (0o755, OTHER_UID, True),
        (0o775, 0, True),
        (0o775, OTHER_UID, False),
        (0o757, 0, False),
        (0o1777, OTHER_UID, True),
    ],
)
def test_directories_above_it_may_not_be_writable_for_others(
    *, mode: int, gid: int, accepted: bool, tmp_path: Path
) -> None:
    make_private(tmp_path / "above" / "state", "directory")
    os.chown(tmp_path / "above", 0, gid)
    (tmp_path / "above").chmod(mode)
    if accepted:
        check_private(tmp_path / "above" / "state", "directory")
    else:
        with pytest.raises(LocalError, match=f"has mode {mode:04o}"):
            check_private(tmp_path / "above" / "state", "directory")


@needs_root
def test_roots_own_directory_is_not_that_of_another_user(shared: Path) -> None:
    make_private(shared / "state", "directory")

    def use() -> str:
        try:
            make_private(shared / "state", "directory")
        except LocalError as error:
            return str(error)
        return ""

    assert f"{shared}/state belongs to user root (uid 0), not to" in as_user(OTHER_UID, use)


def test_a_lock_keeps_the_content_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("content")
    with locked(tmp_path / "lock"), pytest.raises(BlockingIOError), locked(tmp_path / "lock", wait=False):
        pass
    with locked(tmp_path / "lock", wait=False):
        assert (tmp_path / "lock").read_text() == "content"


def test_a_lock_is_no_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "lock").symlink_to("file")
    (tmp_path / "dangling").symlink_to("new")
    for name in ("lock", "dangling"):
        with pytest.raises(LocalError, match="a symbolic link, not a lock"), locked(tmp_path / name):
            pass
    assert (tmp_path / "file").read_text() == "content"
    assert not (tmp_path / "new").exists()


@needs_root
def test_kernel_identifies_the_peer() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert (Peer.of(ours).uid, Peer.of(ours).is_trusted) == (os.geteuid(), True)
    assert not Peer(1, OTHER_UID).is_trusted
    assert as_user(OTHER_UID, lambda: [Peer(1, uid).is_trusted for uid in (0, OTHER_UID, 1)]) == [
        True,
        True,
        False,
    ]
