"""Every scenario, on every backend and in every mode it claims to run."""

from typing import Any

import pytest

import toolkit
from messenger.errors import LocalError
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.faults.tap import Breakpoint
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import Way
from toolkit.scenarios.catalogue import select
from toolkit.scenarios.runner import ScenarioRun, open_lab

TOUR_IDS = [scenario.id for scenario in select("TOUR")]
EVERYWHERE = [
    (name, backend, mode) for name in TOUR_IDS for backend in ("sim", "local") for mode in ("crc", "secure")
]
RECONNECTION = [
    *("client:BANNER:2", "client:HELLO:2", "client:AUTH_REQUEST:2", "client:AUTH_REQUEST_MORE:2"),
    *("client:AUTH_SIGNATURE:2", "client:COMPRESSION_REQUEST:2", "client:SESSION_RECONNECT:1"),
    *("server:BANNER:2", "server:HELLO:2", "server:AUTH_REPLY_MORE:2", "server:AUTH_DONE:2"),
    *("server:AUTH_SIGNATURE:2", "server:COMPRESSION_DONE:2", "server:SESSION_RECONNECT_OK:1"),
]
"""Every frame of the handshake that resumes a session."""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("scenario", "backend", "mode"), EVERYWHERE)
def test_scenario_passes(scenario: str, backend: str, mode: str, workers: int) -> None:
    run = toolkit.run(scenario, backend, mode, workers=workers)
    assert ("--workers 2" in run.replay_command) == (workers == 2)
    assert run.passed, run.complaints
    assert [result.id for result in run.checks] == list(INVARIANTS)
    silent = [result.id for result in run.checks if result.note]
    assert silent == ["linearizable"], "an invariant could not be judged"  # there are no objects


@pytest.mark.parametrize("scenario", TOUR_IDS)
@pytest.mark.parametrize(
    ("protocol", "mode", "cipher"), [("v1", "crc", "aes"), ("v1", "crc", "aes256k"), ("v2", "secure", "aes256k")]
)
@pytest.mark.parametrize("backend", ["sim", "local"])
def test_scenario_passes_with_every_protocol_and_cipher(
    scenario: str, backend: str, protocol: str, mode: str, cipher: str
) -> None:
    run = toolkit.run(scenario, backend, mode, protocol=protocol, cipher=cipher)
    assert run.passed, run.complaints
    assert ("--cipher aes256k" in run.replay_command) == (cipher == "aes256k")
    assert (run.as_json()["protocol"], run.as_json()["cipher"]) == (protocol, cipher)


