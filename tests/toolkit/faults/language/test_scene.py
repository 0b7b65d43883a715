"""Effects of faults on a cluster, their duration and their end."""

import threading

import pytest

from messenger.errors import LocalError
from tests.support.scene import RecordedCluster
from tests.support.waiting import eventually
from toolkit.errors import Unsupported
from toolkit.faults.language import parse, words
from toolkit.network.state import LinkState


@pytest.fixture
def cluster() -> RecordedCluster:
    return RecordedCluster()


@pytest.mark.parametrize(
    ("text", "done", "undone"),
    [
        ("kill b", [("kill", "b")], [("restart", "b")]),
        ("stop b", [("stop", "b")], [("restart", "b")]),
        ("freeze b", [("freeze", "b")], [("thaw", "b")]),
        ("clock b +5", [("command", "b", "jump_clock", 5.0)], [("command", "b", "jump_clock", -5.0)]),
        (
            "partition a b",
            [("block", "a", "b"), ("block", "b", "a")],
            [("unblock", "a", "b"), ("unblock", "b", "a")],
        ),
        ("partition a b --one-way", [("block", "a", "b")], [("unblock", "a", "b")]),
        ("block a b 6800", [("block", "a", "b", 6800)], [("unblock", "a", "b", 6800)]),
        ("refuse a b", [("refuse", "a", "b")], [("accept", "a", "b")]),
        ("refuse a b 3300", [("refuse", "a", "b", 3300)], [("accept", "a", "b", 3300)]),
        ("nat a b", [("nat", "a", "b")], [("no_nat", "a", "b")]),
        ("black-hole a b 600", [("black_hole", "a", "b", 600)], [("black_hole", "a", "b", 0)]),
        (
            "link a b delay-ms=5 --both-ways",
            [("set_link", "a", "b", "delay 5ms"), ("set_link", "b", "a", "delay 5ms")],
            [("set_link", "a", "b", "no impairments"), ("set_link", "b", "a", "no impairments")],
        ),
        (
            "proxy a b '-> MESSAGE #3: hold x'",
            [("add_rule", "-> MESSAGE #3: hold x")],
            [("remove_rule", "-> MESSAGE #3: hold x")],
        ),
        (
            "arm a 'MESSAGE READ' BLOCK 2",
            [("command", "a", "arm", "MESSAGE READ", "BLOCK", 2)],
            [("command", "a", "disarm"), ("command", "a", "unblock", "MESSAGE READ")],
        ),
    ],
)
def test_lasting_faults(cluster: RecordedCluster, text: str, done, undone) -> None:
    assert cluster.do(text) == done
    assert [str(fault) for fault in cluster.scene.in_force] == [str(parse(text))]
    with pytest.raises(LocalError):
        cluster.do(text)
    assert cluster.do(f"undo {text}") == undone
    assert cluster.scene.in_force == ()
    with pytest.raises(LocalError, match="not in force"):
        cluster.do(f"undo {text}")


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("restart b", [("restart", "b")]),
        ("restart b --wiped --new-nonce", [("restart", "b", "new_nonce", "wiped")]),
        ("reset a b", [("reset", "a", "b")]),
        ("nat-flush a b", [("nat_flush", "a", "b")]),
        ("nat-flush a b --silent", [("nat_flush", "a", "b", "silent")]),
        ("finish b a", [("finish", "b", "a")]),
        ("mark-down a b", [("command", "a", "mark_down", "b")]),
        ("unblock a", [("command", "a", "unblock", "")]),
        ("release b a held", [("release", "held")]),
        ("heal", [("heal",)]),
    ],
)
def test_momentary_faults(cluster: RecordedCluster, text: str, done) -> None:
    assert cluster.do(text) == done
    assert cluster.scene.in_force == ()


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        ("kill b", "start b"),
        ("stop b", "restart b"),
        ("freeze b", "thaw b"),
        ("freeze b", "kill b"),
        ("clock b +60", "restart b"),
        ("arm b 'HELLO READ' FAULT", "unblock b"),
        ("partition a b", "heal"),
        ("partition a b", "heal b a"),
        ("link a b delay-ms=5", "heal a b"),
        ("isolate a", "heal"),
        ("flap a b", "heal"),
    ],
)
def test_one_fault_ends_another(cluster: RecordedCluster, fault: str, ending: str) -> None:
    cluster.do(fault)
    cluster.do(ending)
    assert fault not in map(str, cluster.scene.in_force)


