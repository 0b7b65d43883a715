"""The side that ended a connection, and the trouble before: crafted captures with a known cause."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, exchange, msg
from tests.support.packets import ACK, FIN, PSH, RST, SYN
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.capture import Capture
from toolkit.dissect.conduct import Outcome

Play = Callable[[Tape], None]


def opened(tape: Tape) -> Connection:
    return Connection(tape).open().play(Peers().begin()).play(exchange(2))


def by_fin(tape: Tape) -> None:
    opened(tape).close(TO_CLIENT)


def by_reset(tape: Tape) -> None:
    opened(tape).reset(TO_CLIENT)


def by_reset_before_a_fin(tape: Tape) -> None:
    connection = opened(tape)
    connection.reset(TO_CLIENT)
    connection.packet(TO_SERVER, FIN | ACK)


def by_fin_before_a_reset(tape: Tape) -> None:
    connection = opened(tape)
    connection.packet(TO_SERVER, FIN | ACK)
    connection.reset(TO_CLIENT)


def by_middlebox(tape: Tape) -> None:
    opened(tape).reset(TO_CLIENT, ttl=255)


def by_nobody(tape: Tape) -> None:
    opened(tape)


def by_silence(tape: Tape) -> None:
    opened(tape)
    tape.wait(20)
    Connection(tape, "10.0.0.3:41000").open()


def end_of(play: Play, path: Path) -> tuple[str, str]:
    tape = Tape()
    play(tape)
    row = Capture(tape.write(path / "end.pcap")).analysis.end_table().iloc[0]
    return row["outcome"], row["ended"]


@pytest.mark.parametrize(
    ("play", "outcome", "words"),
    [
        (by_fin, Outcome.CLOSED, "osd.0 closed it first (FIN)"),
        (by_reset, Outcome.RESET, "osd.0 reset it (RST)"),
        (by_reset_before_a_fin, Outcome.RESET, "osd.0 reset it (RST)"),
        (by_fin_before_a_reset, Outcome.RESET, "client.4100 closed it (FIN), then osd.0 reset it (RST)"),
        (
            by_middlebox,
            Outcome.RESET,
            "something between reset it in the name of osd.0 (RST): its TTL is 255, that of the end's packets 61",
        ),
        (by_nobody, Outcome.OPEN, "open at the end of the capture"),
        (by_silence, Outcome.SILENT, "open, silent for the last 20.0 s of the capture"),
    ],
)
def test_conduct_names_the_end_of_a_link(play: Play, outcome: str, words: str, tmp_path: Path) -> None:
    assert end_of(play, tmp_path) == (outcome, words)


def test_refused_and_unanswered_connects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = Tape()
    refused = Connection(tape, "10.0.0.1:40001", "10.0.0.3:6805")
    refused.packet(TO_SERVER, SYN)
    refused.packet(TO_CLIENT, RST | ACK)
    silent = Connection(tape, "10.0.0.1:40002", "10.0.0.4:6805")
    for _ in range(3):
        silent.packet(TO_SERVER, SYN, sequence=1000)
        tape.wait(1)
    Connection(tape, "10.0.0.1:40003", "10.0.0.4:22").packet(TO_SERVER, SYN)  # no messenger's port
    path = tape.write(tmp_path / "connects.pcap")
    found = {failed.server: (failed.outcome, failed.ending) for failed in Capture(path).analysis.failed()}
    assert found == {
        "10.0.0.3:6805": (Outcome.REFUSED, "10.0.0.3:6805 refused it (RST)"),
        "10.0.0.4:6805": (Outcome.UNANSWERED, "10.0.0.4:6805 did not answer 3 SYNs within 2.0 s"),
    }
    for command in ("decode", "analyze", "explain"):
        msgrlab([command, str(path)])
        shown = capsys.readouterr().out
        assert "10.0.0.4:6805 did not answer 3 SYNs" in shown, command
        assert "10.0.0.4:22" not in shown


@pytest.mark.parametrize("link_is_busy", [False, True], ids=["one by one", "whole columns"])
def test_repeated_segments_and_zero_windows(*, link_is_busy: bool, tmp_path: Path) -> None:
    tape = Tape()
    one = opened(tape)
    if link_is_busy:  # steady in batches of its own: the columns of many packets are read at once
        for _ in range(1500):
            one.play(exchange(1, first_tid=1000))
    raw = exchange(1)[0][1]
    first = one.sequences[TO_SERVER]
    one.packet(TO_SERVER, PSH | ACK, raw)
    one.packet(TO_SERVER, PSH | ACK, raw, sequence=first)
    one.packet(TO_CLIENT, ACK, window=0)
    tape.add(tape.packets[-1][1])  # seen twice, as on the interface "any"
    one.packet(TO_CLIENT, ACK)
    (link,) = Capture(tape.write(tmp_path / "trouble.pcap")).analysis.links
    assert link.stream.tcp.repeats == [1, 0]
    assert link.stream.tcp.zero_windows[1] >= 1


def test_bytes_after_a_fin_are_trouble_and_end_the_verdict(tmp_path: Path) -> None:
    tape = Tape()
    one = opened(tape)
    one.packet(TO_CLIENT, FIN | ACK)
    one.sequences[TO_CLIENT] -= 1
    one.play([(TO_CLIENT, msg(4)), (TO_SERVER, msg(4, ack=4))])
    capture = Capture(tape.write(tmp_path / "fin.pcap"))
    (link,) = capture.analysis.links
    assert link.stream.tcp.trouble("the client", "the server") == "the server sent 1 segment after its FIN"
    assert capture.audit().broken == []


def test_a_capture_that_has_each_packet_twice_has_no_repetitions(tmp_path: Path) -> None:
    tape = Tape()
    opened(tape).close()
    tape.packets = [pair for pair in tape.packets for _ in range(2)]
    (link,) = Capture(tape.write(tmp_path / "any.pcap")).analysis.links
    assert link.stream.tcp.trouble("a", "b") == ""
    assert link.messages == 4


def test_the_end_is_in_the_table_and_in_the_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = Tape()
    by_reset(tape)
    path = str(tape.write(tmp_path / "reset.pcap"))
    assert msgrlab(["decode", path]) == 0
    assert "link 0 ended at 0.000" in (shown := capsys.readouterr().out)
    assert "10.0.0.2:6800 reset it (RST)" in shown
    msgrlab(["chart", path])
    assert "[RST] osd.0 reset it (RST)" in capsys.readouterr().out


def test_a_capture_of_real_daemons_whose_link_was_reset() -> None:
    folder = Path(__file__).parents[3] / "captures" / "reef-osds"
    table = Capture.folder(folder).analysis.end_table().set_index("stream")
    assert table.loc[6, "ended"] == "osd.0 reset it (RST)"
    assert 0.3 < table.loc[6, "ended_s"] < 0.4
    assert set(table.loc[table["outcome"] == "reset"].index) == {6}


def acknowledged(tape: Tape, path: Path) -> tuple[int, int]:
    """Return the bytes of client and server that have arrived according to the capture."""
    tcp = Capture(tape.write(path / "acknowledged.pcap")).analysis.links[0].stream.tcp
    return tcp.acknowledged[tcp.client_side], tcp.acknowledged[1 - tcp.client_side]


def test_bytes_that_never_arrived(tmp_path: Path) -> None:
    tape = Tape()
    connection = opened(tape)
    arrived = connection.sequences[TO_SERVER] - 1001, connection.sequences[TO_CLIENT] - 5001
    connection.packet(TO_SERVER, PSH | ACK, b"into the void")
    connection.sequences[TO_SERVER] -= len(b"into the void")
    connection.reset(TO_CLIENT)
    assert acknowledged(tape, tmp_path) == arrived


def test_conduct_counts_bytes_acknowledged_before_the_end(tmp_path: Path) -> None:
    tape = Tape()
    connection = opened(tape)
    connection.close(TO_CLIENT)
    sizes = connection.sequences[TO_SERVER] - 1002, connection.sequences[TO_CLIENT] - 5002
    assert acknowledged(tape, tmp_path) == sizes


def test_acknowledgements_of_an_orderly_connection_count_too(tmp_path: Path) -> None:
    """Packets of a later batch, none of which is looked at by itself."""
    tape = Tape()
    connection = opened(tape).play([(TO_SERVER, msg(3, data=bytes(3 << 20))), (TO_CLIENT, msg(3))] * 2)
    sizes = connection.sequences[TO_SERVER] - 1001, connection.sequences[TO_CLIENT] - 5001
    assert acknowledged(tape, tmp_path) == sizes
