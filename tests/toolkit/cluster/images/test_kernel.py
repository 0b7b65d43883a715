"""Kernels for virtual machines, as packages have them, without downloading any."""

import lzma
from pathlib import Path

import pytest
import zstandard

from messenger.errors import LocalError
from toolkit.cluster.images import kernel, names
from toolkit.cluster.images.archive import Archive
from toolkit.errors import Unsupported

ELF = b"\x7fELF the kernel"


def test_a_kernel_is_found_in_its_compressed_image() -> None:
    noise = b"boot code \xfd7zXZ\x00 and \x28\xb5\x2f\xfd, which only look like it"
    for compressed in (lzma.compress(ELF, format=lzma.FORMAT_XZ), zstandard.compress(ELF)):
        assert kernel._uncompressed(noise + compressed + b"more") == ELF
    with pytest.raises(LocalError, match="no kernel that this version can unpack"):
        kernel._uncompressed(noise + lzma.compress(b"something else"))


def test_build_returns_an_existing_kernel_and_remove_deletes_it(tmp_path: Path) -> None:
    (tmp_path / "vm-trixie").mkdir()
    (tmp_path / "vm-trixie/release").write_text("6.12.117+deb13-amd64\n")
    assert names.build("vm:trixie", "", tmp_path, announce=pytest.fail) == str(tmp_path / "vm-trixie")
    assert [(found.name, found.version) for found in names.directories(tmp_path)] == [
        ("vm:trixie", "6.12.117+deb13-amd64")
    ]
    (tmp_path / "vm-trixie.trial").touch()
    assert names.remove("vm:trixie", "", tmp_path) == [str(tmp_path / "vm-trixie")]
    assert names.directories(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".trial"] == []


def test_missing_programs_for_a_kernel_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_options: None)
    with pytest.raises(Unsupported, match=r"no apt-get here \(Debian: apt-get install apt\)"):
        kernel.find_or_build("vm", tmp_path)


@pytest.mark.needs("vm")
def test_packages_that_cannot_be_fetched_leave_only_a_log(tmp_path: Path) -> None:
    keys = tmp_path / "keys.gpg"
    keys.touch()
    archive = Archive("file:/nonexistent", keys)
    with pytest.raises(
        LocalError, match=r"apt-get ended with exit code 100; what was said is in .*vm-bookworm.log"
    ):
        kernel.find_or_build("vm", tmp_path, lambda _line: None, archive=archive)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".vm-bookworm.lock", "keys.gpg", "vm-bookworm.log"]
