"""The conformance suite against our own nodes, against targets that break rules, and against a real monitor."""

import importlib.util
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.protocols import Protocol
from toolkit.cluster import Cluster
from toolkit.cluster.monitor import Mode, RealMonitor
from toolkit.cluster.spec import parse_spec
from toolkit.conformance.case import CRASHED, Need, all_cases
from toolkit.conformance.login import Login
from toolkit.conformance.runner import Result, Verdict, run_case, run_cases, select
from toolkit.conformance.survey import survey
from toolkit.conformance.target import Facts, Target
from toolkit.probe.findings import parse_target

ROOT = Path(__file__).parents[3]
NODES = """
speaks: {mode: crc}
nodes:
  both: {entity: osd.1, speaks: {protocol: v1+v2, mode: crc}}
  secure: {entity: osd.2, speaks: {mode: secure}}
  open: {entity: osd.3, speaks: {auth: none}}
  kernel: {entity: osd.4, options: {skipped_seq: fault, aborted_message: fault}}
  classic: {entity: osd.5, options: {control_segments: last, reconnect_cookies: client}}
"""


@pytest.fixture(scope="module")
def nodes(msgrlab_shared_cluster: Callable[..., Cluster]) -> Cluster:
    return msgrlab_shared_cluster(parse_spec(NODES, "conformance.yaml"))


def _targets(cluster: Cluster, node: str, *, key: bool = True) -> list[Target]:
    """The addresses of a node, with the credentials of another OSD."""
    login = Login(AuthName(EntityType.OSD, "9"), key_log=cluster.directory / "service.keys" if key else None)
    return [survey(addr, login, 5.0) for addr in AddrVec.parse(cluster.nodes[node].address)]


def _not_passed(results: list[Result]) -> dict[str, tuple[str, str]]:
    fine = (Verdict.PASS, Verdict.SKIPPED)
    return {one.case.id: (one.verdict.value, one.outcome) for one in results if one.verdict not in fine}


# ---- nodes that keep to the rules


def test_our_node_passes_every_case_of_both_protocols(nodes: Cluster) -> None:
    for target in _targets(nodes, "both"):
        results = run_cases(select(protocols=[target.protocol]), target, destructive=True)
        assert _not_passed(results) == {}
        assert sum(one.verdict is Verdict.PASS for one in results) > (
            300 if target.protocol is Protocol.V2 else 80
        )


def test_our_node_passes_in_secure_mode(nodes: Cluster) -> None:
    (target,) = _targets(nodes, "secure")
    results = run_cases(select(["v2/secure", "v2/resume", "cephx/authorizer"]), target, destructive=True)
    assert _not_passed(results) == {}
    assert {one.outcome for one in results if one.verdict is Verdict.SKIPPED} == set()


def test_without_a_key_the_sessions_are_those_of_method_none(nodes: Cluster) -> None:
    (target,) = _targets(nodes, "open", key=False)
    results = run_cases(select(["v2/auth", "v2/ident"]), target)
    assert _not_passed(results) == {}
    assert all(Need.CEPHX in one.case.needs for one in results if "cephx" in one.outcome)


def test_cases_that_need_a_key_are_skipped_without_a_keyring(nodes: Cluster) -> None:
    target = _targets(nodes, "both", key=False)[0]
    (banner, session) = run_cases(select(["v2/banner/1", "v2/ident/1"]), target)
    assert banner.verdict is Verdict.PASS
    assert (session.verdict, session.outcome) == (
        Verdict.SKIPPED,
        "the target requires authentication; needs --keyring",
    )


def test_destructive_cases_are_run_only_if_asked_for(nodes: Cluster) -> None:
    (result,) = run_cases(select(["v2/resume/1"]), _targets(nodes, "both")[0])
    assert (result.verdict, result.outcome) == (Verdict.SKIPPED, "it may disturb the target; needs --destructive")


# ---- nodes with other rules, targets without any


