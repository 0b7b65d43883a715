"""msgrlab fault: words, chaos and timelines, as a user types them."""

import json
from pathlib import Path

import pytest

from tests.support.clusters import answer_of, done, msgrlab, state

__all__ = ["state"]

pytestmark = pytest.mark.usefixtures("state")

SPEC = """\
name: pair
nodes:
  a: {entity: osd.1}
  b: {entity: osd.2}
traffic:
- {from: a, to: b, every_ms: 20}
proxies:
- {from: a, to: b}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(SPEC)
    done("up", str(path))
    return "pair"


def test_fault_list_shows_every_word() -> None:
    listed = done("fault", "--list")
    assert "partition A B [--one-way]\n    Lose every packet between two nodes" in listed
    assert "Not available" not in listed
    assert {"kill", "mend", "proxy"} <= {word["word"] for word in answer_of("fault", "--list", "--json")}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "fault: no fault was given; msgrlab fault --list"),
        (("--kaos",), "fault: unknown option --kaos"),
        (("--chaos", "kill", "b"), "a fault, --chaos and --replay exclude each other"),
        (("--chaos", "--replay", "x.yaml"), "a fault, --chaos and --replay exclude each other"),
        (("kill", "b"), "no cluster is up: msgrlab up two-peers"),
    ],
)
def test_fault_reports_a_mistake_in_one_line(arguments: tuple[str, ...], complaint: str) -> None:
    finished = msgrlab("fault", *arguments)
    assert finished.returncode == 2
    assert complaint in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_chaos_command_runs_and_repeats_a_drawn_timeline(cluster: str, tmp_path: Path) -> None:
    try:
        assert "Not available: loopback has no packets" in done("fault", "--list")
        done("fault", "arm", "a", "MESSAGE WRITE", "FAULT")
        done("fault", "undo", "arm", "a", "MESSAGE WRITE", "FAULT")
        done("fault", "proxy", "a", "b", "MESSAGE #3: cut before")
        done("fault", "mend")
        saved = tmp_path / "timeline.yaml"
        wishes = ["--chaos", "--seed", "4", "--for", "2", "--every", "0.4", "--lasts", "0.4"]
        printed = done("fault", *wishes, "--save", str(saved))
        *steps, verdict = printed.splitlines()
        assert verdict == "passed"
        finished = msgrlab("fault", *wishes, "--save", str(saved))
        assert (finished.returncode, "nothing is overwritten" in finished.stderr) == (2, True)
        assert done("fault", *wishes, "--dry-run").splitlines() == steps
        assert done("fault", "--replay", str(saved), "--dry-run").splitlines() == steps
        assert f"nemesis: {len(steps)} of {len(steps)} steps, seed 4" in done("status")
        again = json.loads(done("fault", "--replay", str(saved), "--json"))
        assert again["passed"]
        assert len(again["done"]) == len(steps)
        finished = msgrlab("fault", "--chaos", "--only", "black-hole")
        assert finished.returncode == 2
        assert "chaos: black-hole: loopback has no packets" in finished.stderr
    finally:
        done("down", cluster)
