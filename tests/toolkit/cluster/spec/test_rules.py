"""Settings of a spec that exclude each other: each mistake with its line, and no error for valid ones."""

import pytest
from pydantic import ValidationError

from messenger.config import Config
from messenger.errors import LocalError
from toolkit.cluster.spec import ClusterSpec, parse_spec
from toolkit.node import parse_entity

PEERS = "nodes:\n  a: {entity: osd.1}\n  b: {entity: osd.2}\n"


def error_lines(text: str) -> list[str]:
    with pytest.raises(LocalError) as caught:
        parse_spec(text, "f.yaml")
    return [line.removeprefix("f.yaml:") for line in str(caught.value).splitlines()]


def test_no_nodes_are_no_cluster() -> None:
    assert error_lines("nodes: {}\n") == ["1: nodes: a cluster has at least one node"]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("{}", "nodes.a.entity: it is missing"),
        ("{entity: osd}", "nodes.a.entity: entity 'osd' is not TYPE.NUMBER, as in osd.1"),
        ("{entity: osd.-1}", "nodes.a.entity: entity 'osd.-1' is not TYPE.NUMBER, as in osd.1"),
        ("{entity: osd.\N{SUPERSCRIPT TWO}}", "nodes.a.entity: entity 'osd."),
        (
            "{entity: ods.1}",
            "nodes.a.entity: unknown entity type 'ods'; known: mon, mds, osd, client, mgr; did you",
        ),
        ("{entity: any.1}", "nodes.a.entity: unknown entity type 'any'"),
        ("{entity: osd.1, policy: ''}", "nodes.a.policy: unknown policy ''"),
        (
            "{entity: osd.1, policy: osd publc}",
            "nodes.a.policy: unknown policy 'osd publc'; did you mean osd public?",
        ),
        ("{entity: osd.1, policy: lossless_peer x}", "nodes.a.policy: 'x' is not TYPE=POLICY"),
        ("{entity: osd.1, policy: lossless_peer x=y}", "nodes.a.policy: unknown entity type 'x'"),
        ("{entity: osd.1, policy: lossless_peer osd=y}", "nodes.a.policy: unknown policy 'y'"),
        ("{entity: osd.1, options: {ms_bla: 1}}", "nodes.a.options.ms_bla: unknown option 'ms_bla'"),
        ("{entity: osd.1, options: {ms_crc_data: 1}}", "nodes.a.options.ms_crc_data: give true or false, not 1"),
        ("{entity: osd.1, options: {ms_max_backoff: [1]}}", "nodes.a.options.ms_max_backoff: give a number, true"),
        ("{entity: osd.1, options: {ms_max_backoff: true}}", "nodes.a.options.ms_max_backoff: give a number, not"),
        ("{entity: osd.1, options: {race_winner: x}}", "nodes.a.options.race_winner: give one of yields, insists"),
        (
            "{entity: osd.1, options: {ms_cluster_mode: x}}",
            "nodes.a.options.ms_cluster_mode: give 'crc', 'secure'",
        ),
        ("{entity: osd.1, options: {compressor_zlib_level: 11}}", "nodes.a.options.compressor_zlib_level: give 0"),
        ("{entity: osd.1, workers: 65}", "nodes.a.workers: give at most 64, not 65"),
        (
            "{entity: osd.1, networks: [publik]}",
            "nodes.a.networks.0: unknown network 'publik'; known: public; did",
        ),
        ("{entity: osd.1, networks: [public, public]}", "nodes.a.networks.1: public is there twice"),
        (
            "{entity: osd.1, speaks: {mode: v2}}",
            "nodes.a.speaks.mode: unknown 'v2'; known: crc, secure, compressed",
        ),
        ("{entity: client.1, speaks: {mode: compressed}}", "nodes.a.speaks.mode: only links between OSDs"),
        (
            "{entity: osd.1, speaks: {cipher: aes256k}}",
            "nodes.a.speaks.cipher: keys of a cluster are of one cipher",
        ),
        ("{entity: osd.1, count: 201}", "nodes.a.count: give at most 200, not 201"),
        ("{entity: osd.999999999999999999, count: 2}", "nodes.a.count: there are no 2 numbers from 9999"),
        ("{entity: osd.1, group: B}", "nodes.a.group: 'B' is no name here"),
        (
            "{ceph: mon, entity: mon.1}",
            "nodes.a.entity: unknown key; known: networks, count, group, ceph, options",
        ),
        ("{ceph: rgw}", "nodes.a.ceph: unknown 'rgw'; known: mon, osd, mgr, mds"),
        ("{ceph: mon, options: {'a b': 1}}", "nodes.a.options.a b: 'a b' is no option: give a-z"),
        ('{ceph: mon, options: {keyring: "x\\n[osd]"}}', "nodes.a.options.keyring: ceph.conf cannot have"),
        ("{rados: admin}", "nodes.a.rados: 'admin' is no client: give client.NAME"),
        ("{rados: client.admin}", "nodes.a.rados: client.admin is the cluster's own"),
        ("{rados: client.aaaaaaaaaabbbbbbbbbbcccccccccc, count: 2}", "nodes.a.rados: 'client.aaaa"),
    ],
)
def test_spec_refuses_invalid_nodes(node: str, text: str) -> None:
    lines = error_lines(f"nodes:\n  a: {node}\n")
    assert any(line.startswith(f"2: {text}") for line in lines), lines