@pytest.mark.parametrize(
    ("node", "case", "verdict"),
    [
        ("kernel", "v2/seq/3", Verdict.AS_KERNEL),
        ("kernel", "v2/frame/13", Verdict.AS_KERNEL),
        ("classic", "v2/preamble/20", Verdict.AS_CLASSIC),
        ("classic", "v2/resume/8", Verdict.AS_CLASSIC),
    ],
)
def test_a_disputed_rule_is_recognised(nodes: Cluster, node: str, case: str, verdict: Verdict) -> None:
    (target,) = _targets(nodes, node)
    (result,) = run_cases(select([case]), target, destructive=True)
    assert result.verdict is verdict


@contextmanager
def _acceptor(answer: bytes) -> Iterator[EntityAddr]:
    """A target that sends ``answer`` on each connection, reads nothing and closes nothing."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                    held[-1].sendall(answer)
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield EntityAddr.from_host("127.0.0.1", server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for sock in held:
                sock.close()


def _unsurveyed(addr: EntityAddr, protocol: Protocol) -> Target:
    facts = Facts(EntityType.OSD, 3, [AuthMethod.NONE], [ConMode.CRC, ConMode.SECURE], "", "", True, True, True)
    name = Login(AuthName(EntityType.OSD, "9")).entity
    client = CephxClient(AuthName(EntityType.OSD, "9"), CryptoKey(KeyType.AES, bytes(16)))
    return Target(addr.with_type(protocol.addr_type), name, client, True, 0.002, facts)


@pytest.mark.parametrize("protocol", list(Protocol))
def test_a_target_that_never_answers_passes_no_case(protocol: Protocol) -> None:
    with _acceptor(b"") as addr:
        target = _unsurveyed(addr, protocol)
        results = [run_case(case, target) for case in select(protocols=[protocol])]
    assert [one.case.id for one in results if one.verdict is Verdict.PASS] == []
    by_area = {one.case.area for one in results if one.verdict is Verdict.DIFFERS}
    assert by_area == {case.area for case in all_cases() if case.protocol is protocol}


def test_run_cases_skips_cases_after_the_target_ended() -> None:
    with _acceptor(b"") as addr:
        target = _unsurveyed(addr, Protocol.V2)
    banner, hello = run_cases(select(["v2/banner/1", "v2/hello/1"]), target)
    assert (banner.verdict, hello.verdict) == (Verdict.DIFFERS, Verdict.SKIPPED)
    assert "refused" in banner.outcome
    assert "the target accepts no connections" in hello.outcome


def test_run_cases_runs_crashing_cases_last(nodes: Cluster) -> None:
    cases = select(["v2/preamble/17", "v2/banner/1"])
    results = run_cases(cases, _targets(nodes, "both")[0])
    assert [one.case.id for one in results] == ["v2/banner/1", "v2/preamble/17"]
    assert CRASHED in results[-1].case.variants["classic"]


# ---- a real monitor


@pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_ceph_monitor_passes_every_known_case(real_monitor: Callable[[Mode], RealMonitor], mode: Mode) -> None:
    monitor = real_monitor(mode)
    login = Login(AuthName.parse("client.admin"), monitor.keyring)
    for text in (monitor.addr_v2, monitor.addr_v1):
        target = survey(parse_target(text), login, 1.0)
        known = ["v2/seq", "v1/seq", "v1/stream/5"]  # where classic falls silent, which takes a second each
        cases = [case for case in select(protocols=[target.protocol]) if not case.id.startswith(tuple(known))]
        results = run_cases(cases, target)
        assert {id_: found for id_, found in _not_passed(results).items() if found[0] == "differs"} == {}
        assert sum(one.verdict is Verdict.PASS for one in results) > 50


# ---- the list


def test_ids_are_numbered_without_gaps_and_sections_exist() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    numbers: dict[str, list[int]] = {}
    for case in all_cases():
        numbers.setdefault(case.area, []).append(int(case.id.rpartition("/")[2]))
        assert f"(#{case.link.partition('#')[2]})" in page, case.id
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    assert len(all_cases()) >= 500


def test_the_page_of_results_is_up_to_date() -> None:
    path = ROOT / "docs" / "conformance.py"
    spec = importlib.util.spec_from_file_location("docs_conformance", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = json.loads(module.RESULTS.read_text())
    assert module.page(results) == module.PAGE.read_text(), "PYTHONPATH=. python docs/conformance.py"
