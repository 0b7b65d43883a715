"""One link that was captured at two places, and two links that only look alike."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.crafted import TO_SERVER, Connection, Peers, Script, Tape, exchange
from tests.support.links import session
from toolkit.dissect.capture import Capture

LOSSLESS = Peers(client_cookie=7, server_cookie=9)


def proxied(script: Script, path: Path, *keys: Path) -> Capture:
    """Return a capture of both sides of a proxy."""
    tape = Tape()
    outer = Connection(tape).open()
    inner = Connection(tape, "10.0.0.9:41000", "10.0.0.2:6801").open()
    for step in script:
        first, second = (outer, inner) if step[0] is TO_SERVER else (inner, outer)
        first.play([step])
        second.play([step])
    outer.close()
    inner.close()
    return Capture(tape.write(path / "hops.pcap"), keys)


@pytest.mark.parametrize("peers", [LOSSLESS, Peers()], ids=["lossless", "lossy"])
def test_two_hops_are_one_session(peers: Peers, tmp_path: Path) -> None:
    capture = proxied([*peers.begin(), *exchange(3)], tmp_path)
    assert [result.violations for result in capture.check() if not result.ok] == []
    (one,) = capture.analysis.sessions
    assert [len(party.outbox.messages) for party in one.parties] == [3, 3]
    assert one.parties[0].outbox.resent == []
    assert capture.analysis.end_table()["hop_of"].tolist()[1] == 0
    assert len(capture.analysis.exchanges) == 3


@pytest.mark.parametrize("name", ["v1", "v2.1 secure"])
def test_hops_of_real_handshakes_without_keys(name: str, tmp_path: Path) -> None:
    analysis = proxied(session(name).script, tmp_path).analysis
    hops = {link.stream.index: link.hop_of and link.hop_of.stream.index for link in analysis.links}
    assert hops == {0: None, 1: 0}, "that of the connector counts"


def test_hops_of_a_resumed_session_are_one_link(tmp_path: Path) -> None:
    script = [*LOSSLESS.resume(2, 1, (3, 3)), *exchange(1)]
    (one,) = proxied(script, tmp_path).analysis.sessions
    assert len(one.links) == 1


def test_a_reconnect_is_no_hop(tmp_path: Path) -> None:
    tape = Tape()
    Connection(tape).open().play([*LOSSLESS.begin(), *exchange(2)]).reset(TO_SERVER)
    Connection(tape, "10.0.0.1:40001").open().play(LOSSLESS.resume(2, 1, (2, 2)))
    analysis = Capture(tape.write(tmp_path / "reconnect.pcap")).analysis
    assert [link.hop_of for link in analysis.links] == [None, None]
    assert [len(known.links) for known in analysis.sessions] == [2]


def test_a_cookie_that_two_sessions_share_is_still_a_violation(tmp_path: Path) -> None:
    tape = Tape()
    for number, peers in enumerate((LOSSLESS, replace(LOSSLESS, server_cookie=10))):
        link = Connection(tape, f"10.0.0.1:{40000 + number}").open()
        link.play([*peers.begin(global_seq=number + 1), *exchange(1)])
    violated = [result.id for result in Capture(tape.write(tmp_path / "twice.pcap")).check() if not result.ok]
    assert violated == ["wire_rules"]
