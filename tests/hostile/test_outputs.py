"""Files that commands write: only the owner can read them, planted links are not followed, no file is lost."""

import stat
from pathlib import Path

import pytest

from tests.hostile.confined import msgrlab
from toolkit.capture.formats import PcapngWriter
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.wireshark.capture_export import export_capture
from toolkit.dissect.wireshark.install import write_dissector

FOLDER = Path(__file__).parents[2] / "captures" / "tentacle-secure"
CAPTURE, KEYRING = FOLDER / "capture.pcapng.gz", FOLDER / "keyring"
DECRYPTED: dict[str, tuple[object, ...]] = {
    "json": ("decode", CAPTURE, "--keyring", KEYRING, "-o", "out.json"),
    "csv": ("decode", CAPTURE, "--keyring", KEYRING, "-o", "out.csv"),
    "parquet": ("decode", CAPTURE, "--keyring", KEYRING, "-o", "out.parquet"),
    "export": ("wireshark", CAPTURE, "--keyring", KEYRING, "-o", "out.pcapng"),
    "chart": ("chart", CAPTURE, "--keyring", KEYRING, "-o", "out.svg"),
    "page": ("chart", CAPTURE, "--keyring", KEYRING, "-o", "out.html"),
}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("words", DECRYPTED.values(), ids=DECRYPTED)
def test_decrypted_output_is_private_and_overwritten_only_with_force(
    words: tuple[object, ...], tmp_path: Path
) -> None:
    (out,) = [tmp_path / str(word) for word in words if str(word).startswith("out.")]
    assert msgrlab(tmp_path, *words).is_orderly
    assert (mode(out), out.stat().st_size > 1000) == (0o600, True)
    before = out.read_bytes()
    again = msgrlab(tmp_path, *words)
    assert (again.code, again.err.count("\n"), "exists already" in again.err) == (2, 1, True)
    assert out.read_bytes() == before
    if words[0] != "wireshark":
        out.chmod(0o644)
        assert msgrlab(tmp_path, *words, "--force").is_orderly
        assert mode(out) == 0o600


@pytest.mark.parametrize("words", DECRYPTED.values(), ids=DECRYPTED)
def test_outputs_follow_no_symbolic_link_of_another_user(words: tuple[object, ...], tmp_path: Path) -> None:
    (out,) = [tmp_path / str(word) for word in words if str(word).startswith("out.")]
    victim = tmp_path / "victim"
    out.symlink_to(victim)  # dangling: a program that follows it creates the victim
    outcome = msgrlab(tmp_path, *words)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert not victim.exists()


def test_written_captures_are_private(tmp_path: Path) -> None:
    with PcapngWriter(tmp_path / "new.pcapng") as writer:
        writer.secrets("keys")
    export_capture(CAPTURE, tmp_path / "plain.pcapng", KeyBook.read([KEYRING]))
    assert {mode(path) for path in tmp_path.glob("*.pcapng")} == {0o600}


def test_the_dissector_is_written_through_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "msgr2.lua").symlink_to(victim)
    write_dissector(tmp_path)
    assert not victim.exists()
    assert not (tmp_path / "msgr2.lua").is_symlink()
