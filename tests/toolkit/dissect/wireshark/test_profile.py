"""The profile and the expert infos, as tshark takes them."""

import os
from pathlib import Path

import pytest

from messenger.v2.wire import SessionReset, SessionRetry
from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, control, msg
from tests.support.wireshark import rows, tshark
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.wireshark.capture_export import export_capture
from toolkit.dissect.wireshark.profile import COLOURS, COLUMNS

CAPTURES = Path(__file__).parents[4] / "captures"
EXPERTS = ("msgr2.expert.order", "msgr2.expert.reset", "msgr2.expert.refused", "msgr2.expert.resumed")


@pytest.mark.needs("tshark")
def test_violations_refusals_and_resets_are_expert_infos(tmp_path: Path) -> None:
    tape, peers = Tape(), Peers(client_cookie=0xC1, server_cookie=0x51)
    first = Connection(tape).open().play(peers.begin())
    first.play([(TO_SERVER, msg(seq)) for seq in (1, 2, 4, 4)])
    first.play([(TO_CLIENT, msg(1)), (TO_CLIENT, msg(2))])
    second = Connection(tape, "10.0.0.1:40001").open().play(peers.resume(2, 1, (2, 1)))
    second.play([(TO_SERVER, msg(2))])  # sent again: the first of its stream
    Connection(tape, "10.0.0.1:40002").open().play([*peers.begin()[:-1], (TO_CLIENT, control(SessionRetry(3)))])
    Connection(tape, "10.0.0.1:40003").open().play(
        [*peers.begin()[:-1], (TO_CLIENT, control(SessionReset(full=True)))]
    )
    path = tape.write(tmp_path / "crafted.pcap")
    found = [
        (int(stream[0]), *map(len, marks)) for stream, *marks in rows(path, "tcp.stream", *EXPERTS) if any(marks)
    ]
    assert found == [(0, 1, 0, 0, 0), (0, 1, 0, 0, 0), (1, 0, 0, 0, 1), (2, 0, 0, 1, 0), (3, 0, 1, 0, 0)]
    jumps = [text for row in rows(path, "_ws.expert.message") for text in row[0] if text.startswith("Seq")]
    assert [jump.split(":")[0] for jump in jumps] == ["Seq 4 follows 2", "Seq 4 follows 4"]


@pytest.mark.needs("tshark")
@pytest.mark.parametrize(("name", "resumed"), [("reef-crc", 0), ("reef-osds", 1)])
def test_captures_of_ceph_have_no_violation_marks(name: str, resumed: int, tmp_path: Path) -> None:
    folder, plain = CAPTURES / name, tmp_path / "plain.pcapng"
    export_capture(folder / "capture.pcapng.gz", plain, KeyBook.read([folder / "keyring"]))
    marks = [row for row in rows(plain, *EXPERTS) if any(row)]
    assert [len(row[3]) for row in marks] == [1] * resumed
    assert not any(row[0] or row[1] or row[2] for row in marks)


@pytest.mark.needs("tshark")
def test_the_profile_has_columns_and_colours_that_wireshark_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "config" / "profiles" / "ceph"
    assert msgrlab(["wireshark", "--profile", str(folder)]) == 0
    assert msgrlab(["wireshark", "--profile", str(folder)]) == 0  # what msgrlab wrote it may write again
    assert str(folder) in capsys.readouterr().out
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(tmp_path / "config"))
    capture = tmp_path / "capture.pcapng.gz"
    capture.write_bytes((CAPTURES / "reef-crc" / "capture.pcapng.gz").read_bytes())
    any_rule = " || ".join(f"({rule})" for _, rule, _, _ in COLOURS)
    shown = tshark(capture, "-C", "ceph", "-Y", any_rule, "-T", "tabs")
    line = next(line for line in shown.splitlines() if "MESSAGE osd_op seq 1" in line).split("\t")
    cells = dict(zip((title for title, _ in COLUMNS), (cell for cell in line if cell != "→"), strict=True))
    assert (cells["Message"], cells["Seq"], cells["CRC"]) == ("osd_op", "1", "Good")
    names = (folder / "colorfilters").read_text().splitlines()[1:]
    assert [name.split("@")[1] for name in names] == [name for name, *_ in COLOURS]
    assert all(name.count("[") == 2 for name in names)


def test_profile_does_not_replace_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "colorfilters").write_text("@mine@tcp@[0,0,0][1,1,1]\n")
    assert msgrlab(["wireshark", "--profile", str(tmp_path)]) == 2
    assert "it stays as it is" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["colorfilters"]  # noqa: PTH208 - names only
    assert msgrlab(["wireshark", "x.pcap", "--profile", str(tmp_path)]) == 2
    assert "--profile DIR cannot be combined with CAPTURE or other options" in capsys.readouterr().err
