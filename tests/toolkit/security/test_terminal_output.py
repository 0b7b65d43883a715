"""Texts of nodes, peers and files do not control the terminal that shows them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from messenger.denc.entity import AuthName
from tests.support.clusters import done, msgrlab, state
from toolkit.cli.probe import _print
from toolkit.machine.leases import Lease
from toolkit.probe.findings import ClusterFindings, Findings, parse_target

__all__ = ["state"]

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m"
KEY = "AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw=="
CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"}


def controls_in(text: str) -> set[str]:
    return set(text) & CONTROLS


@pytest.mark.usefixtures("state")
def test_status_shows_answers_of_nodes() -> None:
    done("up", "two-peers")
    with (Lease.find("two-peers").directory / "a" / "a.log").open("a") as log:
        log.write(f"last words {HOSTILE}\n")
    done("fault", "kill a")
    table = done("status")
    assert "last words \\x1b]0;owned\\x07" in table
    assert controls_in(table) == set()
    refused = msgrlab("tell", "a", "snapshot")
    assert controls_in(refused.stderr) == set()
    done("down")


def test_error_about_a_keyring_escapes_control_characters(tmp_path: Path) -> None:
    keyring = tmp_path / "keyring"
    for text in (f"[client.\x1b7\x9b31m\x07]\nkey = {KEY}\n", f"[client.a]\n{HOSTILE} = 1\n", f"[{HOSTILE}]\n"):
        keyring.write_text(text)
        refused = msgrlab("probe", "127.0.0.1:1", "--keyring", str(keyring), "--timeout", "1")
        assert refused.returncode in {1, 2}
        assert controls_in(refused.stderr + refused.stdout) == set()


STATUSES = [
    *(None, [], 7, {}),
    {"health": HOSTILE, "osdmap": [], "quorum_names": 1},
    {
        "health": {"status": HOSTILE, "checks": {HOSTILE: {}}},
        "quorum_names": [HOSTILE, 7],
        "osdmap": {"num_osds": HOSTILE},
    },
]


@pytest.mark.parametrize("status", STATUSES, ids=range(len(STATUSES)))
def test_arbitrary_answers_of_a_monitor_are_printed_safely(
    status: object, capsys: pytest.CaptureFixture[str]
) -> None:
    monmap = SimpleNamespace(
        fsid="fsid",
        epoch=1,
        min_mon_release=16,
        ranked=[SimpleNamespace(name=f"{HOSTILE}\nforged: line", public_addrs="v2:10.0.0.1:3300/0")],
    )
    cluster = ClusterFindings(
        AuthName.parse("client.admin"), 1, "crc", 0, monmap, 1, {f"{HOSTILE}": f"{HOSTILE}\n"}, status
    )
    _print(Findings(parse_target("10.0.0.1"), cluster=cluster))
    printed = capsys.readouterr().out
    assert controls_in(printed) == set()
    assert not any(line.strip() == "forged: line" for line in printed.splitlines())
