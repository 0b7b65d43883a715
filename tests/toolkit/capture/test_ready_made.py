"""Captures by path or by name, as a notebook gives them."""

from pathlib import Path

import pytest

import toolkit
from messenger.errors import LocalError
from toolkit.capture.ready_made import FILE, find_capture

CAPTURES = Path(__file__).parents[3] / "captures"


def test_a_capture_is_found_by_its_path_its_folder_and_its_name() -> None:
    file = CAPTURES / "reef-secure" / FILE
    assert find_capture(file) == file
    assert find_capture(file.parent) == find_capture("reef-secure") == file.parent


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("reef-secur", "reef-secur: no such file, and no capture of that name; did you mean reef-secure?"),
        ("/nothing", "/nothing: no such file, and no capture of that name"),
        (str(CAPTURES), f"a folder without {FILE}"),
    ],
)
def test_a_capture_that_does_not_exist_is_refused_at_once(path: str, complaint: str) -> None:
    with pytest.raises(LocalError) as refused:
        toolkit.read_capture(path)
    assert complaint in str(refused.value)


def test_keys_are_used_for_a_folder_too(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes((CAPTURES / "reef-secure" / FILE).read_bytes())
    keyring = str(CAPTURES / "reef-secure" / "keyring")
    captures = toolkit.read_capture(tmp_path), toolkit.read_capture(tmp_path, keyring)
    assert [any(frame.message is not None for frame in capture) for capture in captures] == [False, True]
