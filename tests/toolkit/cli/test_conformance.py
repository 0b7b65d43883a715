"""``msgrlab conformance``: list, reports, exit codes, bad input."""

import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.cli.main import run
from toolkit.cluster import Cluster
from toolkit.cluster.spec import parse_spec

NODES = "nodes: {a: {entity: osd.1}, kernel: {entity: osd.2, options: {control_segments: last}}}"


@pytest.fixture(scope="module")
def cluster(msgrlab_shared_cluster: Callable[..., Cluster]) -> Cluster:
    return msgrlab_shared_cluster(parse_spec(NODES, "conformance-cli.yaml"))


def _words(cluster: Cluster, node: str, *more: str) -> list[str]:
    keys = str(cluster.directory / "service.keys")
    return ["conformance", cluster.nodes[node].address, "--key-log", keys, "--name", "osd.9", *more]


def test_the_list_needs_no_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", "--list", "--json", "--only", "v2/banner", "--level", "strict"]) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert {case["id"].rpartition("/")[0] for case in cases} == {"v2/banner"}
    assert cases[0]["section"] == "docs/protocol.md#42-banner"
    assert run(["conformance", "--list", "--only", "v1/*"]) == 0
    assert "CHALLENGE_AUTHORIZER" in " ".join(capsys.readouterr().out.split())


def test_reports_of_a_target_that_keeps_to_the_rules(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, html = tmp_path / "report.xml", tmp_path / "report.html"
    reports = ["--junit", str(junit), "--html", str(html)]
    assert run(_words(cluster, "a", "--only", "v2/banner", "--only", "v2/resume", "--json", *reports)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"pass": 17, "skipped": 19}
    assert 'tests="36" failures="0" errors="0" skipped="19"' in junit.read_text()
    assert "v2/banner/17" in html.read_text()


def test_a_case_that_differs_is_explained_and_can_be_repeated(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from toolkit.conformance import case

    (two_segments,) = [one for one in case.all_cases() if one.id == "v2/preamble/20"]
    monkeypatch.setitem(case._CASES, two_segments.id, _without_variants(two_segments))
    assert run(_words(cluster, "kernel", "--only", two_segments.id)) == 1
    text = capsys.readouterr().out
    for part in ("HELLO in two segments", "expected  closed", "observed  AUTH_BAD_METHOD"):
        assert part in text
    again = next(line for line in text.splitlines() if line.strip().startswith("again")).split("again", 1)[1]
    assert run(shlex.split(again)[1:]) == 1


def _without_variants(one: object) -> object:
    from dataclasses import replace

    return replace(one, variants={})  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no ADDR was given"),
        (["127.0.0.1:1", "--only", "v3/*"], "--only 'v3/*' matches no case; areas are cephx/authorizer"),
        (["127.0.0.1:1", "--level", "lax"], "--level: unknown level 'lax'; known: strict, tolerant"),
        (["v2:127.0.0.1:1", "--v1"], "is not a v1 address, as --v1 requires"),
        (["127.0.0.1:99999"], "99999"),
        (["127.0.0.1:1", "--keyring", "a", "--key-log", "b"], "--keyring and --key-log exclude each other"),
        (["127.0.0.1:1", "--name", "nobody"], "nobody"),
    ],
)
def test_bad_input_is_one_line(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", *words]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_a_target_that_cannot_be_reached_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert run(["conformance", f"127.0.0.1:{unused.getsockname()[1]}"]) == 3
    assert "refused" in capsys.readouterr().err


def test_another_daemon_than_a_monitor_needs_a_ticket(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_text("[osd.9]\n\tkey = AQAAAAAAAAAAABAATZ0A4iD+I+px16uHTX7cTw==\n")
    words = ["conformance", cluster.nodes["a"].address, "--name", "osd.9", "--keyring", str(keyring)]
    assert run(words) == 2
    assert "name a monitor with --mon" in capsys.readouterr().err
