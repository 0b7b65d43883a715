"""Captures with lost, repeated, reordered or changed packets yield no violation: none of the originals has one."""

from pathlib import Path

import pytest

from messenger.denc.entity import EntityType
from messenger.v2.wire import KeepAlive2, KeepAlive2Ack
from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, control
from tests.support.damage import false_verdicts
from toolkit.dissect.capture import Capture


@pytest.mark.parametrize(
    ("name", "kind", "seed"),
    [
        ("reef-compressed", "flipped", 76727541),
        ("nautilus-daemons", "dropped", 2709900430),
        ("reef-compressed-lz4", "dropped", 3629328566),
        ("tentacle-none", "beginning", 815398389),
        ("nautilus-daemons", "snapped", 2325348894),
        ("pacific-osds", "snapped", 1689017785),
        ("nautilus-v1", "snapped", 159352783),
        ("tentacle-daemons", "reordered", 4277859672),
        ("reef-compressed", "reordered", 127114489),
        ("reef-compressed-lz4", "dropped", 3708715555),
        ("nautilus-crc", "flipped", 3157317323),  # a late status
        ("reef-compressed", "flipped", 3676590625),  # a late status
        ("tentacle-osds", "flipped", 3083695622),  # a frame between CLIENT_IDENT and SERVER_IDENT
        ("reef-none", "flipped", 3220062250),  # a segment that came later
        ("reef-osds", "reordered", 4042617784),
        ("nautilus-crc", "flipped", 2704019451),  # a SYN has a FIN
        ("tentacle-daemons", "flipped", 525581247),  # a FIN in the handshake
        ("reef-daemons", "flipped", 457093275),  # a FIN behind the handshake
        ("pacific-crc", "flipped", 1951525297),  # a FIN between messages
        ("tentacle-compressed", "flipped", 2178390726),  # a sequence number of a SYN
        ("pacific-none", "flipped", 3895228735),  # the first SYN has an ACK
        ("reef-osds", "file", 1024407148),  # the same
        ("reef-osds", "flipped", 1362698912),  # the answer to a SYN has no ACK
        ("tentacle-osds-v1", "dropped", 56653825),  # a RST before a FIN
        ("pacific-daemons", "dropped", 3203063337),  # bytes behind a hole that depend on the other direction
        ("pacific-osds-v1", "dropped", 3664916074),  # a direction begins behind the first gap of the other
        ("tentacle-daemons", "dropped", 2051974528),  # bytes that wait for a hole of the other direction
        ("tentacle-daemons", "mixed", 1843914916),  # a SERVER_IDENT that stands before its request
        ("reef-osds", "burst", 3437551469),  # the link on which a session began
        ("reef-osds", "burst", 1962608092),  # the last messages of a link, and its FIN
        ("reef-crc", "flipped", 728620358),  # a frame that is not read before another direction's
    ],
)
def test_damage_is_no_violation(tmp_path: Path, name: str, kind: str, seed: int) -> None:
    assert false_verdicts(tmp_path, name, kind, seed) == []


def test_a_keepalive_that_stands_behind_its_answer_is_no_violation(tmp_path: Path) -> None:
    tape = Tape()
    link = Connection(tape).open().play(Peers().begin())
    link.play([(TO_CLIENT, control(KeepAlive2Ack(7, 1)))])
    tape.wait(1)
    link.play([(TO_SERVER, control(KeepAlive2(7, 1)))])
    assert Capture(tape.write(tmp_path / "swapped.pcap")).audit().broken == []
    link.play([(TO_CLIENT, control(KeepAlive2Ack(7, 2)))])
    broken = Capture(tape.write(tmp_path / "wrong.pcap")).audit().broken
    assert [each.rule.id for each in broken] == ["keepalive_echo"]


@pytest.mark.parametrize(("late_s", "is_violation"), [(0.05, False), (0.5, True)])
def test_a_session_on_two_links(late_s: float, *, is_violation: bool, tmp_path: Path) -> None:
    """Packets of different links may be swapped in a capture by a little, not by half a second."""
    peers = Peers(client_type=EntityType.OSD, client_cookie=0xC0, server_cookie=0x5E)
    tape = Tape()
    first = Connection(tape).open().play(peers.begin())
    Connection(tape, "10.0.0.1:40001").open().play(peers.resume(2, 1, (0, 0)))
    tape.wait(late_s)
    first.close()
    results = Capture(tape.write(tmp_path / "two.pcap")).check()
    assert [result.id for result in results if result.violations] == ["link_lifecycle"] * is_violation
