"""The place of the installed dissector; Wireshark finds it there."""

import os
import subprocess
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.dissect.wireshark import install
from toolkit.dissect.wireshark.dissector import dissector
from toolkit.dissect.wireshark.install import install_dissector, plugin_folder, write_dissector


def test_a_file_or_a_folder(tmp_path: Path) -> None:
    assert write_dissector(tmp_path) == tmp_path / "msgr2.lua"
    assert write_dissector(tmp_path / "other.lua").read_text(encoding="utf-8") == dissector()
    (tmp_path / "other.lua").write_text(dissector()[:300], encoding="utf-8")
    assert write_dissector(tmp_path / "other.lua").read_text(encoding="utf-8") == dissector()


def test_write_dissector_does_not_overwrite_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text("-- mine\n", encoding="utf-8")
    with pytest.raises(LocalError, match=r"mine\.lua exists and is not a dissector"):
        write_dissector(tmp_path / "mine.lua")
    assert (tmp_path / "mine.lua").read_text(encoding="utf-8") == "-- mine\n"
    with pytest.raises(LocalError, match="cannot be written: No such file or directory"):
        write_dissector(tmp_path / "none" / "x.lua")


@pytest.mark.needs("tshark")
def test_wireshark_loads_what_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    path = install_dissector()
    assert path.is_relative_to(tmp_path)
    protocols = subprocess.run(["tshark", "-G", "protocols"], capture_output=True, text=True, check=True)
    assert "Ceph Messenger v2\tMSGR2\tmsgr2" in protocols.stdout


def test_plugin_folder_has_a_default_without_wireshark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.devnull)
    assert plugin_folder() == tmp_path / ".local/lib/wireshark/plugins"
    program = tmp_path / "tshark"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert plugin_folder() == tmp_path / ".local/lib/wireshark/plugins"
    assert install.install_dissector().exists()
