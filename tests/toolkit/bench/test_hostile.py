"""A server under attack keeps its client. No test depends on speed."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from messenger.link import Protocol
from messenger.messages.message import Message
from toolkit.bench.hostile.attacks import ATTACKS
from toolkit.bench.hostile.client import Phase, Requests
from toolkit.bench.hostile.measure import NONE, HostileResult, measure_attacks
from toolkit.bench.hostile.spec import ONE_WAY, RECORDED, REQUEST
from toolkit.cli.main import run as msgrlab

BOTH = (Protocol.V2, Protocol.V1)
SHORT_S = 0.4
GOOD = HostileResult(
    attack="silent",
    protocols=BOTH,
    quiet_p50_ms=1.0,
    quiet_p99_ms=2.0,
    p50_ms=3.0,
    p99_ms=20.0,
    rss_mib=96.0,
    cpu=0.5,
    lost=0,
    resets=0,
    given_back_s=15.0,
    connections=800,
    received={},
    faults={},
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_costs_a_client_no_message_and_all_memory_is_freed(attack: str) -> None:
    (result,) = measure_attacks([attack], BOTH, SHORT_S)
    assert result.connections > 0
    assert (result.lost, result.resets) == (0, 0), result
    assert result.rss_mib <= result.rss_limit_mib
    assert result.given_back_s is not None, result
    if attack == "squatting":
        assert result.faults["peer_identity"] > 0
    if attack == "descriptors":
        assert result.connections >= 4 * ATTACKS[attack].OPEN_FILES
    if attack == "tiny-messages":
        assert result.received[str(ONE_WAY)] > 0
    if attack == "replay":  # what was recorded on each protocol's link is delivered from that link alone
        assert result.received[str(RECORDED)] == len(BOTH)
        assert result.connections > len(BOTH)


def test_rows_are_json_and_lines_of_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    arguments = ["bench", "hostile", "--attacks", "none,resets", "--proto", "v1", "--seconds", "0.1"]
    assert msgrlab([*arguments, "--json"]) == 0
    none, resets = json.loads(capsys.readouterr().out)["hostile"]
    assert (none["attack"], none["protocols"], none["connections"]) == ("none", ["v1"], 0)
    assert (resets["attack"], resets["lost"], resets["connections"] > 0) == ("resets", 0, True)
    assert resets["p99_ratio"] == pytest.approx(resets["p99_ms"] / resets["quiet_p99_ms"], abs=0.01)
    assert msgrlab(arguments) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert " ".join(heading.split()) == "attack p50 ms x p99 ms x RSS CPU lost back s missed"
    assert [line.split()[0] for line in lines[:2]] == ["none", "resets"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--attacks", "silent,rude"], "--attacks: unknown 'rude'; known: none, silent,"),
        (["--proto", "v3"], "--proto: unknown 'v3'; known: "),
        (["--seconds", "0"], "--seconds: 0 is not from 0.1 to 600"),
        (["--out", "/nowhere/at/all.json"], "there is no folder /nowhere/at"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(["bench", "hostile", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"p99_ms": 20.1}, ["p99"]),
        ({"p99_ms": 50.0, "attack": "acks"}, []),
        ({"p99_ms": 20.1, "attack": NONE}, ["p99"]),
        ({"rss_mib": 96.1}, ["RSS"]),
        ({"lost": 1}, ["lost"]),
        ({"resets": 1}, ["lost"]),
        ({"given_back_s": 15.1}, ["back"]),
        ({"given_back_s": None}, ["back"]),
    ],
)
def test_a_row_names_the_goals_that_it_misses(changes: dict, missed: list[str]) -> None:
    assert replace(GOOD, **changes).missed == missed


@pytest.mark.parametrize(
    ("tids", "damage", "lost"),
    [([1], b"", 0), ([], b"", 1), ([2], b"", 1), ([1], b"!", 1), ([1, 1], b"", 1)],
)
def test_only_ordered_and_unchanged_answers_count(tids: list[int], damage: bytes, lost: int) -> None:
    async def run() -> int:
        requests, sent = Requests(pace_s=3600.0), []
        requests.start(SimpleNamespace(send=sent.append))
        requests.stop()
        assert [message.tid for message in sent] == [1]
        for tid in tids:
            answer = Message(REQUEST, data=sent[0].data + damage, tid=tid)
            requests.ms_dispatch(SimpleNamespace(), answer)
        return requests.missing + requests.wrong

    assert asyncio.run(run()) == lost


def test_percentiles_are_of_the_requests_that_were_due_in_a_phase() -> None:
    assert Phase.of([float(value) for value in range(200, 0, -1)]) == Phase(100.0, 198.0)
    assert Phase.of([7.0]) == Phase(7.0, 7.0)
