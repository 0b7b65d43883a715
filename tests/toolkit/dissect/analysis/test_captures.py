"""The analysis of conversations of real daemons in captures/."""

import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.dissect.capture import Capture

CAPTURES = Path(__file__).parents[4] / "captures"
ALL = sorted(keyring.parent.name for keyring in CAPTURES.glob("*/keyring"))
CUT = sorted(folder.name for folder in CAPTURES.glob("*-osds*"))
"""Two OSDs, whose link is cut while one has not read what the other sent."""


@cache
def capture(name: str) -> Capture:
    return Capture.folder(CAPTURES / name)


@pytest.mark.parametrize("name", CUT)
def test_a_session_that_was_cut_is_one_session_over_its_links(name: str) -> None:
    analysis = capture(name).analysis
    (cut,) = [session for session in analysis.sessions if len(session.links) > 1]
    assert {party.name for party in cut.parties} == {"osd.0", "osd.1"}
    assert all(link.ready_ns is not None for link in cut.links)
    resent = {party.name: party.outbox.resent for party in cut.parties if party.outbox.resent}
    assert len(resent) == 1, "what one OSD had not read is sent again"
    (seqs,) = resent.values()
    assert seqs == list(range(seqs[0], seqs[-1] + 1)), "replay is from the first that did not arrive, in order"
    for party in cut.parties:
        assert party.outbox.gaps == []
        for seq in party.outbox.resent:
            ack = party.outbox.ack_of(seq)
            assert ack is not None
            assert ack.stream == cut.links[-1].stream.index, "acknowledged on the link that replaced the first"


@pytest.mark.parametrize("name", CUT)
def test_where_lists_both_transmissions_of_a_resent_message(name: str) -> None:
    analysis = capture(name).analysis
    (cut,) = [session for session in analysis.sessions if len(session.links) > 1]
    (party,) = [party for party in cut.parties if party.outbox.resent]
    seq = party.outbox.resent[0]
    story = capture(name).where(seq, cut.index)
    own = story[story.index(f"{party.name} → {cut.other(party).name}, seq {seq}: ") :].splitlines()
    first, last = (link.stream.index for link in (cut.links[0], cut.links[-1]))
    assert f"stream {first}," in own[1]
    assert own[1].endswith(": sent")
    assert f"stream {last}," in own[2]
    assert own[2].endswith(": sent again")
    assert own[3].endswith(": acknowledged")


@pytest.mark.parametrize("name", ALL)
def test_invariants_hold_for_captures_of_real_daemons(name: str) -> None:
    assert [result for result in capture(name).check() if not result.ok] == []


@pytest.mark.parametrize("name", CUT)
def test_resent_requests_waited_for_the_resend(name: str) -> None:
    analysis = capture(name).analysis
    (cut,) = [session for session in analysis.sessions if len(session.links) > 1]
    silence_ns = (cut.links[-1].ready_ns or 0) - cut.links[0].stream.tcp.ended_ns
    requests = analysis.requests.all
    resent = [request for request in requests if request.session == cut.index and len(request.sent) > 1]
    assert resent
    for request in resent:
        waits = request.waits
        assert waits.longest == "resend"
        assert waits.resend_ns > silence_ns > 0
        assert waits.resend_ns + (waits.receipt_ns or 0) + (waits.answer_ns or 0) == request.latency_ns
    assert [request.ahead for request in resent] == list(range(len(resent))), "the client wrote them at once"
    slow = [request for request in requests if request.name == "osd_op" and (request.latency_ns or 0) > silence_ns]
    through = [below for request in slow if (below := analysis.requests.below(request))]
    assert through
    assert set(through) <= set(resent), "the replicated writes waited for the session that was cut"


@pytest.mark.parametrize("name", CUT)
def test_every_reply_finds_its_request(name: str) -> None:
    frames, analysis = capture(name).frames, capture(name).analysis
    replies = [frame for frame in frames if frame.message and frame.message.name == "osd_op_reply"]
    found = [pair for pair in analysis.exchanges if pair.reply == "osd_op_reply"]
    assert len(found) == len({(frame.stream.index, frame.message.tid) for frame in replies if frame.message})
    assert all(pair.request == "osd_op" and pair.latency_ns > 0 for pair in found)


@pytest.mark.parametrize("name", CUT)
def test_tables_agree_with_the_frames(name: str) -> None:
    frames, analysis = capture(name).frames, capture(name).analysis
    sent = sum(frame.message is not None for frame in frames)
    assert analysis.message_table()["sent"].sum() == sent
    assert analysis.batch_table()["frames"].sum() == len(frames)
    traffic = analysis.traffic_table(0.1)
    assert traffic["bytes"].sum() == sum(frame.length for frame in frames)
    links = analysis.handshake_table().dropna(subset="ready_ms")
    parts = links[["banner_ms", "auth_ms", "ident_ms"]].sum(axis=1)
    assert (parts - links["ready_ms"]).abs().max() < 1e-6, "the phases make up the handshake"


@pytest.mark.parametrize("name", CUT)
def test_charts_and_timelines_show_the_links_of_a_session(name: str) -> None:
    (cut,) = [session for session in capture(name).analysis.sessions if len(session.links) > 1]
    chart = ET.fromstring(capture(name).chart(cut.index).svg())
    words = {element.text for element in chart.iter() if element.text}
    assert {"osd.0", "osd.1"} <= words
    assert not {word for word in words if word.startswith("mon.")}
    lanes = ET.fromstring(capture(name).timeline.svg())
    labels = " ".join(element.text or "" for element in lanes.iter())
    for link in capture(name).analysis.links:
        assert f"stream {link.stream.index} " in labels
    assert capture(name).path.name in capture(name)._repr_html_()


def test_without_keys_there_are_links_and_no_messages() -> None:
    (name,) = [name for name in CUT if name.startswith("pacific") and not name.endswith("v1")]
    closed = Capture(CAPTURES / name / "capture.pcapng.gz")
    assert closed.analysis.links
    assert closed.analysis.message_table().empty
    assert closed.problem
    assert closed.where(1) == "no message with seq 1"
    with pytest.raises(LocalError, match="no session 5; the capture has none"):
        closed.chart(5)
    with pytest.raises(LocalError, match="bin_s 0"):
        closed.analysis.traffic_table(0)
