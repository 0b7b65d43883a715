"""Alike nodes in short."""

import pytest

from messenger.errors import LocalError
from toolkit.cluster.spec import ClusterSpec, parse_spec


def spec(text: str) -> ClusterSpec:
    return parse_spec(text, "f.yaml")


def error_text(text: str) -> str:
    with pytest.raises(LocalError) as caught:
        spec(text)
    return str(caught.value)


def test_a_count_makes_nodes_that_are_numbered_on() -> None:
    found = spec("nodes: {osd: {entity: osd.7, count: 3, policy: lossy_client}}").messengers()
    assert {name: node.entity for name, node in found.items()} == {
        "osd0": "osd.7",
        "osd1": "osd.8",
        "osd2": "osd.9",
    }
    assert {(node.policy, node.count, node.group) for node in found.values()} == {("lossy_client", 1, "osd")}


def test_daemons_and_clients_are_counted_too() -> None:
    found = spec("nodes: {m: {ceph: mon}, o: {ceph: osd, count: 2}, app: {rados: client.w, count: 2}}")
    assert list(found.daemons()) == ["m", "o0", "o1"]
    assert {name: client.rados for name, client in found.clients().items()} == {
        "app0": "client.w0",
        "app1": "client.w1",
    }


def test_a_count_of_one_is_the_node_itself() -> None:
    assert list(spec("nodes: {a: {entity: osd.1, count: 1}}").nodes) == ["a"]


THREE = (
    "nodes:\n  osd: {entity: osd.0, count: 3}\n  c: {entity: client.1, policy: lossless_client, listens: false}\n"
)


def test_a_group_stands_for_each_of_its_nodes() -> None:
    found = spec(
        THREE + "traffic: [{from: c, to: osd}, {from: osd, to: c, size_bytes: 7}]\n"
        "links: [{from: osd, to: c, delay_ms: 5}]\n"
        "proxies: [{from: c, to: osd}]\ncaptures: [{node: osd}, {node: c}]\n"
    )
    assert [(item.sender, item.receiver) for item in found.traffic] == [
        *(("c", f"osd{n}") for n in range(3)),
        *((f"osd{n}", "c") for n in range(3)),
    ]
    assert {item.size_bytes for item in found.traffic[3:]} == {7}
    assert [(link.sender, link.receiver, link.delay_ms) for link in found.links] == [
        (f"osd{n}", "c", 5) for n in range(3)
    ]
    assert [(proxy.sender, proxy.receiver) for proxy in found.proxies] == [("c", f"osd{n}") for n in range(3)]
    assert [capture.file_name for capture in found.captures] == [
        f"{n}.pcapng" for n in ("osd0", "osd1", "osd2", "c")
    ]


def test_traffic_and_links_within_a_group_are_pairwise() -> None:
    found = spec(THREE + "traffic: [{from: osd, to: osd}]\nlinks: [{from: osd, to: osd, both_ways: true}]\n")
    assert len(found.traffic) == 6
    assert {(link.sender, link.receiver) for link in found.links} == {
        ("osd0", "osd1"),
        ("osd0", "osd2"),
        ("osd1", "osd2"),
    }


def test_nodes_may_be_put_into_a_group_by_hand() -> None:
    found = spec(
        "nodes:\n  a: {entity: osd.1, group: left}\n  b: {entity: osd.2, group: left}\n  c: {entity: osd.3}\n"
        "traffic: [{from: left, to: c}]\n"
    )
    assert [item.sender for item in found.traffic] == ["a", "b"]


def test_traffic_may_name_one_node_of_a_group() -> None:
    assert spec(THREE + "traffic: [{from: osd0, to: osd2}]").traffic[0].receiver == "osd2"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "nodes:\n  a1: {entity: osd.9}\n  a: {entity: osd.1, count: 2}\n",
            "f.yaml:3: nodes.a: it makes a node a1, and",
        ),
        (
            "nodes:\n  abcdefgh: {entity: osd.1, count: 2}\n",
            "f.yaml:2: nodes.abcdefgh.count: it makes a node abcdefgh0",
        ),
        (
            "nodes:\n  a: {entity: osd.1, count: 150}\n  b: {entity: osd.200, count: 60}\n",
            "f.yaml:1: nodes: 210 nodes",
        ),
        (
            "nodes:\n  a: {entity: osd.1, group: b}\n  b: {entity: osd.2}\n",
            "f.yaml:2: nodes.a: b is the name of a node,",
        ),
        (
            "nodes:\n  a: {entity: osd.1, count: 110}\nlinks:\n  - {from: a, to: a}\n",
            "f.yaml:3: links: more than 10000 pairs of nodes",
        ),
        (
            "nodes:\n  a: {entity: osd.1, count: 200}\ntraffic:\n  - {from: a, to: a}\n  - {from: a, to: a}\n",
            "f.yaml:3: traffic: more than 40000 pairs of nodes",
        ),
        (
            "nodes:\n  a: {entity: osd.1, count: 2}\ncaptures:\n  - {node: a, file: x.pcapng}\n",
            "f.yaml:4: captures.0: x.pcapng is another capture already",
        ),
    ],
)
def test_spec_refuses_invalid_groups(text: str, line: str) -> None:
    assert error_text(text).startswith(line), error_text(text)
