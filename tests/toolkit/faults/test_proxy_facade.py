"""The proxy for people: its report of the links and frames that passed."""

import socket
from collections.abc import Iterator

import pytest

from messenger.errors import LocalError
from messenger.v2.framing import CrcWriter
from messenger.v2.wire import Ack, encode_banner
from toolkit.faults import live, tap, timing
from toolkit.faults.live import Proxy, parse_place
from toolkit.report.sequence import SequenceChart

BANNER = encode_banner(1, 0)
ACKS = [CrcWriter().control(Ack.TAG, Ack(seq).encode()) for seq in range(1, 6)]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A listening socket on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def _place(server: socket.socket) -> str:
    host, port = server.getsockname()
    return f"{host}:{port}"


def _received(sock: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size and (chunk := sock.recv(size - len(received))):
        received += chunk
    return received


def test_a_proxy_keeps_open_links_and_the_latest_ended_ones(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_KEPT_LINKS", 2)
    with (
        Proxy(_place(server), ["-> BANNER: log seen"]) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as first,
        server.accept()[0],
    ):
        first.sendall(BANNER)
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
                client.sendall(BANNER)
                server.accept()[0].close()
        proxy.expect(lambda proxy: (proxy.link_count, proxy.hit_count, _open_links(proxy)) == (6, 6, 1))
        assert [link.closed_s is None for link in proxy.links] == [True, False, False]
        assert len(proxy.hits) == 2
        first.sendall(ACKS[0])
        proxy.expect(lambda proxy: proxy.counters["-> ACK"] == 1)


def _open_links(proxy: Proxy) -> int:
    return [link.closed_s for link in proxy.links].count(None)


def test_frames_hits_links_and_a_picture_of_them(server: socket.socket) -> None:
    rules = ["client ACK #2: set seq=77", "-> ACK #4: set nothing=1", "-> ACK if fields.seq == 5: log <b>five</b>"]
    with Proxy(_place(server), rules, parties=("client", "osd")) as proxy:
        with (
            socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
            server.accept()[0] as accepted,
        ):
            accepted.sendall(BANNER)
            client.sendall(BANNER + b"".join(ACKS))
            changed = CrcWriter().control(Ack.TAG, Ack(77).encode())
            wanted = BANNER + ACKS[0] + changed + b"".join(ACKS[2:])
            assert _received(accepted, len(wanted)) == wanted
        proxy.expect(lambda proxy: proxy.links[0].closed_s is not None and len(proxy.hits) == 3)
        assert [frame.tag for frame in proxy.frames if frame.direction == "to_server"] == ["BANNER"] + ["ACK"] * 5
        done, failed, logged = proxy.hits
        assert (done.sender, done.tag, done.rule, done.problem) == (
            "client",
            "ACK",
            "client ACK #2: set seq=77",
            "",
        )
        assert failed.problem == "ACK has no nothing; it has seq"
        assert proxy.counters["-> ACK"] == 5
        assert "client ACK #2: set seq=77" in proxy._repr_html_()
        assert "log &lt;b&gt;five" in proxy._repr_html_()
        assert "log <b>five</b>" in str(logged)
        assert "ACK" in SequenceChart(proxy.history())._repr_html_()


def test_rules_come_and_go_while_it_runs(server: socket.socket) -> None:
    with (
        Proxy(_place(server)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
        server.accept()[0] as accepted,
    ):
        accepted.sendall(BANNER)
        client.sendall(BANNER)
        assert _received(accepted, len(BANNER)) == BANNER
        proxy.add("-> ACK #1: hold first\n-> ACK: duplicate")
        client.sendall(ACKS[0])
        proxy.expect(lambda proxy: len(proxy.hits) == 2)
        assert proxy.release("second") == 0
        assert proxy.release("first") == 1
        assert _received(accepted, 2 * len(ACKS[0])) == ACKS[0] * 2
        proxy.add("-> ACK #1: hold first")
        client.sendall(ACKS[1])
        proxy.expect(lambda proxy: len(proxy.hits) == 4)
        proxy.clear()
        assert proxy.rules == []
        client.sendall(ACKS[2])
        assert _received(accepted, 3 * len(ACKS[0])) == ACKS[1] * 2 + ACKS[2]


def test_proxy_discards_held_frames_with_their_link(server: socket.socket) -> None:
    """Nothing waits for a release once both ends have gone."""
    with Proxy(_place(server), "-> ACK #1: hold for-ever\n<- BANNER: delay 1h".replace("1h", "3600s")) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
        accepted = server.accept()[0]
        accepted.sendall(BANNER)
        client.sendall(BANNER + ACKS[0])
        proxy.expect(lambda proxy: len(proxy.hits) == 2)
        proxy.cut()
        proxy.expect(lambda proxy: proxy.links[0].closed_s is not None)
        assert proxy.release("for-ever") == 0
        client.close()
        accepted.close()


def test_blind_proxy_applies_only_rules_about_dials(server: socket.socket) -> None:
    with Proxy(_place(server), "dial #1: refuse\n*: drop", blind=True) as proxy:
        place = "127.0.0.1", proxy.port
        with pytest.raises(ConnectionResetError), socket.create_connection(place, timeout=60) as refused:
            refused.recv(1)
        with (
            socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
            server.accept()[0] as accepted,
        ):
            client.sendall(BANNER)
            assert _received(accepted, len(BANNER)) == BANNER
        assert [hit.tag for hit in proxy.hits] == ["dial"]


def test_bytes_that_are_no_frames_pass_and_are_reported(server: socket.socket) -> None:
    with (
        Proxy(_place(server)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
        server.accept()[0] as accepted,
    ):
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert _received(accepted, 16) == b"GET / HTTP/1.1\r\n"
        assert "looks like an HTTP client" in proxy.links[0].blind


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.1:3300", ("10.0.0.1", 3300)),
        ("[::1]:6789", ("::1", 6789)),
        ("v2:10.0.0.1:3300/0", ("10.0.0.1", 3300)),
        ("v1:[fe80::1]:1/2", ("fe80::1", 1)),
        ("3300", ("127.0.0.1", 3300)),
    ],
)
def test_places(text: str, place: tuple[str, int]) -> None:
    assert parse_place(text, "127.0.0.1") == place


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:99999", "::1:3300", "host:-1", "host:٣"])
def test_no_places(text: str) -> None:
    with pytest.raises(LocalError, match=r"is no HOST:PORT"):
        parse_place(text)


@pytest.mark.parametrize(("action", "held"), [("hold kept alone", 2), ("delay 500s alone", 2)])
def test_what_a_rule_holds_aside_has_a_limit(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch, action: str, held: int
) -> None:
    """The frames beyond it pass, and the hits have the reason; frames of an ended link count no more."""
    monkeypatch.setattr(timing, "MOST_ASIDE_BYTES", 2 * (len(ACKS[0]) + timing.ASIDE_FRAME_BYTES))
    with Proxy(_place(server), [f"-> ACK #1+: {action}"]) as proxy:
        for ended in range(2):
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
                receiver = server.accept()[0]
                client.sendall(BANNER + b"".join(ACKS))
                assert _received(receiver, len(BANNER) + 3 * len(ACKS[0])) == BANNER + b"".join(ACKS[held:])
                receiver.close()
            problems = [hit.problem for hit in proxy.hits[5 * ended :]]
            assert problems == ["", ""] + ["2 frames are held aside, and a rule holds at most 0 MiB"] * 3
            proxy.expect(lambda proxy: not _open_links(proxy))


def test_released_frames_make_room_for_others(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MOST_ASIDE_BYTES", len(ACKS[0]) + timing.ASIDE_FRAME_BYTES)
    with (
        Proxy(_place(server), ["-> ACK #1+: hold kept alone"]) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
        server.accept()[0] as receiver,
    ):
        for ack in ACKS[:2]:
            client.sendall((b"" if ack is ACKS[1] else BANNER) + ack)
            proxy.expect(lambda proxy, ack=ack: proxy.hit_count == ACKS.index(ack) + 1)
            assert proxy.release("kept") == 1
        assert _received(receiver, len(BANNER) + 2 * len(ACKS[0])) == BANNER + ACKS[0] + ACKS[1]


@pytest.mark.parametrize("action", ["swap", "join"])
def test_frames_that_wait_for_the_next_one_have_a_limit(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(tap, "MOST_WAITING_BYTES", 2 * len(ACKS[0]))
    with (
        Proxy(_place(server), [f"-> ACK #1+: {action}"]) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
        server.accept()[0] as receiver,
    ):
        client.sendall(BANNER + b"".join(ACKS[:3]))
        order = (2, 0, 1) if action == "swap" else (0, 1, 2)
        assert _received(receiver, len(BANNER) + 3 * len(ACKS[0])) == BANNER + b"".join(ACKS[at] for at in order)
        assert [hit.problem for hit in proxy.hits] == [
            "",
            "",
            f"{2 * len(ACKS[0])} bytes wait for the next frame already",
        ]
