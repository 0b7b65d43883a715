"""Names of the ends of links that no frame of the link names."""

from pathlib import Path

from messenger.denc.entity import EntityType
from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, msg
from toolkit.dissect.capture import Capture


def test_a_link_without_messages_has_the_names_of_its_session(tmp_path: Path) -> None:
    peers = Peers(client_type=EntityType.OSD, gid=4, client_cookie=5, server_cookie=7)
    tape = Tape()
    Connection(tape).open().play([*peers.begin(), (TO_SERVER, msg(1)), (TO_CLIENT, msg(1))]).reset(TO_SERVER)
    resumed = peers.resume(global_seq=2, connect_seq=1, in_seqs=(1, 1))
    Connection(tape, client="10.0.0.1:40001").open().play(resumed).close()
    capture = Capture(tape.write(tmp_path / "resumed.pcap"))
    first, second = capture.analysis.links
    names = [first.name(way) for way in (TO_SERVER, TO_CLIENT)]
    assert names == ["osd.4", "osd.0"]
    assert [second.name(way) for way in (TO_SERVER, TO_CLIENT)] == names
    assert {record.node for record in capture.history().records} == set(names)
    assert [result for result in capture.check() if not result.ok] == []