@pytest.mark.parametrize("wrong", [{"cipher": "des"}, {"cipher": "none"}, {"protocol": "v3"}])
def test_run_refuses_unknown_arguments(wrong: dict[str, str]) -> None:
    with pytest.raises(LocalError, match="unknown"):
        toolkit.run("reconnect", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_reconnect_replays_what_was_not_acknowledged(mode: str) -> None:
    run = toolkit.run("reconnect", mode=mode)
    sent_seqs = _message_seqs(run, "a", "tx")
    assert len(sent_seqs) > len(set(sent_seqs)), "nothing was sent twice, so nothing was replayed"
    assert [record["tid"] for record in run.history.node("b").of("deliver")] == list(range(1, 26))


def _message_seqs(run: ScenarioRun, node: str, direction: str) -> list[int]:
    frames = run.history.node(node).of("frame")
    return [f["fields"]["seq"] for f in frames if f["tag"] == "MESSAGE" and f["direction"] == direction]


def test_standby_dials_once_more_and_from_the_side_that_sends() -> None:
    run = toolkit.run("standby")
    dials = [r.node for r in run.history.of("link") if r["action"] == "dial"]
    assert dials == ["a", "b"]
    assert {r["state"] for r in run.history.node("a").of("state")} >= {"READY", "STANDBY"}


def test_session_reset_drops_the_queue_and_raises_an_event_at_the_client_only() -> None:
    run = toolkit.run("session-reset")
    resets = [r for r in run.history.of("event") if r["event"] == "remote_reset"]
    assert [(r.node, "3 messages dropped" in r["detail"]) for r in resets] == [("client", True)]
    delivered = [r["tid"] for r in run.history.node("server").of("deliver")]
    assert delivered == [1, 2, 3, 4, 5, 9, 10, 11, 12], "6 to 8 were queued when the server lost its state"


@pytest.mark.parametrize("frame", RECONNECTION)
@pytest.mark.parametrize("byte", ["0", "1", "10", "-1", ""])
@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_session_survives_a_cut_at_every_frame_of_its_reconnection(frame: str, byte: str, mode: str) -> None:
    lab = SimLab(f"v2-{mode}", 1)
    lab.node("client", "client.7", "lossless_client", listens=False)
    lab.node("server", "mds.0", "stateful_server")
    cuts = [Breakpoint.parse("client:MESSAGE:5:20"), Breakpoint.parse(f"{frame}:{byte}")]
    for cut in cuts:
        lab.cut_at("client", "server", cut)
    lab.start("client", "server")
    lab.connect("client", "server")
    lab.send("client", "server", count=10)
    lab.send("server", "client", count=10)
    for cut in cuts:
        lab.expect_cut(cut)
    lab.expect_delivered("client", "server", 10)
    lab.expect_delivered("server", "client", 10)
    lab.settle()
    assert not [violation.text for result in check(lab.history) for violation in result.violations]


COMPRESSED = {"ms_osd_compress_mode": "force", "ms_compress_secure": True, "ms_osd_compression_algorithm": "zstd"}
OTHER_LINKS: dict[str, dict[str, Any]] = {
    "of 2.0": {"msgr2_features": 0},
    "compressed": COMPRESSED,
    "of 2.0, compressed": {"msgr2_features": 2, **COMPRESSED},
}
"""Options of both ends of a link."""


@pytest.mark.parametrize("mode", ["crc", "secure"])
@pytest.mark.parametrize("options", OTHER_LINKS.values(), ids=OTHER_LINKS)
@pytest.mark.parametrize("backend", ["sim", "local"])
def test_reconnect_on_other_links(backend: str, options: dict[str, Any], mode: str) -> None:
    lab = open_lab(backend, Way(mode=mode), 1, processes=True)
    try:
        for name, entity in ("a", "osd.1"), ("b", "osd.2"):
            lab.node(name, entity, "lossless_peer", **options)
        cut = Breakpoint.parse("a:MESSAGE:5:20")
        lab.cut_at("a", "b", cut)
        lab.start("a", "b")
        lab.connect("a", "b")
        lab.send("a", "b", count=10, size_bytes=3000)
        lab.send("b", "a", count=10, size_bytes=3000)
        lab.expect_cut(cut)
        lab.expect_delivered("a", "b", 10)
        lab.expect_delivered("b", "a", 10)
        lab.settle()
        assert not [violation.text for result in check(lab.history) for violation in result.violations]
    finally:
        lab.close()


@pytest.mark.parametrize("mode", ["crc", "secure"])
@pytest.mark.parametrize("cut", ["a:MESSAGE:1:0", "b:MESSAGE:4:31", "b:MESSAGE:20", "b:MESSAGE:7:-1"])
def test_cut_at_a_chosen_frame_and_byte_on_real_sockets(mode: str, cut: str) -> None:
    run = toolkit.run("reconnect", "local", mode, cuts=[cut])
    assert run.passed, run.complaints
    (record,) = run.history.of("cut")
    sender, tag, nth, *_ = cut.split(":")
    assert (record["at"]["sender"], record["at"]["tag"], record["at"]["nth"]) == (sender, tag, int(nth))


def test_same_seed_same_history_byte_for_byte() -> None:
    first, second = (toolkit.run("reconnect", mode="secure", seed=7).history.dump() for _ in range(2))
    assert first == second
    assert first != toolkit.run("reconnect", mode="secure", seed=8).history.dump()


def test_a_pattern_selects_by_id_or_name() -> None:
    assert [scenario.id for scenario in select("RS-0[34]*")] == ["RS-03", "RS-04"]
    assert [scenario.id for scenario in select("reconn*")][:1] == ["reconnect"]


def test_unsupported_scenario_names_the_possible_ways() -> None:
    with pytest.raises(LocalError, match="no scenario 'recconect'; near it: reconnect"):
        toolkit.run("recconect")
    with pytest.raises(LocalError, match=r"no scenario 'QQ-\*'; families \(HS\), patterns"):
        select("QQ-*")
    with pytest.raises(
        LocalError, match="unknown backend 'moon'; reconnect runs on sim, local, netns, docker, rdma, vm"
    ):
        toolkit.run("reconnect", "moon")
    with pytest.raises(LocalError, match="unknown mode 'rot13'; known: crc, secure, compressed"):
        toolkit.run("reconnect", mode="rot13")
    with pytest.raises(LocalError, match="--cut is for others"):
        toolkit.run("standby", cuts=["a:ACK"])
    with pytest.raises(LocalError, match=r"^breakpoint, column 8: it ends too early; .*; a breakpoint is "):
        toolkit.run("reconnect", cuts=["MESSAGE"])
