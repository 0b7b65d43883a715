import json
import re
from pathlib import Path

import pytest

from tests.support.crafted import Connection, Peers, Tape, exchange
from toolkit.cli.main import run as msgrlab

CAPTURES = Path(__file__).parents[3] / "captures"
FOLDER = CAPTURES / "pacific-osds"
CAPTURE = [str(FOLDER / "capture.pcapng.gz"), "--keyring", str(FOLDER / "keyring")]


def test_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["analyze", *CAPTURE]) == 0
    shown = capsys.readouterr()
    for title in ("Sessions", "Handshakes", "Requests and replies", "Frames per packet"):
        assert title in shown.out
    assert "osd_repop_reply" in shown.out
    assert shown.err == ""


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["analyze", *CAPTURE, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (cut,) = [session for session in answer["sessions"] if len(session["streams"]) > 1]
    assert cut["resent"] > 0
    assert cut["missing"] == 0
    assert (answer["problem"], answer["violations"]) == (None, [])


def test_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["analyze", *CAPTURE, "--where", "1", "--session", "2"]) == 0
    assert capsys.readouterr().out.startswith("session 2, ")
    assert msgrlab(["analyze", *CAPTURE, "--where", "99999"]) == 0
    assert capsys.readouterr().out == "no message with seq 99999\n"


def test_audit(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["analyze", *CAPTURE, "--audit"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"^ +\d+ +0  seq_step: ", shown.out, re.MULTILINE)
    assert "\n  v1_challenge: no frame of it has passed\n" in shown.out, "never a tick for nothing judged"
    assert (shown.out.count("Violations"), shown.err) == (0, "")


def test_audit_of_a_peer_that_breaks_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = Tape()
    link = Connection(tape).open()
    link.play([*Peers(client_cookie=7, server_cookie=9).begin(), *exchange(1), *exchange(1)])
    file = str(tape.write(tmp_path / "twice.pcap"))
    assert msgrlab(["analyze", file, "--audit"]) == 1
    shown = capsys.readouterr()
    line = r"^  frame \d+, client.4100/0: seq 1 is sent after seq 1 \(seq_step\)$"
    assert re.search(line, shown.out, re.MULTILINE)
    assert shown.err.count("\n") == 1
    assert msgrlab(["analyze", file, "--audit", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (rule,) = [rule for rule in found["rules"] if rule["id"] == "seq_step"]
    assert (rule["judged"], rule["broken"], rule["section"], rule["side"]) == (2, 2, ["3.6", "4.8"], "both")
    assert {each["rule"] for each in found["violations"]} >= {"seq_step"}
    assert all(isinstance(each["frame"], int) for each in found["violations"])
    assert "signed" in {each["id"] for each in found["not_judged"]}


def test_analyze_without_the_keys_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["analyze", CAPTURE[0]]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("msgrlab: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze", "/nonexistent.pcap"], "No such file"),
        (["analyze", __file__], "neither pcap nor pcapng"),
        (["analyze", *CAPTURE, "--session", "1"], "--session needs --where"),
        (["analyze", *CAPTURE, "--where", "1", "--session", "777"], "no session 777; they go from 0 to"),
        (["analyze", *CAPTURE, "--where", "1", "--audit"], "--audit and --where SEQ exclude each other"),
        (["chart", *CAPTURE, "--timeline"], "--timeline needs -o FILE.svg"),
        (["chart", *CAPTURE, "-o", "chart.png"], "must end in .svg or .html"),
        (["chart", *CAPTURE, "--force"], "--force needs -o"),
        (["chart", "/nonexistent.pcap", "-o", "/nonexistent/page.html"], "there is no folder /nonexistent"),
        (["chart", "run.ndjson", "--timeline", "-o", "x.svg"], "No such file"),
    ],
)
def test_impossible_input_is_one_error_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(arguments) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1


def test_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["chart", *CAPTURE]) == 0
    assert "MESSAGE osd_op" in capsys.readouterr().out
    for name, words in ("frames.svg", "<svg"), ("page.html", "<h1>capture.pcapng.gz</h1>"):
        out = tmp_path / name
        assert msgrlab(["chart", *CAPTURE, "-o", str(out)]) == 0
        assert words in out.read_text(encoding="utf-8")
    before = out.read_text(encoding="utf-8")
    assert msgrlab(["chart", *CAPTURE, "-o", str(out), "--timeline"]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert msgrlab(["chart", "not read yet.pcap", "-o", str(out)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == before
    assert msgrlab(["chart", *CAPTURE, "-o", str(out), "--timeline", "--force"]) == 0
    assert out.read_text(encoding="utf-8") != before


def test_the_timeline_of_a_session_has_its_links_alone(tmp_path: Path) -> None:
    def sessions_in(*arguments: str) -> set[str]:
        out = tmp_path / "timeline.svg"
        assert msgrlab(["chart", *CAPTURE, "--timeline", "-o", str(out), "--force", *arguments]) == 0
        return set(re.findall(r"session (\d+) ·", out.read_text(encoding="utf-8")))

    assert {"0", "1"} < sessions_in()
    assert sessions_in("--session", "1") == {"1"}


def test_chart_of_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import toolkit

    history = tmp_path / "run.ndjson"
    toolkit.run("standby").history.save(history)
    assert msgrlab(["chart", str(history)]) == 0
    assert "STANDBY" in capsys.readouterr().out
    assert msgrlab(["chart", str(history), "--session", "1"]) == 2
    assert "need a capture, not a history" in capsys.readouterr().err
