"""The kernel of a virtual machine, which root boots, is nobody else's."""

from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.users import OTHER_UID, as_user, needs_root, shared
from toolkit.machine import vm
from toolkit.machine.vm.kernels import image_directory

__all__ = ["shared"]


def ready(root: Path) -> None:
    directory = image_directory("bookworm", root)
    directory.mkdir(parents=True)
    (directory / "release").write_text("6.1.0-50-amd64\n")


@needs_root
def test_a_kernel_that_another_user_can_change_is_not_booted(shared: Path) -> None:
    as_user(OTHER_UID, lambda: ready(shared / "theirs"))
    with pytest.raises(LocalError, match=f"image {shared}/theirs/vm-bookworm: {shared}/theirs belongs to"):
        vm.find(root=shared / "theirs")
    ready(shared / "ours")
    assert vm.find(root=shared / "ours").release == "6.1.0-50-amd64"