def test_heal_of_two_nodes_keeps_other_faults(cluster: RecordedCluster) -> None:
    cluster.do("partition a b")
    cluster.do("partition a c")
    cluster.do("kill b")
    assert cluster.do("heal a b") == [("unblock", "a", "b"), ("unblock", "b", "a")]
    assert [str(fault) for fault in cluster.scene.in_force] == ["partition a c", "kill b"]


def test_direction_opens_when_its_last_block_ends(cluster: RecordedCluster) -> None:
    cluster.do("partition a b")
    assert ("block", "a", "b") not in cluster.do("isolate a")
    assert ("unblock", "a", "b") not in cluster.do("undo partition a b")
    assert ("unblock", "a", "b") in cluster.do("undo isolate a")


def test_latest_link_state_applies_until_it_is_undone(cluster: RecordedCluster) -> None:
    before = LinkState(delay_ms=1)
    cluster.network.states["a", "b"] = before
    cluster.do("link a b delay-ms=5")
    cluster.do("link a b delay-ms=9")
    assert cluster.do("undo link a b delay-ms=5") == [("set_link", "a", "b", "delay 9ms")]
    assert cluster.do("undo link a b delay-ms=9") == [("set_link", "a", "b", "delay 1ms")]
    assert cluster.network.states["a", "b"] == before


def test_flapping_repeats_and_ends_unblocked(cluster: RecordedCluster) -> None:
    cluster.do("flap a b --period-s 0.02")
    eventually(lambda: cluster.calls.count(("unblock", "b", "a")) >= 3)
    (flapping,) = (thread for thread in threading.enumerate() if "flap" in thread.name)
    cluster.do("undo flap a b --period-s 0.02")
    assert not flapping.is_alive()
    assert cluster.calls.count(("block", "a", "b")) == cluster.calls.count(("unblock", "a", "b")) >= 3


def test_flapping_that_cannot_begin_is_refused(cluster: RecordedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.network, "block", no_rules)
    with pytest.raises(Unsupported, match="no nft"):
        cluster.do("flap a b")
    assert cluster.scene.in_force == ()
    assert not [thread for thread in threading.enumerate() if "flap" in thread.name]


def test_failed_flapping_is_recorded_in_the_history(
    cluster: RecordedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.do("flap a b --period-s 0.02")
    monkeypatch.setattr(cluster.network, "block", no_rules)
    eventually(lambda: any(step["verb"] == "not done" for step in cluster.recorded("step")))
    assert {"verb": "not done", "args": "flap a b --period-s 0.02: no nft"}.items() <= cluster.recorded("step")[
        -1
    ].items()
    cluster.do("undo flap a b --period-s 0.02")
    assert cluster.scene.in_force == ()


def no_rules(*_: object, **__: object) -> None:
    raise Unsupported("no nft")


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["kill x"], "no node 'x'; known: a, b, c, d"),
        (["kill b", "kill b"], "kill b: it is in force already"),
        (["kill b", "stop b"], "b does not run: start b"),
        (["kill b", "mark-down b a"], "b does not run: start b"),
        (["kill b", "freeze b"], "b does not run"),
        (["start b"], "b runs already"),
        (["thaw b"], "b is not frozen"),
        (["freeze b", "stop b"], "thaw b"),
        (["freeze b", "mark-down b a"], "b is frozen: thaw b"),
        (["partition a b", "undo partition b a"], "did you mean partition a b?"),
        (["undo kill b"], "undo: kill b is not in force; nothing is"),
    ],
)
def test_scene_refuses_faults_that_contradict_its_state(
    cluster: RecordedCluster, texts: list[str], complaint: str
) -> None:
    *before, last = texts
    for text in before:
        cluster.do(text)
    with pytest.raises(LocalError) as caught:
        cluster.do(last)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("clock d +1", "d is a real daemon with the clock of its machine"),
        ("mark-down d a", "d is a real osd"),
        ("proxy a c '-> HELLO: cut'", "no proxy between a and c (there is one between a and b)"),
        ("descriptors d 0", "on another machine"),
    ],
)
def test_scene_refuses_unsupported_faults(cluster: RecordedCluster, text: str, complaint: str) -> None:
    with pytest.raises(Unsupported) as caught:
        cluster.do(text)
    assert complaint in str(caught.value)
    assert cluster.scene.in_force == ()


