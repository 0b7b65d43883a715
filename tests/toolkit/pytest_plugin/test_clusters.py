"""Clusters of tests, in sessions of their own."""

import re

import pytest

from tests.support.clusters import remains, state
from tests.support.plugin import run_tests, session

__all__ = ["session", "state"]

pytest_plugins = ["pytester"]

HEAD = """
import pytest
from toolkit.cluster.spec import ClusterSpec

PAIR = ClusterSpec.model_validate({"name": "pair", "nodes": {"a": {"entity": "osd.1"}, "b": {"entity": "osd.2"}}})
"""


def outcome(session: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    return run_tests(session, HEAD + text, *options)


def test_clusters_live_as_long_as_their_tests(session: pytest.Pytester, state: object) -> None:
    result = outcome(
        session,
        """
def test_own(msgrlab_cluster):
    first, second = msgrlab_cluster(PAIR, check=True), msgrlab_cluster(PAIR, settings=["speaks.mode=secure"])
    assert first.name != second.name
    first.nodes["a"].command("send", peer="b", count=3)
    assert second.spec.speaks.mode == "secure"

def test_shared(msgrlab_cluster):
    pytest.cluster = msgrlab_cluster(PAIR, shared=True)

def test_shared_again(msgrlab_cluster):
    assert msgrlab_cluster(PAIR, shared=True) is pytest.cluster
    assert msgrlab_cluster(PAIR) is not pytest.cluster
    assert pytest.cluster.nodes["a"].state == "up"
""",
    )
    result.assert_outcomes(passed=3)
    assert remains(state) == []  # type: ignore[arg-type]


def test_violation_fails_only_tests_with_checks(session: pytest.Pytester) -> None:
    result = outcome(
        session,
        """
import os, signal, time

def hurt(cluster):
    os.kill(cluster.nodes["b"].pid, signal.SIGSEGV)
    while cluster.nodes["b"].state != "dead":
        time.sleep(0.01)

def test_unchecked(msgrlab_cluster):
    hurt(msgrlab_cluster(PAIR))

def test_checked(msgrlab_cluster):
    hurt(msgrlab_cluster(PAIR, check=True))
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    assert re.search(r"cluster pair-\S+: INV-\d+ .*: b: the process ended by itself", str(result.stdout))


def test_leftovers_of_a_cluster_fail_its_test(session: pytest.Pytester) -> None:
    result = outcome(
        session,
        """
import toolkit.machine.leaks

def test_leaves_something(msgrlab_cluster):
    cluster = msgrlab_cluster(PAIR)
    toolkit.machine.leaks.leftovers = lambda lease, **how: [f"a directory of {lease.label.name}"]
""",
    )
    result.assert_outcomes(passed=1, errors=1)
    assert re.search(r"(pair-\S+) has left a directory of \1", str(result.stdout))


def test_cluster_that_fails_to_start_fails_its_test(session: pytest.Pytester) -> None:
    result = outcome(
        session,
        """
def test_wrong(msgrlab_cluster):
    msgrlab_cluster(PAIR, settings=["nodes.a.policy=friendly"])
""",
    )
    result.assert_outcomes(failed=1)
    assert "unknown policy 'friendly'" in str(result.stdout)
    assert "toolkit/" not in str(result.stdout), "the traceback ends in the test"


def test_workers_of_a_group_share_a_cluster(session: pytest.Pytester, state: object) -> None:
    result = outcome(
        session,
        """
import os

@pytest.fixture(scope="session")
def pair(msgrlab_shared_cluster):
    return msgrlab_shared_cluster(PAIR)

@pytest.mark.parametrize("number", range(4))
def test_shared(pair, number, record_property):
    print("cluster", pair.name)
    assert number < 3

def test_alone(): pass
""",
        *("-p", "xdist", "-n", "2", "--dist", "loadgroup", "-rP"),
    )
    result.assert_outcomes(passed=4, failed=1)
    assert len(set(re.findall(r"^cluster (pair-gw\S+)", str(result.stdout), re.MULTILINE))) == 1
    assert re.search(r"-- msgrlab: cluster pair-gw\S+ --", str(result.stdout)), "the report has what is shared"
    assert remains(state) == []  # type: ignore[arg-type]
