"""``msgrlab explain`` and ``msgrlab requests``: what a person with a broken cluster opens first."""

import json
import re
from pathlib import Path

import pytest

from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, exchange
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.analysis.requests import Request, Requests
from toolkit.report.html import Provenance
from toolkit.report.sentences import render_sentences

FOLDER = Path(__file__).parents[3] / "captures" / "reef-osds"
CAPTURE = [str(FOLDER / "capture.pcapng.gz"), "--keyring", str(FOLDER / "keyring")]


def requests(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert msgrlab(["requests", *CAPTURE, "--json", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_page_explains_the_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["explain", *CAPTURE]) == 0
    page = capsys.readouterr().out
    assert "osd.0 reset it (RST); the session went on with stream 12, 177.2 ms later." in page
    assert "osd.0 and osd.1: encrypted, v2.1 secure mode, AES-128-GCM" in page
    assert "seqs 9 to 13 were sent again after a reconnect (frames 289 to 293, session 5)" in page
    assert "the reply took 233.6 ms (frames 265 to 300); meanwhile osd_repop tid 2 to osd.0 took 232.2 ms" in page
    assert "sent 2 times (frames 267, 289 to 295); 231.6 ms of it until it was sent again." in page
    assert len(page.splitlines()) < 60


def test_of_many_slow_requests_only_those_that_are_shown_are_looked_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    below = Requests.below
    monkeypatch.setattr(Requests, "below", lambda self, request: asked.append(request) or below(self, request))
    tape = Tape()
    link = Connection(tape, "10.0.0.1:40000").open().play(Peers().begin())
    script = exchange(40)
    for number, (request, reply) in enumerate(zip(script[::2], script[1::2], strict=True)):
        link.play([request])
        tape.wait(0.1 + number / 100)
        link.play([reply])
    link.close()
    assert msgrlab(["explain", str(tape.write(tmp_path / "slow.pcap"))]) == 0
    page = capsys.readouterr().out
    assert "osd_op tid 40: the reply took 490.0 ms" in page
    assert "osd_op tid 28: the reply took" not in page
    assert "and 28 more" in page
    assert [request.tid for request in asked] == list(range(40, 28, -1))


def test_html_page_links_each_frame_and_stream_to_its_row(tmp_path: Path) -> None:
    path = tmp_path / "explained.html"
    assert msgrlab(["explain", *CAPTURE, "--html", str(path)]) == 0
    page = path.read_text(encoding="utf-8")
    for start, stop in (("What broke", "What was late"), ("What was late", "Frames")):
        for sentence in page[page.index(f">{start}") : page.index(f">{stop}")].split("<li>")[1:]:
            assert '<a href="#' in sentence
    links = set(re.findall(r'href="#((?:frame|stream)-\d+)"', page))
    rows = re.findall(r'id="((?:frame|stream)-\d+)"', page)
    assert links == set(rows)
    assert len(rows) == len(set(rows))
    assert 'id="frame-289"' in page
    assert "osd_repop · seq 9 · tid 2" in page
    assert msgrlab(["explain", *CAPTURE, "--html", str(path)]) == 0, "a report is replaced"


def test_html_page_escapes_what_a_capture_contains(tmp_path: Path) -> None:
    lines = ["first", "", "What broke", "  <script>alert(1)</script> (frame 7, stream 1)."]
    page = render_sentences(lines, [], [], "<b>", Provenance("msgrlab", "1", "today"))
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; (frame 7, stream 1)." in page, "no link leads to a missing row"


def test_a_link_in_crc_mode_is_not_encrypted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = Tape()
    Connection(tape).open().play([*Peers().begin(), *exchange(1)]).close()
    assert msgrlab(["explain", str(tape.write(tmp_path / "crc.pcap"))]) == 0
    page = capsys.readouterr().out
    assert "client.4100 and osd.0: NOT encrypted, v2.1 crc mode (stream 0; agreed in frame 5)" in page
    assert "Nothing: no reset, refusal or silence." in page


def test_requests_are_sorted_by_latency(capsys: pytest.CaptureFixture[str]) -> None:
    rows = requests(capsys)
    times = [row["latency_ms"] for row in rows]
    assert times == sorted(times, key=lambda ms: -ms)  # type: ignore[operator]
    resent = [row for row in rows if row["sent"] == 2]
    assert {row["request"] for row in resent} == {"osd_repop"}
    assert all(row["streams"] == [6, 12] for row in resent)
    assert requests(capsys, "--where", 'waited_for == "resend"') == resent
    slow = next(row for row in rows if row["request"] == "osd_op")
    assert (slow["object"], slow["pg"], slow["op"], slow["result"]) == ("object", "1.0", "WRITEFULL", 0)


def test_each_request_names_the_frames_of_its_transmissions_and_of_its_reply(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = requests(capsys)
    (again,) = (row for row in rows if (row["request"], row["client"], row["tid"]) == ("osd_repop", "osd.1", 2))
    assert (again["frame"], again["reply_frame"], again["frames"]) == (267, 295, [267, 289, 295])
    assert requests(capsys, "--where", "reply_frame == 295") == [again]
    assert msgrlab(["requests", *CAPTURE, "--where", "frame == 267"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    at = heading.index(" frames ") + 1
    assert line[at:].split("  ")[0] == "267 289"
    assert line[heading.index("reply frame") :].startswith("295 ")


def test_requests_are_found_by_an_expression(capsys: pytest.CaptureFixture[str]) -> None:
    rows = requests(capsys)
    assert requests(capsys, "--where", "resent") == [row for row in rows if row["sent"] != 1] != []
    slow = requests(capsys, "--where", 'name == "osd_op" and latency_s > 0.1 and object == "object"')
    assert {(row["request"], row["object"]) for row in slow} == {("osd_op", "object")}
    assert all(row["latency_ms"] > 100 for row in slow)  # type: ignore[operator]
    assert requests(capsys, "--filter", "11 in streams") == [row for row in rows if 11 in row["streams"]]  # type: ignore[operator]
    assert requests(capsys, "--where", "tid == 0") == []
    assert len(requests(capsys, "--limit", "2")) == 2
    tids = [row["tid"] for row in requests(capsys, "--sort", "tid")]
    assert tids == sorted(tids)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("foo == 1", "no name 'foo' (a text takes quotes: 'foo'); there are tid, request, object,"),
        ("object.size > 1", "no name has parts, so .size leads nowhere"),
        ("tid = 1", "column 5: invalid syntax"),
        ("9", "9 alone asks nothing"),
    ],
)
def test_requests_refuses_invalid_expressions(
    expression: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(["requests", CAPTURE[0], "--where", expression]) == 2
    assert problem in capsys.readouterr().err


def test_a_request_without_a_reply_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = Tape()
    link = Connection(tape).open().play([*Peers().begin(), *exchange(2)])
    link.play(exchange(3)[4:5])
    path = tape.write(tmp_path / "open.pcap")
    assert msgrlab(["requests", str(path), "--json"]) in {0, 1}
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["tid"], first["latency_ms"], first["reply"]) == (3, None, None)
    sent_in = len(Peers().begin()) + 4
    assert (first["frame"], first["reply_frame"], first["frames"]) == (sent_in, None, [sent_in])
    msgrlab(["requests", str(path)])
    shown = capsys.readouterr().out.splitlines()[1]
    assert "no reply" in shown
    assert f" {sent_in} " in shown


def test_a_request_that_went_to_another_server_is_one_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = Tape()
    asked, answered = exchange(1)
    Connection(tape).open().play([*Peers().begin(), asked]).reset(TO_CLIENT)
    tape.wait(0.1)
    other = Peers(server="10.0.0.3:6800/23")
    second = Connection(tape, "10.0.0.1:40001", "10.0.0.3:6800").open().play(other.begin(global_seq=2))
    second.play([asked, answered])
    msgrlab(["requests", str(tape.write(tmp_path / "moved.pcap")), "--json"])
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["sent"], row["streams"]) == (2, [0, 1])
    assert row["latency_ms"] > 100
    assert asked[0] is TO_SERVER


def test_a_wrong_sort_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["requests", *CAPTURE, "--sort", "colour"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_request_has_its_reply_though_the_capture_is_snapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the names of the peers nor the contents of the messages are there."""
    tape = Tape()
    Connection(tape).open().play([*Peers().begin(), *exchange(2)]).close()
    whole = tape.write(tmp_path / "whole.pcap").read_bytes()
    snapped, at = [whole[:24]], 24
    while at < len(whole):
        size = int.from_bytes(whole[at + 8 : at + 12], "little")
        kept = min(size, 54 + 80)
        snapped.append(whole[at : at + 8] + kept.to_bytes(4, "little") + whole[at + 12 : at + 16 + kept])
        at += 16 + size
    path = tmp_path / "snapped.pcap"
    path.write_bytes(b"".join(snapped))
    assert msgrlab(["requests", str(path), "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["request"], row["reply"]) for row in rows} == {("osd_op", "osd_op_reply")}