def test_words_name_the_reason_why_a_fault_is_unsupported(cluster: RecordedCluster) -> None:
    assert not any(word.missing for word in words(cluster.scene))
    del cluster.nodes["a"], cluster.nodes["b"], cluster.nodes["c"]
    missing = {word.word: word.missing for word in words(cluster.scene) if word.missing}
    assert "clock of its machine" in missing["clock"]
    assert missing["partition"] == "it needs two nodes"
    assert "kill" not in missing
    cluster.network.lacks = {"reset": "not on this network"}
    cluster.nodes["e"] = cluster.nodes["d"]
    assert {word.word: word.missing for word in words(cluster.scene)}["reset"] == "not on this network"


def test_failed_partition_is_undone(cluster: RecordedCluster) -> None:
    blocked = cluster.network.block

    def block(sender: str, receiver: str, *, port: int = 0) -> None:
        if sender == "b":
            raise LocalError("no rule can be added")
        blocked(sender, receiver, port=port)

    cluster.network.block = block  # type: ignore[method-assign]
    with pytest.raises(LocalError, match="no rule"):
        cluster.do("partition a b")
    assert cluster.calls == [("block", "a", "b"), ("unblock", "a", "b")]
    assert cluster.scene.in_force == ()


def test_mend_undoes_every_fault(cluster: RecordedCluster) -> None:
    for text in ("partition a b", "kill b", "freeze c", "link a c loss=5", "clock a +9"):
        cluster.do(text)
    cluster.nodes["d"].alive = False  # by itself
    before = len(cluster.calls)
    cluster.do("mend")
    assert cluster.scene.in_force == ()
    assert all(node.alive for node in cluster.nodes.values())
    assert {("restart", "b"), ("restart", "d"), ("thaw", "c"), ("heal",)} <= set(cluster.calls[before:])


def test_thawed_node_learns_new_addresses(cluster: RecordedCluster) -> None:
    cluster.do("freeze c")
    cluster.do("restart b --new-nonce")
    assert cluster.do("thaw c") == [("thaw", "c"), ("command", "c", "moved", "b", cluster.nodes["b"].address)]


def test_history_records_faults(cluster: RecordedCluster) -> None:
    for text in ("partition a b --one-way", "reset a b", "undo partition a b --one-way"):
        cluster.do(text)
    assert [(step["verb"], step["args"]) for step in cluster.recorded("step")] == [
        ("partition", "a b --one-way"),
        ("reset", "a b"),
        ("undo", "partition a b --one-way"),
    ]
    assert [(path["fault"], path["a"], path["b"]) for path in cluster.recorded("path")] == [
        ("partition", "a", "b"),
        ("heal", "a", "b"),
    ]
    assert cluster.recorded("cut") == [{"a": "a", "b": "b", "at": {}, "detail": "reset of 2 connections"}]


def test_devices_that_programs_of_ceph_keep_open_are_not_removed(cluster: RecordedCluster) -> None:
    assert ("rdma_remove", "a") in cluster.do("rdma-remove a")
    cluster.do("rdma-add a")
    cluster.nodes["d"].keeps_devices = True
    with pytest.raises(Unsupported, match="d is of Ceph, whose programs keep the devices of all nodes open"):
        cluster.do("rdma-remove a")
    assert cluster.scene.in_force == ()


def test_faults_cannot_name_a_node_that_is_being_removed(cluster: RecordedCluster) -> None:
    cluster.do("partition a b")
    with cluster.scene.leaving("b") as problems:
        assert (problems, cluster.scene.in_force, "b" in cluster.scene.hosts) == ([], (), False)
        with pytest.raises(LocalError, match="no node 'b'"):
            cluster.do("partition a b")
    assert cluster.do("partition a b")
