"""Sessions of captures as scenarios: they pass as saved, and name the step at which a changed one fails."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import toolkit
from tests.support.clusters import ROOT
from toolkit.cli.main import run as msgrlab
from toolkit.replay import NOTHING_PASSED, Role, replay_capture

RESUMED = {"pacific-osds": 8, "reef-osds-v1": 8}
"""Captures, and the sessions in them that are resumed after a cut; of both protocols."""


class Case(NamedTuple):
    path: Path
    name: str

    def change(self, old: str, new: str) -> None:
        """Replace the only occurrence of a step."""
        text = self.path.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        self.path.write_text(text.replace(old, new), encoding="utf-8")

    def complaint(self) -> str:
        """Return the failure of the scenario as the file is now; empty if it passes."""
        text = self.path.read_text(encoding="utf-8")
        way = re.findall(r'ways=\["([^"]*)"', text)[0]
        protocol, _, mode = way.partition("-")
        found = toolkit.run(f"{self.path}::{self.name}", mode=mode or "crc", protocol=protocol)
        return "; ".join(found.complaints)


@cache
def files_of(capture: str, role: Role, session: int) -> dict[str, str]:
    """The files that saving makes, by name."""
    from tempfile import TemporaryDirectory

    folder = ROOT / "captures" / capture
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "mine.py"
        result = replay_capture(
            folder / "capture.pcapng.gz", role, [folder / "keyring"], session=session, save=path
        )
        assert [each.problem for each in result.saved] == [""]
        return {file.name: file.read_text(encoding="utf-8") for file in Path(scratch).iterdir()}


def saved(directory: Path, capture: str, role: Role = Role.CLIENT) -> Case:
    """The resumed session of a capture as a scenario in a directory."""
    for name, text in files_of(capture, role, RESUMED[capture]).items():
        (directory / name).write_text(text, encoding="utf-8")
    path = directory / "mine.py"
    return Case(path, re.findall(r"^def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)[0])


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("capture", RESUMED)
def test_a_saved_session_passes_with_its_links_and_frames(capture: str, role: Role, tmp_path: Path) -> None:
    case = saved(tmp_path, capture, role)
    assert case.complaint() == ""
    text = case.path.read_text(encoding="utf-8")
    assert len(re.findall(r"(node|peer)_dials\(\)", text)) == 2
    assert sorted(path.name for path in tmp_path.glob("*.ndjson")) == ["mine-8.ndjson"]


def test_a_message_that_the_peer_does_not_send_is_missed_by_the_next_acknowledgement(tmp_path: Path) -> None:
    case = saved(tmp_path, "pacific-osds")
    case.change("    session.peer_sends(183, 184, 186)  # ACK, osd_map, pg_info2\n", "")
    line = case.path.read_text(encoding="utf-8").split("session.peer_receives(187)")[0].count("\n") + 1
    complaint = case.complaint()
    assert f"mine.py:{line}: " in complaint
    assert "frame 187 (ACK): messages up to 3 acknowledged by a; it has acknowledged 1" in complaint


def test_scenario_refuses_to_receive_a_frame_that_no_step_sends(tmp_path: Path) -> None:
    case = saved(tmp_path, "pacific-osds")
    case.change("    session.node_sends(177)  # pg_notify2\n", "")
    assert "frame 177 (pg_notify2): no earlier step makes a send it" in case.complaint()


def test_a_lossless_session_survives_a_cut_that_the_record_does_not_have(tmp_path: Path) -> None:
    case = saved(tmp_path, "pacific-osds")
    case.change(
        "    session.peer_receives(181)  # pg_notify2\n",
        "    session.peer_hangs_up()\n    session.node_dials()\n    session.peer_receives(181)  # pg_notify2\n",
    )
    assert case.complaint() == ""


def test_the_verbs_of_the_lab_work_between_the_steps(tmp_path: Path) -> None:
    case = saved(tmp_path, "pacific-osds")
    step = "    session.node_sends(181)  # pg_notify2\n"
    case.change(step, f'    lab.send("a", "b", count=2)\n{step}')
    assert case.complaint() == ""


def test_frame_that_waits_for_a_link_has_a_comment(tmp_path: Path) -> None:
    case = saved(tmp_path, "pacific-osds")
    case.change("    session.at(1.345)\n    session.peer_dials()  # link 13\n", "")
    assert "no link is open here" in case.complaint()


def test_messages_in_another_order_are_found(tmp_path: Path) -> None:
    """Sequence numbers are the record's, so the second of the two is one that the node has had."""
    case = saved(tmp_path, "pacific-osds")
    case.change("peer_sends(283, 284, 285, 286, 287)", "peer_sends(284, 283, 285, 286, 287)")
    assert "frame 28" in case.complaint()


def test_frames_that_are_missing_beside_the_file_are_named(tmp_path: Path) -> None:
    case = saved(tmp_path, "pacific-osds")
    (tmp_path / "mine-8.ndjson").unlink()
    assert re.search(r"mine-8.ndjson: .* must be next to the scenario", case.complaint())


def test_replay_save_writes_passing_scenarios_without_overwriting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = ROOT / "captures" / "tentacle-none", tmp_path / "mine.py"
    line = ["replay", f"{folder}/capture.pcapng.gz", "--as", "client", "--save"]
    assert msgrlab([*line, f"{path}"]) == 0
    output = capsys.readouterr().out
    scenarios = re.findall(rf"^saved ({path}::\w+), \d+ steps", output, re.MULTILINE)
    assert len(scenarios) >= 3
    monkeypatch.chdir(tmp_path)
    assert msgrlab(["run", "mine.py"]) == 0
    assert capsys.readouterr().out.count("passed") == len(scenarios)
    before = path.read_text(encoding="utf-8")
    assert msgrlab([*line, f"{path}"]) == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == before
    assert msgrlab([*line, f"{tmp_path}/mine.txt"]) == 2


def test_sessions_without_messages_are_not_saved(tmp_path: Path) -> None:
    folder = ROOT / "captures" / "pacific-osds"
    result = replay_capture(
        folder / "capture.pcapng.gz", Role.CLIENT, [folder / "keyring"], session=4, save=tmp_path / "mine.py"
    )
    assert [each.problem for each in result.saved] == [NOTHING_PASSED]
    assert list(tmp_path.iterdir()) == []
