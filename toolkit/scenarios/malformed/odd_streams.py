"""MF: slow streams, random bytes, and drawn frames."""

from contextlib import suppress
from typing import Any

from toolkit.errors import ScenarioFailed
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, arrive, breaks, stage
from toolkit.lab.ways import ALL_WAYS, ways
from toolkit.node.raw.peer import RawPeer
from toolkit.scenarios.malformed import MF
from toolkit.scenarios.malformed.drawn_speech import utter
from toolkit.scenarios.shared.node_states import FEW_WAYS, ROLES, places_of

_FUZZED = 60
"""Number of links in one run of the fuzzing; run more seeds for more."""
_HELD_BYTES = 1 << 20
_FUZZ_WAYS = ways("v2-crc", "v2-secure", "v2-compressed", "v2-crc-w2", "v1", "v1-w2")


@MF.scenario("MF-19", "slowloris", priority=2, cases=ROLES, ways=FEW_WAYS)
def slowloris(lab: Lab, role: str) -> None:
    """Single bytes keep an open link alive, but not a handshake.

    In every state of the handshake a peer sends the expected frame one byte at a time, and never all of it.
    ``ms_connection_ready_timeout`` ends the link, counted from its start, however many bytes have come since. On
    an open link single bytes are traffic: the link stays until ``ms_connection_idle_timeout`` has passed without a
    byte.
    """
    timeout_s = 0.4 if lab.real_time else 10.0
    peer = stage(lab, role, ms_connection_ready_timeout=timeout_s, ms_connection_idle_timeout=timeout_s)
    for place in places_of(role, v1=lab.is_v1):
        if place.resumes or place.before == "compression":
            continue
        link = arrive(peer, place)
        before = len(lab.faults("a"))
        reason = "READY_TIMEOUT" if place.before else "IDLE_TIMEOUT"
        for byte in link.message(1, data=bytes(40))[:8]:
            link.write(bytes([byte]))
            lab.wait(timeout_s / 5)
            if link.closed:
                break
        lab.require(link.closed == bool(place.before), f"after {1.6 * timeout_s:g} s in {place.state}")
        link.expect_closed(2 * timeout_s)
        lab.expect_fault_count("a", before + 1)
        lab.require(lab.faults("a")[-1] == reason, f"{lab.last_fault('a')} where {reason} was expected")


@MF.scenario("MF-20", "garbage_after_valid", priority=2, ways=ALL_WAYS)
def garbage_after_valid(lab: Lab) -> None:
    """A session survives random bytes on a link of its peer.

    On an open link random bytes follow a proper message. The link breaks, the message has been delivered, and the
    node's own messages are not lost: it dials again, resumes the session, replays what was not acknowledged, in
    order and with the same seqs, and accepts the peer's next message.
    """
    peer = stage(lab, "connector")
    link = arrive(peer, places_of("connector", v1=lab.is_v1)[-1])
    lab.send("a", "b", 3)
    link.rest(0.05)
    noise = b"\xff" + bytes(lab.rng.getrandbits(8) for _ in range(500))
    breaks(lab, link, lambda: link.write(link.message(1) + noise), *_NOISE_REASONS)
    lab.expect_delivered("b", "a", 1)
    again = peer.accept("a").handshake()
    messages = [frame for frame in again.rest(0.1) if hasattr(frame, "tid")]
    seen = [(message.seq, message.tid) for message in messages]
    lab.require(seen == [(1, 1), (2, 2), (3, 3)], f"what was not acknowledged came again as {seen}")
    again.send_messages(2)
    lab.expect_delivered("b", "a", 2)


_NOISE_REASONS = ("PREAMBLE_CRC", "AUTH_TAG", "UNKNOWN_TAG")


@MF.scenario("MF-21", "grammar_fuzz", cases=ROLES, ways=_FUZZ_WAYS)
def grammar_fuzz(lab: Lab, role: str) -> None:
    """Hostile input of a peer breaks its own link only.

    A seed draws the frames: the peer takes some steps of a proper handshake, then sends frames drawn from the
    grammar of the protocol and changed: any tag with any field values, payloads cut, spliced and stretched,
    preambles with any values, messages with any numbers, repeated frames; then it often goes on with the proper
    handshake. The node handles each frame or breaks the link with a named fault, holds no more memory than its
    limits allow, and frees it; in the end a proper peer gets its session. Run it with many seeds, which draw other
    frames.
    """
    peer = stage(lab, role, max_preauth_frame_bytes=4096, max_preauth_bytes=16384, max_frame_bytes=65536)
    for _ in range(_FUZZED):
        utter(lab, peer, role)
        lab.require(lab.holdings("a")["held_bytes"] <= _HELD_BYTES, f"{lab.holdings('a')} is held")
    if lab.session("a", "b"):
        lab.mark_down("a", "b")
    lab.wait(0.2)
    lab.expect_throttles_empty("a")
    if role == CONNECTOR:
        lab.dial("a", "b")
    delivered = len(lab.tids("a"))
    _proper(lab, peer, role).send_messages(1)
    lab.expect_delivered("b", "a", delivered + 1)


def _proper(lab: Lab, peer: RawPeer, role: str) -> Any:  # noqa: ANN401 - a link of either protocol
    """Open a session with a proper peer; skips dials that the node has abandoned."""
    place = next(place for place in places_of(role, v1=lab.is_v1) if not place.before)
    for _ in range(_FUZZED):
        with suppress(ScenarioFailed):
            return arrive(peer, place)
    raise ScenarioFailed("no proper peer gets a session any more")
