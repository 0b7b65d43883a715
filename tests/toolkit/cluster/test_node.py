"""The node program, spoken to over its control channel as any controller would."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from messenger.cephx.keys import CryptoKey
from messenger.errors import LocalError
from toolkit.cluster.process import NodeProcess
from toolkit.cluster.programs import LocalProgram
from toolkit.lab.real.real_lab import RealLab
from toolkit.machine.interpreters import PYTHON, environment
from toolkit.node import NodeSpec

KEY = "AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw=="


def _spec(**changes: Any) -> NodeSpec:
    values: dict[str, Any] = {
        "name": "a",
        "entity": "osd.1",
        "addr": "any:0.0.0.0:0/1001",
        "policy": "lossless_peer",
        "mode": "crc",
        "service_key": CryptoKey.from_base64(KEY).to_base64(),
        "peers": {"b": "v2:127.0.0.1:1/1002"},
        "peer_entities": {"b": "osd.2"},
    }
    return NodeSpec.from_json(values | changes)


def _talk(*lines: str) -> tuple[list[Any], str, int]:
    """Run the node on these lines of input: its lines of output, its last word on stderr, its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "toolkit.cluster.node"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.strip(), done.returncode


def test_answers_commands_and_ends_with_its_input() -> None:
    spec = json.dumps(_spec().as_json())
    lines, errors, code = _talk(
        spec,
        '{"id": 1, "verb": "snapshot"}',
        '{"id": 2, "verb": "dance"}',
        '{"id": 3, "verb": "send", "args": {"peer": "nobody", "count": 1, "size_bytes": 1}}',
        '{"id": 4, "verb": "send", "args": {"fish": 1}}',
        "not JSON",
    )
    assert (errors, code) == ("", 0)
    assert lines[0] == {"ready": ":0/1001"} or "ready" in lines[0]
    replies = {line["reply"]: line for line in lines if "reply" in line}
    assert replies[1]["answer"]["links"] == 0
    assert "unknown verb 'dance'; known: arm, auth, calls, configure, connect" in replies[2]["error"]
    assert "nobody" in replies[3]["error"]
    assert "fish" in replies[4]["error"]
    assert "error" in replies[None]


@pytest.mark.parametrize("first", ["", "hello", "{}", '{"name": "a"}'])
def test_node_refuses_an_invalid_spec_in_one_line(first: str) -> None:
    lines, errors, code = _talk(first)
    assert lines == []
    assert code == 1
    assert errors.startswith("msgrlab node: ")
    assert "\n" not in errors


def test_dead_node_is_reported_with_its_last_words() -> None:
    program = LocalProgram([*PYTHON, "-m", "toolkit.cluster.node"], environment=environment(), piped=True)
    node = NodeProcess(_spec(policy="friendly"), lambda *_: None, program)
    with pytest.raises(LocalError, match=r"node a: it exited before it .* unknown policy 'friendly'"):
        node.wait_ready()


def test_lab_leaves_no_process_behind() -> None:
    lab = RealLab("local", "v2-crc", 1)
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a", "b")
    pids = [node.pid for node in lab._nodes.values()]
    lab.kill("a")
    lab.revive("a")
    pids += [node.pid for node in lab._nodes.values()]
    lab.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_command_to_a_refusing_node_raises() -> None:
    lab = RealLab("local", "v2-crc", 1)
    lab.node("a", "osd.1", "lossless_peer")
    try:
        lab.start("a")
        with pytest.raises(LocalError, match=r"node a: connect: no peer 'nobody'"):
            lab._command("a", "connect", peer="nobody")
    finally:
        lab.close()
