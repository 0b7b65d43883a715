"""up, status, exec, tell, fault and down, as a user types them."""

import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.clusters import (
    answer_of,
    command_line,
    done,
    environment,
    kill_processes_of,
    msgrlab,
    processes_of,
    remains,
    state,
)
from toolkit.checks.history import History
from toolkit.cluster.supervisor import wire
from toolkit.cluster.supervisor.client import NotKept, ask
from toolkit.machine.leases import Lease, leases

__all__ = ["state"]

pytestmark = pytest.mark.usefixtures("state")

SPEC = """\
name: pair
nodes:
  a: {entity: osd.1}
  b: {entity: osd.2}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(SPEC)
    return str(path)


@pytest.fixture
def pair(spec: str) -> Iterator[str]:
    """A cluster that is up."""
    done("up", spec)
    yield "pair"
    done("down", "pair")


def status_of(name: str) -> Any:
    found = answer_of("status", name, "--json")["clusters"]
    assert len(found) == 1
    return found[0]


def test_a_cluster_from_up_to_down(spec: str, state: Path) -> None:
    printed = done("up", spec)
    assert re.match(
        r"cluster pair is up: 2 nodes in \d+\.\d\d s\n  a  messenger  v2:127\.0\.0\.1:\d+/1001\n", printed
    )
    assert "msgrlab down pair" in printed
    label = str(Lease.find("pair").label)
    assert "cluster 'pair' exists already" in msgrlab("up", spec).stderr

    done("tell", "a", "send", "b", "--count", "3")
    deadline_s = time.monotonic() + 20
    while not (sessions := status_of("pair")["nodes"]["b"]["sessions"]) or sessions[0]["in_seq"] < 3:
        assert time.monotonic() < deadline_s
    assert answer_of("tell", "b", "session", "a")["in_seq"] == 3
    table = done("status")
    assert re.search(r"b +messenger +up +\d+ +v2:127\.0\.0\.1:\d+/1002 +a READY connect_seq=0 in_seq=3", table)
    assert "checks: " in table

    assert "no node 'c'" in msgrlab("fault", "partition a c").stderr
    assert "no cluster 'other'" in msgrlab("fault", "partition", "a", "b", "--name", "other").stderr
    assert "no peer 'c'" in msgrlab("tell", "a", "send", "c").stderr
    done("fault", "partition", "a", "b")
    about = status_of("pair")
    assert about["faults"] == ["partition a b"]
    assert {(link["from"], link["to"]) for link in about["links"] if link["blocked"]} == {("a", "b"), ("b", "a")}
    done("fault", "heal")
    done("fault", "kill b")
    assert (status_of("pair")["state"], status_of("pair")["nodes"]["b"]["state"]) == ("hurt", "down")
    done("fault", "restart b --new-nonce")
    assert status_of("pair")["nodes"]["b"]["address"].endswith("/3002")

    assert done("down") == "pair: down\n"
    assert (remains(state), processes_of(label)) == ([], [])
    assert done("status") == "no cluster is up: msgrlab up two-peers\n"


def test_exec_runs_on_the_host_of_a_node(spec: str) -> None:
    done("up", spec)
    label = str(Lease.find("pair").label)
    finished = msgrlab("exec", "a", "--", "sh", "-c", "pwd; echo $MSGRLAB_CLUSTER; cat; exit 7", stdin="words")
    directory = Lease.find("pair").directory / "a"
    assert (finished.stdout, finished.returncode) == (f"{directory}\n{label}\nwords", 7)
    assert msgrlab("exec", "a", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    for arguments, complaint in (
        (("exec", "a", "--", "nosuch"), "a: nosuch: there is no such program on this host"),
        (("exec", "z", "--", "true"), "no node 'z' in cluster 'pair'; there are a, b"),
        (("exec", "--name", "other", "a", "--", "true"), "no cluster 'other'; there is pair"),
    ):
        failed = msgrlab(*arguments)
        assert (failed.returncode, failed.stderr) == (2, f"msgrlab: {complaint}\n")
    done("down")


def test_several_clusters_need_names(spec: str, state: Path) -> None:
    done("up", spec)
    assert answer_of("up", spec, "--name", "other", "--set", "speaks.mode=secure", "--json")["name"] == "other"
    failed = msgrlab("exec", "a", "--", "true")
    assert failed.stderr == "msgrlab: several clusters are up: other, pair; choose one with --name\n"
    assert [each["name"] for each in answer_of("status", "--json")["clusters"]] == ["other", "pair"]
    assert done("down", "--all") == "other: down\npair: down\n"
    assert remains(state) == []
    assert done("down", "--all") == "no cluster is up\n"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["up", "nosuch"], 2, "no cluster 'nosuch'"),
        (["up", "{spec}", "--backend", "podman"], 2, "unknown backend 'podman'; known: process, netns, docker"),
        (["up", "{spec}", "--set", "nodes.a.policy=friendly"], 2, "unknown policy 'friendly'"),
        (["up", "{spec}", "--set", "speaks.mod=secure"], 2, "unknown key"),
        (["up", "{spec}", "--set", "speaks"], 2, "give KEY=VALUE"),
        (["up", "{spec}", "--set", "records=lots"], 2, "records: give a whole number, not 'lots'"),
        (["up", "{spec}", "--set", "nodes.a.listens=perhaps"], 2, "give true or false, not 'perhaps'"),
        (["up", "{spec}", "--name", "No Name"], 2, "is no name for a cluster"),
        (["up", "{spec}", "--set", "networks.public.subnet=10.77.0.0/24"], 3, "give --backend netns"),
        (["status", "nosuch"], 2, "no cluster 'nosuch'; none is up"),
        (["down", "nosuch"], 2, "no cluster 'nosuch'; none is up"),
        (["tell", "a", "send", "b"], 2, "no cluster is up: msgrlab up two-peers"),
    ],
)
def test_failed_command_reports_one_line_and_leaves_nothing(
    arguments: list[str], code: int, complaint: str, spec: str, state: Path
) -> None:
    failed = msgrlab(*(each.format(spec=spec) for each in arguments))
    assert (failed.returncode, failed.stdout) == (code, "")
    assert failed.stderr.startswith("msgrlab: ")
    assert failed.stderr.count("\n") == 1
    assert complaint in failed.stderr
    assert remains(state) == []


def test_verbs_of_nodes_are_explained(spec: str) -> None:
    done("up", spec)
    for arguments, complaint in (
        (
            ("a", "send", "b", "--cout", "3"),
            "argument 'cout'; it takes peer, count, size_bytes",
        ),
        (("a", "dance"), "no verb 'dance'; there are arm, auth"),
        (("z", "send", "b"), "no node 'z' in cluster 'pair'; there are a, b"),
    ):
        failed = msgrlab("tell", *arguments)
        assert failed.returncode == 2
        assert complaint in failed.stderr
    done("down")


def test_foreground_ends_with_its_command(spec: str, state: Path) -> None:
    running = subprocess.Popen(
        command_line("up", spec, "--foreground", "--json"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    text = ""
    while not text.endswith("}\n") or text.count("{") != text.count("}"):
        text += (line := running.stdout.readline())
        assert line, "it has ended"
    assert json.loads(text)["name"] == "pair"
    assert status_of("pair")["state"] == "up"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert remains(state) == []


def test_signalled_supervisor_takes_its_cluster_down(spec: str, state: Path) -> None:
    done("up", spec)
    label = str(Lease.find("pair").label)
    for pid in processes_of(label):
        if b"supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
            break
    deadline_s = time.monotonic() + 20
    while remains(state) or processes_of(label):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_follower_sees_all_events_until_the_end(spec: str) -> None:
    done("up", spec)
    following = subprocess.Popen(
        command_line("status", "pair", "--follow"), env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert following.stdout is not None
    seen = ""
    while "b         freeze, incarnation 1" not in seen:  # it may not be looking when the first ones come
        done("fault", "freeze b")
        done("fault", "thaw b")
        if select.select([following.stdout], [], [], 0.5)[0]:
            seen += os.read(following.stdout.fileno(), 1 << 16).decode()
    done("down")
    following.communicate(timeout=60)
    assert following.returncode == 0


def test_a_supervisor_answers_requests(spec: str) -> None:
    done("up", spec, "--set", 'proxies=[{"from": a, "to": b, "script": ["-> MESSAGE #9: cut"]}]')
    lease = Lease.find("pair")
    assert all(each["ok"] for each in ask(lease, "check"))
    assert [each["id"] for each in ask(lease, "check", only=["INV-1"])] == ["INV-1"]
    assert ask(lease, "faults") == ["proxy a b '-> MESSAGE #9: cut before'"]
    assert [(each["from"], each["to"]) for each in ask(lease, "proxies")] == [("a", "b")]
    events = ask(lease, "history", after=0)
    assert [event["node"] for event in events["records"] if event["kind"] == "process"] == ["a", "b"]
    assert ask(lease, "history", after=events["next"])["records"] == []
    for request, complaint in (
        ({"do": "dance"}, "unknown request 'dance'; known: add_link, "),
        ({"do": "fault"}, "missing a required argument: 'text'"),
        ({"do": "fault", "text": "dance"}, "no fault 'dance'"),
        ({"do": "check", "only": ["INV-99"]}, "INV-99"),
    ):
        with pytest.raises(LocalError, match=complaint):
            ask(lease, **request)
    with socket.socket(socket.AF_UNIX) as connection, wire.short_path(lease.directory) as path:
        connection.connect(path)
        connection.sendall(b"not JSON\n")
        assert wire.receive(connection) == {"error": "control socket: a line that is no JSON object", "code": 2}
    done("down")
    with pytest.raises(NotKept):
        ask(lease, "status")


@pytest.mark.parametrize("killed", [False, True])
def test_down_with_keep_saves_the_files_of_the_cluster(
    *, killed: bool, spec: str, state: Path, tmp_path: Path
) -> None:
    done("up", spec)
    done("tell", "a", "send", "b")
    while not status_of("pair")["nodes"]["b"]["sessions"]:
        time.sleep(0.01)
    if killed:
        kill_processes_of(str(Lease.find("pair").label))
    assert done("down", "--keep", str(tmp_path / "kept")) == "pair: down\n"
    history = History.load(tmp_path / "kept" / "pair" / "history.ndjson")
    assert {"a", "b"} == set(history.nodes)
    kept = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert remains(state) == []
    done("up", spec)
    again = msgrlab("down", "--keep", str(tmp_path / "kept"))
    assert (again.returncode, "nothing is overwritten" in again.stderr) == (2, True)
    done("down")


@pytest.mark.parametrize(
    "label", [b"", b"two words", b"bad x 01234567", b"other 0 01234567", b"\xff\xfe 0 0", None]
)
def test_commands_name_a_damaged_cluster_and_serve_the_others(label: bytes | None, spec: str, state: Path) -> None:
    done("up", spec)
    bad = state / "bad"
    bad.mkdir()
    (bad / "journal").write_text("")
    if label is not None:
        (bad / "label").write_bytes(label)
    about = answer_of("status", "--json")["clusters"]
    assert [(each["name"], each["state"]) for each in about] == [("pair", "up"), ("bad", "damaged")]
    assert f"cluster 'bad' is damaged: {bad / 'label'}: " in done("status")
    assert done("exec", "a", "--", "echo", "served") == "served\n"
    for arguments in (["down", "bad"], ["status", "bad"], ["exec", "--name", "bad", "a", "--", "true"]):
        refused = msgrlab(*arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "cluster 'bad' is damaged" in refused.stderr
    down = msgrlab("down", "--all")
    assert (down.returncode, down.stderr) == (1, "")
    assert down.stdout.startswith("pair: down\ncluster 'bad' is damaged: ")
    assert down.stdout.endswith(f"remove {bad} by hand\n")
    assert remains(state) == ["bad"]
    shutil.rmtree(bad)


def test_down_names_a_damaged_journal_and_removes_the_other_clusters(spec: str, state: Path) -> None:
    for name in ("one", "two"):
        done("up", spec, "--name", name)
    with (state / "one" / "journal").open("a") as journal:
        journal.write("[]\n")
    assert "one on process: up" in done("status")
    down = msgrlab("down", "--all")
    assert (down.returncode, down.stderr) == (1, "")
    assert down.stdout.startswith("one: some parts could not be removed\n  ")
    assert f"{state}/one/journal:3: journal: not a JSON object: remove {state}/one by hand" in down.stdout
    assert down.stdout.endswith("two: down\n")
    assert remains(state) == ["one"]
    shutil.rmtree(state / "one")


def test_cycles_of_up_and_down_leave_nothing(spec: str, state: Path) -> None:
    for _ in range(3):
        done("up", spec)
        label = str(leases()[0].label)
        done("down", "pair")
        assert (remains(state), processes_of(label)) == ([], [])


MESH = """\
name: mesh
nodes: {n: {entity: osd.1, count: 10}}
"""
"""Its supervisor needs some 90 open files."""


def limited(limit: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command line below a limit of open files."""
    line = ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *command_line(*arguments)]
    return subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)


