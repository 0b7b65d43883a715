"""Workloads in specs: which clients they are for, and what is wrong with them."""

import pytest

from messenger.errors import LocalError
from toolkit.cluster.changes import without_node
from toolkit.cluster.spec import ClusterSpec, parse_spec
from toolkit.cluster.spec.model import Traffic, Workload

NODES = """nodes:
  mon: {ceph: mon}
  osd: {ceph: osd}
  app: {rados: client.app, count: 2}
  sole: {rados: client.sole}
  a: {entity: osd.8}
  b: {entity: osd.9}
"""


def workers(spec: ClusterSpec) -> list[str]:
    return [each.sender for each in spec.traffic if isinstance(each, Workload)]


@pytest.mark.parametrize(
    ("traffic", "names"),
    [
        ("rados-register", ["app0", "app1", "sole"]),
        ("[{workload: rados-register}]", ["app0", "app1", "sole"]),
        ("[{workload: rados-register, from: app}]", ["app0", "app1"]),
        ("[{workload: rados-register, from: app1}, {workload: rados-register, from: sole}]", ["app1", "sole"]),
    ],
)
def test_clients_of_a_workload(traffic: str, names: list[str]) -> None:
    spec = parse_spec(f"{NODES}traffic: {traffic}\n", "f.yaml")
    assert workers(spec) == names
    assert workers(ClusterSpec.model_validate(spec.as_json())) == names


def test_messages_and_workloads_side_by_side() -> None:
    traffic = "[{from: a, to: b}, {workload: rados-register, from: sole, objects: 5, every_ms: 7, count: 9}]"
    spec = parse_spec(f"{NODES}traffic: {traffic}\n", "f.yaml")
    message, work = spec.traffic
    assert isinstance(message, Traffic)
    assert message.beginning[0] == "traffic"
    assert work.beginning == ("registers", {"objects": 5, "every_ms": 7, "count": 9})
    assert [each.sender for each in without_node(spec, "b").traffic] == ["sole"]


@pytest.mark.parametrize(
    ("traffic", "text"),
    [
        ("rados-regster", "8: traffic: unknown workload 'rados-regster'; known: rados-register; did you mean"),
        ("5", "8: traffic: give a list, not 5"),
        ("[{workload: x}]", "8: traffic.0.workload: "),
        ("[{workload: rados-register, from: c}]", "8: traffic.0.from: unknown node 'c'"),
        ("[{workload: rados-register, from: osd}]", "8: traffic.0.from: osd is a real daemon: a workload is for"),
        (
            "[{workload: rados-register, from: a}]",
            "8: traffic.0.from: a is a messenger of ours: a workload is for",
        ),
        ("[{workload: rados-register, to: a}]", "8: traffic.0.to: unknown key"),
        ("[{workload: rados-register, objects: 65}]", "8: traffic.0.objects: give at most 64, not 65"),
        (
            "[{from: a, to: b}, {workload: rados-register}, {workload: rados-register, from: sole}]",
            "8: traffic.2: sole has a workload already",
        ),
        ("[{workload: rados-register, from: sole}, {from: a, to: c}]", "8: traffic.1.to: unknown node 'c'"),
        (
            "[{workload: rados-register, from: sole}, {from: a, to: app0}]",
            "8: traffic.1: app0 is a client of real",
        ),
    ],
)
def test_spec_refuses_invalid_workloads(traffic: str, text: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_spec(f"{NODES}traffic: {traffic}\n", "f.yaml")
    assert str(caught.value).startswith(f"f.yaml:{text}")


def test_there_must_be_a_client() -> None:
    with pytest.raises(LocalError, match="there is no client to do it; give a node"):
        parse_spec("nodes: {a: {entity: osd.1}}\ntraffic: rados-register\n", "f.yaml")
