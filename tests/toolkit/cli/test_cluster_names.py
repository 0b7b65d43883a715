"""Names of clusters on the command line, and their completion by a shell."""

import subprocess

import pytest

from tests.support.clusters import command_line, done, environment, msgrlab, state
from toolkit.cli.main import run

__all__ = ["state"]


def completed(words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return bash's completions after these words."""
    count = len(words.split()) - (not words.endswith(" "))
    for name, value in {
        "COMP_WORDS": words,
        "COMP_CWORD": str(count),
        "_MSGRLAB_COMPLETE": "complete_bash",
    }.items():
        monkeypatch.setenv(name, value)
    finished = subprocess.run(
        command_line(), env=environment(), capture_output=True, text=True, check=True, timeout=60
    )
    for name in ("COMP_WORDS", "COMP_CWORD", "_MSGRLAB_COMPLETE"):
        monkeypatch.delenv(name)
    return finished.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("msgrlab run reconnect_c", ["reconnect_cookies"]),
        ("msgrlab run HS-00", []),
        ("msgrlab sim TOU", ["TOUR"]),
        ("msgrlab up two", ["two-peers"]),
        ("msgrlab fault parti", ["partition"]),
        ("msgrlab down ", []),
        ("msgrlab tell ", []),
        ("msgrlab stat", ["status"]),
    ],
)
@pytest.mark.usefixtures("state")
def test_completion_offers_words(words: str, offered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(words, monkeypatch) == offered


ANYWHERE = (
    "tell --name one a sessions",
    "tell a --name one sessions",
    "tell a sessions --name=one",
    "tell a send b --name one --count 1",
    "tell --name one a sessions --name one",
    "exec --name one a -- true",
    "exec a --name one -- true",
    "exec a --name=one true",
    "exec --name one a -- test --name = --name",
    "fault kill b --name one",
    "fault restart --name=one b",
    "fault --name one mend --json",
    "fault --chaos --for 0.1 --name one --dry-run",
)
"""Command lines that name one of two clusters, where a user types it."""
WRONG_NAMES = (
    ("tell a sessions --name", "--name needs the name of a cluster"),
    ("tell a --name one", "tell: NODE and VERB are needed, as in: msgrlab tell a send b"),
    ("tell --name two a sessions --name one", "two clusters are named: two and --name one; give one"),
    ("exec a -- --name one", "several clusters are up: one, two; choose one with --name"),
    ("tell a sessions -- --name one", "several clusters are up: one, two; choose one with --name"),
    ("fault kill --name three b", "no cluster 'three'; there is one, two"),
)


@pytest.mark.usefixtures("state")
def test_every_verb_takes_the_name_of_a_cluster_and_completes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done("up", "two-peers", "--name", "one")
    printed = done("up", "two-peers", "--name", "two")
    try:
        assert "/two/history.ndjson" in printed
        assert "/two/service.keys" in printed
        for verb in ("status ", "down ", "status --name ", "down --name ", "tell --name ", "fault --name "):
            assert completed(f"msgrlab {verb}", monkeypatch) == ["one", "two"]
        assert completed("msgrlab tell ", monkeypatch) == [], "which of two is not known"
        assert completed("msgrlab tell --name one ", monkeypatch) == ["a", "b"]
        assert completed("msgrlab fault --name one partition a ", monkeypatch) == ["a", "b"]
        for words in (["status", "one"], ["status", "--name", "one"]):
            assert "two on" not in done(*words)
        assert [words for words in ANYWHERE if run(words.split()) != 0] == []
        capsys.readouterr()
        for words, error in WRONG_NAMES:
            assert (run(words.split()), capsys.readouterr().err) == (2, f"msgrlab: {error}\n")
        assert "msgr v2.1" in done("probe", "one/a")
        for words, error in (
            (["one/c"], "one/c: cluster 'one' has no node 'c'; it has a, b"),
            (["three/a"], "no cluster 'three'; there is one, two"),
            (
                ["127.0.0.1", "--keyring", "one/a"],
                "--keyring one/a: the node has none; only monitors of a cluster with cephx have one",
            ),
        ):
            refused = msgrlab("probe", *words)
            assert (refused.returncode, refused.stderr) == (2, f"msgrlab: {error}\n")
        refused = msgrlab("down", "one", "--name", "two")
        assert (refused.returncode, "two clusters are named" in refused.stderr) == (2, True)
        refused = msgrlab("down", "one", "--all")
        assert (
            refused.returncode,
            "--all and the name of a cluster (one) exclude each other" in refused.stderr,
        ) == (2, True)
    finally:
        assert done("down", "--name", "one") == "one: down\n"
        assert done("down", "two") == "two: down\n"


def test_completion_has_a_script_for_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MSGRLAB_COMPLETE", "source_bash")
    assert "_MSGRLAB_COMPLETE=complete_bash" in done()
