"""Orders to the kernel's rbd bus, on a directory in its place; tests/toolkit/embedded maps real images."""

from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine import krbd
from toolkit.machine.krbd import BlockDevice


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bus with an image that is mapped as device 3."""
    device = tmp_path / "devices/3"
    device.mkdir(parents=True)
    for name, value in (("pool", "rbd"), ("name", "disk"), ("size", "67108864")):
        (device / name).write_text(f"{value}\n")
    monkeypatch.setattr(krbd, "_BUS", tmp_path)
    return tmp_path


def test_mapped_images_are_listed(bus: Path) -> None:
    (device,) = krbd.devices()
    assert (device.path, device.image, device.size_bytes) == (Path("/dev/rbd3"), ("rbd", "disk"), 64 << 20)
    (bus / "devices/3/size").unlink()
    with pytest.raises(LocalError, match="No such file"):
        _ = device.size_bytes


def test_an_image_is_mapped_by_one_line(bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = iter([[], [BlockDevice(3)]])
    monkeypatch.setattr(krbd, "devices", lambda: next(listed))
    device = krbd.map_image("10.0.0.1:3300", "rbd", "disk", key="a2V5", mode="crc", options="mount_timeout=9")
    assert device == BlockDevice(3)
    line = "10.0.0.1:3300 name=admin,ms_mode=crc,secret=a2V5,mount_timeout=9 rbd disk -"
    assert (bus / "add").read_text() == line


def test_map_image_fails_if_another_program_unmaps_the_image(bus: Path) -> None:
    with pytest.raises(LocalError, match="rbd/other: unmapped again"):
        krbd.map_image("10.0.0.1:6789", "rbd", "other")
    assert (bus / "add").read_text() == "10.0.0.1:6789 name=admin,ms_mode=legacy rbd other -"


def test_krbd_writes_to_single_major_files_if_they_exist(bus: Path) -> None:
    (bus / "remove_single_major").touch()
    krbd.unmap(BlockDevice(3))
    assert (bus / "remove_single_major").read_text() == "3"
    krbd.unmap(BlockDevice(3), force=True)
    assert (bus / "remove_single_major").read_text() == "3 force"
    assert not (bus / "remove").exists()


def test_refusals_of_the_kernel_are_one_line(bus: Path) -> None:
    (bus / "remove").mkdir()
    with pytest.raises(LocalError, match="/dev/rbd3 cannot be unmapped: Is a directory"):
        krbd.unmap(BlockDevice(3))


def test_other_modes_are_refused(bus: Path) -> None:
    with pytest.raises(LocalError, match="ms_mode 'plain': give one of legacy, crc, secure"):
        krbd.map_image("10.0.0.1:3300", "rbd", "disk", mode="plain")
    assert not (bus / "add").exists()


def test_a_kernel_without_the_module_is_unsupported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(krbd, "_BUS", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert krbd.devices() == []
    with pytest.raises(Unsupported, match="modprobe"):
        krbd.load()


def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(krbd, "_KERNEL_LOG", tmp_path / "kmsg")
    with pytest.raises(LocalError, match="kmsg: No such file"):
        krbd.KernelLog()


def test_kernel_log_returns_new_lines_of_the_ceph_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,1,10,-;libceph: mon0 (2)10.0.0.1:3300 socket closed\n")
    monkeypatch.setattr(krbd, "_KERNEL_LOG", path)
    log = krbd.KernelLog()
    assert log.lines() == []
    with path.open("a") as file:
        file.write("6,2,20,-;libceph: mon0 (2)10.0.0.1:3300 session established\n SUBSYSTEM=x\n")
    assert log.lines() == ["libceph: mon0 (2)10.0.0.1:3300 session established"]
    log.close()
