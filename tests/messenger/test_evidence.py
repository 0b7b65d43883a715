"""Records of keys, tickets, nonces and memory in the history, and what an endpoint has in use."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.evidence import Peaks
from messenger.link import Protocol
from messenger.pool import BufferPool
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, STATEFUL_SERVER
from tests.support.network import Pair
from tests.support.node import Node


def records_of(node: Node, kind: str) -> list[dict[str, object]]:
    return [record.fields for record in node.trace if record.kind == kind]


def pair(auth: str = "cephx", mode: ConMode = ConMode.SECURE, **options: object) -> Pair:
    return Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, auth=auth, mode=mode, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("features", [1, 0])
def test_both_ends_of_a_secure_link_know_its_key_and_nonces(features: int) -> None:
    links = pair(msgr2_features=features)
    links.established()
    (mine,), (theirs,) = records_of(links.a, "auth"), records_of(links.b, "auth")
    for fields in (mine, theirs):
        assert (fields["method"], fields["mode"], fields["modes"]) == ("cephx", "secure", "secure")
        assert fields["cipher"] == "aes"
        assert fields["revision"] == features
        assert 3500 < float(str(fields["ticket_left_s"])) <= 3600
    assert mine["key"] == theirs["key"] != ""
    assert (mine["tx_nonce"], mine["rx_nonce"]) == (theirs["rx_nonce"], theirs["tx_nonce"])
    assert mine["tx_nonce"] != mine["rx_nonce"]


def test_no_secret_is_recorded() -> None:
    links = pair()
    session, _ = links.established()
    assert session.link is not None
    assert session.link.auth_result is not None
    secret = session.link.auth_result.connection_secret
    shown = repr(links.a.trace)
    assert len(secret) == 64
    for start in range(0, 64, 4):
        assert secret[start : start + 4].hex() not in shown
    assert session.link.auth_result.session_key.hex() not in shown


@pytest.mark.parametrize(
    ("auth", "protocol", "method"),
    [("cephx", Protocol.V2, "cephx"), ("none", Protocol.V2, "none"), ("cephx", Protocol.V1, "cephx")],
)
def test_crc_mode_has_no_keys(auth: str, protocol: Protocol, method: str) -> None:
    links = pair(auth, ConMode.CRC, protocol=protocol)
    session, _ = links.established()
    links.a.mark_down(session)
    links.drive()
    (fields,) = records_of(links.a, "auth")
    assert (fields["method"], fields["mode"], fields["modes"]) == (method, "crc", "crc")
    assert [fields[name] for name in ("key", "tx_nonce", "rx_nonce")] == ["", "", ""]
    assert (fields["ticket_left_s"] is None) == (method == "none")
    (usage,) = records_of(links.a, "usage")
    assert (usage["tx_nonces"], usage["rx_nonces"]) == (0, 0)


def test_nonces_are_counted() -> None:
    links = pair()
    session, _ = links.established()
    links.a.send(session, 1, 2, 3)
    links.drive()
    links.a.mark_down(session)
    links.drive()
    (mine,), (theirs,) = records_of(links.a, "usage"), records_of(links.b, "usage")
    assert mine["tx_nonces"] == theirs["rx_nonces"]
    assert mine["rx_nonces"] == theirs["tx_nonces"]
    assert int(str(mine["tx_nonces"])) > 6  # two for each message


def test_the_most_memory_is_remembered_by_phase() -> None:
    peaks = Peaks()
    for held_bytes in (10, 700, 3):
        peaks.note(held_bytes, authenticated=False)
        peaks.note(2 * held_bytes, authenticated=True)
    fields = peaks.fields(Config(max_preauth_bytes=1 << 20, max_frame_bytes=1 << 24))
    assert (fields["handshake_bytes"], fields["data_bytes"]) == (700, 1400)
    assert int(str(fields["handshake_limit_bytes"])) > 1 << 20
    assert int(str(fields["data_limit_bytes"])) > 1 << 24


def test_without_a_history_nothing_is_kept() -> None:
    links = Pair(LOSSLESS_PEER, tracing=False)
    session, _ = links.established()
    assert session.link is not None
    assert session.link.peaks is None
    assert links.a.trace == []


def test_idle_session_uses_one_timer_and_no_buffers() -> None:
    links = Pair(LOSSLESS_PEER)
    session, _ = links.established()
    endpoint = links.a.endpoint
    unused = {"receive_bytes": 0, "unwritten_bytes": 0, "throttled": 0, "arrivals": 0}
    assert endpoint.resources() == {"timers": 1, **unused}
    endpoint.keep_alive(session, 10.0, 30.0, links.a.now)
    assert endpoint.resources()["timers"] == 1, "keepalives go on at rest"
    assert records_of(links.a, "keepalive") == []
    links.drive()
    (fields,) = records_of(links.a, "keepalive")
    assert (fields["session"], fields["interval_s"], fields["timeout_s"]) == (session.id, 10.0, 30.0)
    links.a.mark_down(session)
    links.drive()
    assert endpoint.resources() == {"timers": 0, **unused}


def test_a_link_that_does_not_read_on_is_not_at_rest() -> None:
    links = Pair(LOSSLESS_PEER, ms_dispatch_throttle_bytes=10)
    session, _ = links.established()
    assert links.b.endpoint.snapshot()["unsettled"] == 0
    links.b.hoarding = True
    links.a.send(session, 1, 2, 3)
    links.drive()
    assert links.b.endpoint.snapshot()["unsettled"] == 1
    assert int(str(links.b.endpoint.resources()["receive_bytes"])) > 0


def test_handshake_bytes_include_the_signed_frames() -> None:
    """See docs/protocol.md §4.7."""
    links = pair()
    session, _ = links.established()
    links.a.mark_down(session)
    links.drive()
    for node in links.nodes:
        frames = records_of(node, "frame")
        signed = [frame for frame in frames if str(frame["tag"]).startswith(("HELLO", "AUTH_"))]
        kept = sum(int(str(frame["length"])) for frame in signed if frame["tag"] != "AUTH_SIGNATURE")
        (usage,) = records_of(node, "usage")
        assert kept > 200
        assert int(str(usage["handshake_bytes"])) >= kept


def test_links_share_the_large_buffers_of_their_messenger() -> None:
    class Counting(BufferPool):
        taken = 0

        def take(self, size_bytes: int, most_new_bytes: int | None = None) -> memoryview:
            self.taken += 1
            return super().take(size_bytes, most_new_bytes)

    links = pair()
    pool = links.a.endpoint.pool = Counting()
    session, _ = links.established()
    links.a.send(session, 1, size_bytes=100_000)
    links.drive()
    assert links.b.tids == [1]
    assert pool.taken == 1, "the sealed message"