@pytest.mark.parametrize(
    ("speaks", "place"),
    [
        ("{protocol: v1, mode: secure}", "speaks.mode: msgr v1 has no mode secure; give crc, or protocol v2"),
        ("{protocol: v1, mode: compressed}", "speaks.mode: msgr v1 has no mode compressed"),
        ("{auth: none, mode: secure}", "speaks.mode: without authentication there are no keys to encrypt with"),
        ("{auth: none, cipher: aes256k}", "speaks.cipher: without authentication there are no keys for a cipher"),
    ],
)
def test_spec_refuses_contradictory_modes_and_protocols(speaks: str, place: str) -> None:
    assert error_lines(f"speaks: {speaks}\n{PEERS}")[0].startswith(f"1: {place}")
    in_node = error_lines(f"nodes:\n  a:\n    entity: osd.1\n    speaks: {speaks}\n")
    assert in_node[0].startswith(f"4: nodes.a.{place}")


def test_node_inherits_the_speech_of_the_cluster() -> None:
    assert error_lines("speaks: {mode: secure}\nnodes:\n  a: {entity: osd.1, speaks: {protocol: v1}}\n")[
        0
    ].startswith("3: nodes.a.speaks.mode: msgr v1 has no mode secure")
    text = "speaks: {mode: secure, cipher: aes256k}\nnodes:\n  a: {entity: osd.1, speaks: {protocol: v1+v2}}\n"
    spec = parse_spec(text + "  b: {entity: osd.2}\n", "f.yaml")
    assert spec.speech_of("a").model_dump() == {
        "protocol": "v1+v2",
        "mode": "secure",
        "auth": "cephx",
        "cipher": "aes256k",
    }
    assert spec.messengers()["a"].speaks == spec.speech_of("a")
    assert spec.speech_of("b") == spec.speaks


@pytest.mark.parametrize(
    ("networks", "text"),
    [
        ("{}", "networks: a cluster has at least one network"),
        ("{Public: {}}", "networks.Public: 'Public' is no name here"),
        ("{net: {subnet: 10.1.2.0}}", "networks.net.subnet: '10.1.2.0' is one address; give a subnet"),
        ("{net: {subnet: 10.1.2.3/24}}", "networks.net.subnet: 10.1.2.3/24 is an address in 10.1.2.0/24; give"),
        ("{net: {subnet: 10.1.2.0/33}}", "networks.net.subnet: '10.1.2.0/33' is no subnet"),
        ("{net: {subnet: x}}", "networks.net.subnet: 'x' is no subnet"),
        (
            "{net: {subnet: 8.8.8.0/24}}",
            "networks.net.subnet: 8.8.8.0/24 is not private; give one inside 10.0.0.0/8",
        ),
        ("{net: {subnet: 127.0.0.0/8}}", "networks.net.subnet: 127.0.0.0/8 is not private"),
        (
            "{net: {subnet: '2001:db8::/64'}}",
            "networks.net.subnet: 2001:db8::/64 is not private; give one inside fd",
        ),
        ("{net: {subnet: 10.1.2.0/30}}", "networks.net.subnet: 10.1.2.0/30 has room for 1 nodes, not 2"),
        ("{net: {subnet: 10.1.2.0/32}}", "networks.net.subnet: 10.1.2.0/32 has room for 0 nodes, not 2"),
        ("{net: {subnet: 'fd00:1::/64', mtu: 1000}}", "networks.net.mtu: IPv6 needs 1280 bytes"),
        ("{net: {mtu: 100}}", "networks.net.mtu: give at least 576, not 100"),
        (
            "{net: {subnet: 10.1.0.0/16}, net2: {subnet: 10.1.2.0/24}}",
            "networks.net2.subnet: 10.1.2.0/24 overlaps 10.1.0.0/16 of net",
        ),
    ],
)
def test_spec_refuses_invalid_networks(networks: str, text: str) -> None:
    lines = error_lines(f"networks: {networks}\n{PEERS}")
    assert lines[0].startswith(f"1: {text}"), lines


