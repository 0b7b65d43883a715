"""Which kernels msgrlab's own programs get: the fastest one that boots here and has what they need."""

import os
import shutil
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.guests import OTHERS, grouped
from toolkit.errors import Unsupported
from toolkit.machine import vm
from toolkit.machine.cache import IMAGES_VARIABLE
from toolkit.machine.kvm import kvm
from toolkit.machine.vm import trial
from toolkit.machine.vm.kernels import VARIABLE

pytestmark = grouped(OTHERS)


@pytest.fixture
def booting() -> Path:
    """User-mode Linux."""
    return vm.find("uml").vmlinux


@pytest.fixture
def images(booting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images of both engines, of which that of user-mode Linux ends at once."""
    kept = booting.parent
    shutil.copytree(kept, tmp_path / "vm-uml", ignore=shutil.ignore_patterns("modules", "vmlinux"))
    (tmp_path / "vm-uml/modules").symlink_to(kept / "modules")
    shutil.copy(kept / "busybox", tmp_path / "vm-uml/vmlinux")
    (tmp_path / "vm-bookworm").mkdir()
    (tmp_path / "vm-bookworm/release").write_text("6.1.0-50-amd64\n")
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def names(*, needs_rdma: bool = False) -> list[str]:
    return [kernel.name for kernel in vm.fastest_first(needs_rdma=needs_rdma)]


@pytest.mark.needs("uml")
@pytest.mark.skipif(kvm().available, reason="QEMU is as fast with KVM")
def test_user_mode_linux_comes_first_where_it_boots(booting: Path, images: Path) -> None:
    assert names() == ["bookworm"]
    assert "has ended before the program did" in trial.why_not(vm.find("uml"))
    assert not vm.probe("uml").available
    shutil.copy(booting, images / "vm-uml/vmlinux")
    assert names() == ["bookworm"]  # as was found out before
    os.utime(images / "vm-uml/release")  # as an image that was built anew
    assert names() == ["uml", "bookworm"]
    assert names(needs_rdma=True) == ["bookworm"]
    shutil.rmtree(images / "vm-bookworm")
    assert names() == ["uml"]


def test_a_variable_names_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / "modprobe").touch(mode=0o700)  # all that user-mode Linux needs of a machine, where it is missing
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path))
    (tmp_path / "vm-uml").mkdir()
    (tmp_path / "vm-uml/release").write_text("7.2.7\n")
    monkeypatch.setenv(VARIABLE, "uml")
    assert [vm.find().name, vm.complete().name, *names()] == ["uml"] * 3
    with pytest.raises(Unsupported, match=f"user-mode Linux has no RDMA devices: unset {VARIABLE}, or set it to"):
        vm.complete(needs_rdma=True)
    monkeypatch.setenv(VARIABLE, "potato")
    with pytest.raises(LocalError, match="no kernel 'potato'; known: bookworm, trixie, uml"):
        vm.find()
