"""Files of unknown origin are read up to a limit; files of secrets are readable by their owner alone."""

import contextlib
import os
import socket
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.errors import LocalError
from messenger.files import (
    append_private,
    created,
    new_file,
    open_file,
    read_bytes,
    read_lines,
    read_text,
    replacing,
)
from tests.support.limits import files_limited_to

MIB = 1 << 20
Reader = Callable[[Path], object]
READERS: list[Reader] = [
    lambda path: read_bytes(path, MIB, "thing"),
    lambda path: read_text(path, MIB, "thing"),
    lambda path: list(read_lines(path, MIB, MIB, "thing")),
    open_file,
]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (Path.mkdir, "is a directory, not a file"),
        (_pipe, "is a named pipe, not a file"),
        (_socket, "is a socket, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    ],
)
def test_special_and_missing_files_are_refused_without_waiting(
    read: Reader, make: Callable[[Path], None], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(LocalError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {complaint}"


def test_a_path_that_cannot_be() -> None:
    with pytest.raises(LocalError, match="null"):
        open_file("a\0b")


@pytest.mark.parametrize("read", READERS[:3])
def test_a_sparse_file_costs_no_memory(read: Reader, tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 40)
    tracemalloc.start()
    with pytest.raises(LocalError, match=f"^{path}:.* more than 1 MiB, the limit for a"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    tracemalloc.stop()


def test_file_of_unknown_length_is_read_to_the_limit() -> None:
    with pytest.raises(LocalError, match="more than 16 bytes, the limit for a list"):
        read_bytes("/proc/self/maps", 16, "list")
    assert read_text("/proc/self/comm", MIB, "name").endswith("\n")


def test_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"a\nbb\n")
    assert read_bytes(path, 5, "thing") == b"a\nbb\n"
    assert list(read_lines(path, 5, 3, "thing")) == ["a\n", "bb\n"]
    with pytest.raises(LocalError, match="it: more than 4 bytes"):
        read_bytes(path, 4, "thing")
    with pytest.raises(LocalError, match="it:2: more than 4 bytes, the limit for a thing"):
        list(read_lines(path, 4, 3, "thing"))
    with pytest.raises(LocalError, match="it:2: more than 2 bytes, the limit for a line of a thing"):
        list(read_lines(path, 5, 2, "thing"))


@pytest.mark.parametrize("read", READERS[1:3])
def test_invalid_utf8_is_reported_with_its_line(read: Reader, tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(LocalError) as caught:
        read(path)
    assert str(caught.value) == f"{path}:2: not a thing: byte 0xff is not text in UTF-8"


def test_a_pipe_that_a_shell_made_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"key")
    os.close(writer)
    try:
        assert read_text(f"/dev/fd/{reader}", MIB, "keyring") == "key"
    finally:
        os.close(reader)


# ---- writing


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_are_private_and_never_there_before(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "it", tmp_path / "elsewhere"
    with new_file(path) as file:
        file.write(b"secret")
    assert mode(path) == 0o600
    (tmp_path / "link").symlink_to(elsewhere)
    for name in "it", "link":
        with pytest.raises(FileExistsError):
            new_file(tmp_path / name)
    assert not elsewhere.exists()


def test_new_file_that_cannot_be_written_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), created(__file__):
        pytest.fail("it exists")
    assert Path(__file__).exists()
    with files_limited_to(1000), pytest.raises(OSError, match="File too large"), created(tmp_path / "x") as file:
        file.write(bytes(2000))
    assert list(tmp_path.iterdir()) == []
    with created(tmp_path / "x") as file:
        file.write(bytes(2000))
    assert (tmp_path / "x").stat().st_size == 2000


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path, victim = tmp_path / "it", tmp_path / "victim"
    victim.write_text("mine")
    path.symlink_to(victim)
    with contextlib.suppress(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.is_symlink()
    with replacing(path) as file:
        file.write(b"whole")
    assert (path.read_text(), path.is_symlink(), mode(path)) == ("whole", False, 0o600)
    assert victim.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["it", "victim"]


def test_secrets_are_appended_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "it"
    for _ in range(2):
        descriptor = append_private(path)
        os.write(descriptor, b"key\n")
        os.close(descriptor)
    assert (path.read_text(), mode(path)) == ("key\nkey\n", 0o600)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: path.touch(0o644), r"is open to other users \(mode 0644\); chmod 600 first"),
        (lambda path: path.symlink_to("/tmp/it"), "is a symbolic link; give the file itself"),
        (lambda path: path.symlink_to("/dev/null"), "is a symbolic link"),
        (_pipe, "is not a file"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_secrets_are_not_appended_to_public_or_special_files(
    make: Callable[[Path], None], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(OSError, match=complaint):
        append_private(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_secrets_do_not_go_into_the_file_of_another_user(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.touch(0o600)
    os.chown(path, 12345, -1)
    with pytest.raises(OSError, match="belongs to user 12345, not to user 0"):
        append_private(path)
    assert path.read_bytes() == b""