@pytest.mark.parametrize(
    "subnet", ["10.1.2.0/29", "192.168.3.0/24", "172.16.0.0/12", "fd00:77::/64", "10.0.0.0/8"]
)
def test_private_networks_that_are_large_enough(subnet: str) -> None:
    assert parse_spec(f"networks: {{net: {{subnet: '{subnet}'}}}}\n{PEERS}", "f").networks["net"].subnet == subnet


def test_the_same_subnet_of_both_families_is_no_overlap() -> None:
    spec = parse_spec(f"networks: {{one: {{subnet: 10.1.0.0/24}}, two: {{subnet: 'fd00::/64'}}}}\n{PEERS}", "f")
    assert {name: network.subnet for name, network in spec.networks.items()} == {
        "one": "10.1.0.0/24",
        "two": "fd00::/64",
    }


APART = """\
networks: {left: {}, right: {}}
nodes:
  a: {entity: osd.1, networks: [left]}
  b: {entity: osd.2, networks: [right]}
  c: {entity: osd.3, networks: [left, right]}
  d: {entity: osd.4, networks: [right, left]}
  out: {entity: client.5, networks: [left], listens: false, policy: lossless_client}
  serve: {entity: mds.6, networks: [left], policy: stateful_server osd=lossless_peer}
"""


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("links: [{from: a, to: x}]", "links.0.to: unknown node 'x'"),
        ("links: [{from: a, to: a}]", "links.0.to: it is a itself; give another node"),
        ("links: [{from: a, to: b}]", "links.0: a and b have no network in common"),
        ("links: [{from: a, to: c}, {from: a, to: c}]", "links.1: the link from a to c is given twice"),
        ("links: [{from: a, to: c, both_ways: true}, {from: c, to: a}]", "links.1: the link from c to a is given"),
        ("links: [{from: a, to: c, delay_ms: -1}]", "links.0.delay_ms: give at least 0, not -1"),
        ("links: [{from: a, to: c, loss: 1}]", "links.0.loss: give a mapping (key: value), not 1"),
        ("links: [{from: a, to: c, delay: 1}]", "links.0.delay: unknown key; did you mean delay_ms?"),
        (
            "traffic: [{from: a, to: serv}]",
            "traffic.0.to: unknown node 'serv'; known: a, b, c, d, out, serve; did",
        ),
        ("traffic: [{from: a, to: b}]", "traffic.0: b is dialled on its first network, right, and a is not on"),
        ("traffic: [{from: a, to: out}]", "traffic.0: out does not listen, and has nothing to send to a itself"),
        ("traffic: [{from: serve, to: out}]", "traffic.0: out does not listen, and has nothing to send to serve"),
        ("proxies: [{from: a, to: out}]", "proxies.0: out does not listen"),
        ("proxies: [{from: a, to: b}]", "proxies.0: b is dialled on its first network, right"),
        ("proxies: [{from: a, to: c}, {from: a, to: c}]", "proxies.1: there is one from a to c already"),
        ("proxies: [{from: a, to: c, script: ['']}]", "proxies.0.script.0: give one line of text, not ''"),
        ("captures: [{node: x}]", "captures.0.node: unknown node 'x'"),
        ("captures: [{node: a}, {node: a}]", "captures.1: a.pcapng is another capture already; give it a file"),
        ("captures: [{node: a, file: b.pcapng}, {node: b}]", "captures.1: b.pcapng is another capture already"),
        ("ceph: {release: reef}", "ceph: there are no real daemons for it"),
    ],
)
def test_spec_refuses_invalid_links_between_nodes(part: str, text: str) -> None:
    lines = error_lines(APART + part)
    assert lines[0].startswith(f"9: {text}"), lines