def test_up_exceeds_the_soft_limit_of_open_files(tmp_path: Path) -> None:
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    brought_up = limited("-Sn 64", "up", str(path))
    assert brought_up.returncode == 0, brought_up.stderr
    assert len(status_of("mesh")["nodes"]) == 10
    done("down", "mesh")


def test_up_refuses_a_cluster_above_the_hard_limit_of_open_files(tmp_path: Path) -> None:
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    refused = limited("-n 256", "up", str(path))
    files = "a cluster of 10 nodes on process needs 290 open files, and the limit is 256"
    assert (refused.returncode, refused.stderr) == (
        3,
        f"msgrlab: {files}: ulimit -Hn 290, or --backend netns\n",
    )


@pytest.mark.parametrize(
    "words", [["status", "--json"], ["fault", "heal"], ["tell", "a", "sessions"]], ids=["status", "fault", "tell"]
)
def test_verbs_about_a_cluster_start_quickly(words: list[str], pair: str) -> None:
    heavy = ("asyncio", "cryptography", "docker", "numpy", "pyroute2", "rich", "ruamel", "ssl", "toolkit.checks")
    script = f"""
import sys
from toolkit.cli.main import run
code = run({words!r})
print(code, sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True
    )
    assert finished.stderr == "0 []\n"
