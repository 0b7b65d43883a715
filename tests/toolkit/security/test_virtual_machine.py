"""The virtual machine of the tests boots nothing that another user has put in its place."""

from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support import vm
from tests.support.users import OTHER_UID, as_user, needs_root, shared

__all__ = ["shared"]


@needs_root
@pytest.mark.parametrize("plant", ["directory", "link"])
def test_a_directory_of_somebody_else_is_not_used(
    plant: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squatted = shared / "msgrlab-vm-0"
    as_user(OTHER_UID, squatted.mkdir if plant == "directory" else lambda: squatted.symlink_to(tmp_path))
    monkeypatch.setattr(vm, "_DIRECTORY", squatted)
    monkeypatch.setattr(vm, "_package", lambda: pytest.fail("it is used"))
    with pytest.raises(LocalError, match=f"{squatted} belongs to"):
        vm.run("true", tmp_path)