@pytest.mark.parametrize(
    "part",
    [
        "traffic: [{from: a, to: d}, {from: d, to: a}]",  # d's dial finds a; d is dialled where a is not
        "traffic: [{from: out, to: serve}, {from: serve, to: out}]",
        "traffic: [{from: serve, to: a}]",
        "proxies: [{from: a, to: c}, {from: c, to: a}]",
        "links: [{from: a, to: c}, {from: c, to: a}]",
        "captures: [{node: a}, {node: a, file: more.pcap}]",
    ],
)
def test_spec_accepts_valid_links_between_nodes(part: str) -> None:
    field = part.partition(":")[0]
    assert len(getattr(parse_spec(APART + part, "f.yaml"), field)) == part.count("{")


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        ("{protocol: v1}", "{protocol: v2}", "a speaks v1, b v2: they have no protocol in common"),
        ("{mode: secure}", "{}", "a is secure, b crc: they have no mode in common"),
        ("{auth: none}", "{}", "a authenticates by none, b by cephx: they do not let each other in"),
        ("{protocol: v1}", "{protocol: v1+v2}", ""),
        ("{protocol: v1+v2, mode: secure}", "{protocol: v1}", ""),
        ("{mode: compressed}", "{}", ""),
    ],
)
def test_senders_and_receivers_need_a_common_protocol(one: str, other: str, text: str) -> None:
    spec = (
        f"nodes:\n  a: {{entity: osd.1, speaks: {one}}}\n  b: {{entity: osd.2, speaks: {other}}}\n"
        "traffic:\n  - {from: a, to: b}\n"
    )
    if text:
        assert error_lines(spec) == [f"5: traffic.0: {text}"]
    else:
        parse_spec(spec, "f.yaml")


def test_a_node_has_the_policies_of_a_messenger_of_ceph() -> None:
    text = "nodes:\n  a: {entity: osd.1, policy: osd public}\n  b: {entity: client.2, policy: librados}\n"
    assert error_lines(text + "traffic:\n  - {from: a, to: b}\n") == [
        "5: traffic.0: a waits to be dialled (policy stateless_registered_server), and b has nothing to send to it"
    ]
    parse_spec(text + "traffic:\n  - {from: b, to: a}\n", "f.yaml")


def test_server_sends_only_to_its_clients() -> None:
    text = (
        "nodes:\n  a: {entity: mds.0, policy: stateful_server}\n  b: {entity: client.1, policy: lossless_client}\n"
    )
    assert error_lines(text + "traffic:\n  - {from: a, to: b}\n") == [
        "5: traffic.0: a waits to be dialled (policy stateful_server), and b has nothing to send to it"
    ]
    parse_spec(text + "traffic:\n  - {from: a, to: b}\n  - {from: b, to: a}\n", "f.yaml")


def test_two_nodes_are_not_the_same_entity() -> None:
    assert error_lines("nodes:\n  a: {entity: osd.1}\n  b: {entity: osd.1}\n") == [
        "3: nodes.b.entity: a is osd.1 already"
    ]
    assert error_lines("nodes:\n  a: {entity: osd.3}\n  b: {entity: osd.1, count: 3}\n") == [
        "3: nodes.b.entity: a is osd.3 already"
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("nodes:\n  o: {ceph: osd}\n", ["2: nodes.o: it needs a monitor: a node {ceph: mon}"]),
        ("nodes:\n  o: {ceph: osd, count: 2}\n", ["2: nodes.o: it needs a monitor: a node {ceph: mon}"]),
        (
            "nodes:\n  m: {ceph: mon}\n  f: {ceph: mds}\n",
            ["3: nodes.f: it needs an OSD, which stores things: a n"],
        ),
        (
            "nodes:\n  m: {ceph: mon}\n  c: {rados: client.x}\n",
            ["3: nodes.c: it needs an OSD, which stores things"],
        ),
        (
            "speaks: {mode: compressed}\nceph:\n  release: pacific\nnodes:\n  m: {ceph: mon}\n",
            ["3: ceph.release: pacific does not compress; reef and tentacle do"],
        ),
        (
            "speaks: {cipher: aes256k}\nceph:\n  release: reef\nnodes:\n  m: {ceph: mon}\n",
            ["3: ceph.release: reef has no keys of cipher aes256k; give tentacle"],
        ),
        (
            "nodes:\n  m: {ceph: mon}\n  o: {ceph: osd}\n  c: {rados: client.x, pool: things}\n",
            ["4: nodes.c.pool: unknown pool 'things'; known: objects"],
        ),
        (
            "nodes:\n  m: {ceph: mon}\n  o: {ceph: osd}\n  c: {rados: client.x, speaks: {protocol: v1}}\n",
            ["4: nodes.c.speaks: c speaks v1, the daemons v2: they have no protocol in common"],
        ),
        (
            "networks: {p: {}, c: {}}\nnodes:\n  m: {ceph: mon}\n  o:\n    ceph: osd\n    networks: [c, p]\n",
            ["6: nodes.o.networks: daemons listen on their first network: give p, as the monitor has, first"],
        ),
        (
            (
                "networks: {p: {}, c: {}}\nnodes:\n  m: {ceph: mon}\n  o: {ceph: osd}\n  x:\n    rados: client.x\n"
                "    networks: [c]\n"
            ),
            ["7: nodes.x.networks: the daemons are on p; add it"],
        ),
        (
            "nodes:\n  m: {ceph: mon}\nceph:\n  pools: {'a b': 1}\n",
            ["4: ceph.pools.a b: 'a b' is no name for a pool"],
        ),
        (
            "nodes:\n  m: {ceph: mon}\n  a: {entity: osd.1}\ntraffic:\n  - {from: a, to: m}\n",
            ["5: traffic.0: m is a real daemon: traffic is between messengers of ours"],
        ),
    ],
)
def test_spec_refuses_invalid_daemons(text: str, lines: list[str]) -> None:
    found = error_lines(text)
    assert [line.startswith(start) for line, start in zip(found, lines, strict=True)] == [True] * len(lines), found


def test_faults_and_rules_are_checked_by_their_languages() -> None:
    found = error_lines(
        f"{PEERS}timeline:\n  - {{at_s: 1, fault: kill a}}\n  - {{at_s: 2, fault: kill x}}\n"
        "  - {at_s: 3, fault: kil a}\nchaos:\n  faults:\n    - kill\n    - kil\n"
        "proxies:\n  - from: a\n    to: b\n    script:\n      - 'MESSAGE #3: cut after'\n      - 'MESAGE: cut'\n"
    )
    assert [line.partition(";")[0] for line in found] == [
        "6: timeline.1.fault: unknown node 'x'",
        "7: timeline.2.fault: fault, column 1: no fault 'kil'",
        "11: chaos.faults.1: unknown fault 'kil'",
        "17: proxies.0.script.1: rule, column 1: no tag 'MESAGE'",
    ]


def test_a_timeline_may_name_guests_where_its_faults_do() -> None:
    steps = "- {at_s: 1, fault: partition a guest0}\n- {at_s: 2, fault: undo partition a guest0}\n"
    assert len(parse_spec(f"{PEERS}timeline:\n{steps}", "f.yaml").timeline) == 2
    for fault, name in (("kill guest0", "guest0"), ("partition a guest", "guest")):
        (line,) = error_lines(f"{PEERS}timeline: [{{at_s: 1, fault: {fault}}}]\n")
        assert f"timeline.0.fault: unknown node '{name}'" in line


def test_every_entity_that_passes_is_one_for_nodes() -> None:
    for entity in ("mon.0", "mds.1", "osd.999999999999999999", "client.4112", "mgr.7"):
        spec = parse_spec(f"nodes: {{a: {{entity: {entity}}}}}", "f.yaml")
        assert str(parse_entity(spec.messengers()["a"].entity)) == entity


def test_spec_accepts_the_default_of_every_option() -> None:
    defaults = {name: getattr(Config(), name) for name in Config.__dataclass_fields__}
    spec = ClusterSpec.model_validate({"name": "x", "nodes": {"a": {"entity": "osd.1", "options": defaults}}})
    assert spec.messengers()["a"].options == defaults


def test_validation_error_names_the_place() -> None:
    with pytest.raises(ValidationError, match=r"speaks\.mode: msgr v1 has no mode secure") as caught:
        ClusterSpec.model_validate(
            {
                "name": "x",
                "speaks": {"mode": "secure"},
                "nodes": {"a": {"entity": "osd.1", "speaks": {"protocol": "v1"}}},
            }
        )
    assert caught.value.errors()[0]["loc"] == ("nodes",)
