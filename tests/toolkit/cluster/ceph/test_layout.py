"""The daemons of a real cluster, and their settings in ceph.conf."""

from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any, NoReturn

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.denc.entity import AuthName
from toolkit.cluster.backends.base import Host, Program
from toolkit.cluster.ceph.layout import Layout
from toolkit.cluster.spec import ClusterSpec

NODES = {
    "m0": {"ceph": "mon"},
    "m1": {"ceph": "mon"},
    "first": {"ceph": "osd"},
    "second": {"ceph": "osd", "options": {"osd_max_backfills": 2, "osd_debug_drop_op_probability": 0.5}},
    "mgr": {"ceph": "mgr"},
    "mds": {"ceph": "mds"},
    "app": {"rados": "client.app"},
}


class PaperHost(Host):
    """A host that cannot do anything."""

    def __init__(self, name: str, addresses: Mapping[str, str]) -> None:
        self.name = name
        self.addresses = addresses
        self.directory = Path("/clusters") / name

    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> Program:
        raise NotImplementedError

    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> NoReturn:
        raise NotImplementedError

    def interactive(self, argv: Sequence[str]) -> NoReturn:
        raise NotImplementedError

    def write(self, name: str, content: bytes) -> NoReturn:
        raise NotImplementedError

    def read(self, name: str) -> NoReturn:
        raise NotImplementedError

    def inside(self, what: Callable[[], Any]) -> NoReturn:
        raise NotImplementedError


def layout(**changes: Any) -> Layout:
    spec = ClusterSpec.model_validate({"name": "paper", "nodes": NODES, **changes})
    hosts = {
        node: PaperHost(node, {name: f"10.{network}.0.{number}" for network, name in enumerate(spec.networks)})
        for number, node in enumerate(spec.nodes, 1)
    }
    return Layout(spec, hosts)


def conf(of: Layout, node: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None)
    parser.read_string(of.conf(of.members[node]))
    return {section: dict(parser[section]) for section in parser.sections()}


def test_osds_are_numbered_and_others_have_the_names_of_their_nodes() -> None:
    names = [member.name for member in layout().members.values()]
    assert names == ["mon.m0", "mon.m1", "osd.0", "osd.1", "mgr.mgr", "mds.mds"]


@pytest.mark.parametrize(
    ("protocol", "addresses"),
    [
        ("v1+v2", "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]"),
        ("v2", "[v2:10.0.0.1:3300/0]"),
        ("v1", "[v1:10.0.0.1:6789/0]"),
    ],
)
def test_monitors_have_an_address_for_each_protocol(protocol: str, addresses: str) -> None:
    found = layout(speaks={"protocol": protocol})
    assert found.mon_addrs["m0"] == addresses
    everybody = conf(found, "first")["global"]
    assert everybody["mon_host"] == ",".join(found.mon_addrs.values())
    assert everybody["ms_bind_msgr1"] == str("v1" in protocol).lower()
    assert everybody["ms_bind_msgr2"] == str("v2" in protocol).lower()


def test_addresses_of_ip_version_6_are_in_brackets() -> None:
    spec = ClusterSpec.model_validate({"name": "paper", "nodes": {"mon": {"ceph": "mon"}}})
    found = Layout(spec, {"mon": PaperHost("mon", {"public": "fd00::1"})})
    assert found.mon_addrs["mon"] == "[v2:[fd00::1]:3300/0]"


def test_secure_mode_sets_all_mode_options() -> None:
    everybody = conf(layout(speaks={"mode": "secure"}), "m0")["global"]
    modes = {name: value for name, value in everybody.items() if name.startswith("ms_") and name.endswith("_mode")}
    assert len(modes) == 6
    assert set(modes.values()) == {"secure"}


def test_mode_compressed_sets_the_compression_options() -> None:
    everybody = conf(layout(speaks={"mode": "compressed"}, ceph={"release": "reef"}), "m0")["global"]
    assert everybody["ms_osd_compress_mode"] == "force"
    assert everybody["ms_service_mode"] == "crc"
    assert "ms_osd_compress_mode" not in conf(layout(), "m0")["global"]


def test_osds_use_a_second_network_for_replication() -> None:
    found = layout(networks={"public": {}, "cluster": {}})
    osd = conf(found, "first")["osd.0"]
    assert (osd["public_addr"], osd["cluster_addr"]) == ("10.0.0.3", "10.1.0.3")
    assert "cluster_addr" not in conf(layout(), "first")["osd.0"]
    assert "public_addr" not in conf(found, "m0")["mon.m0"]  # the monitor map has it


def test_options_of_the_spec_override_defaults() -> None:
    found = layout(ceph={"options": {"paxos_propose_interval": 2, "osd_pool_default_size": 1, "debug": True}})
    everybody = conf(found, "second")["global"]
    assert everybody["paxos_propose_interval"] == "2"
    assert everybody["debug"] == "true"
    assert everybody["osd_pool_default_size"] == "1"
    assert found.pool_size == 1
    assert conf(found, "second")["osd.1"]["osd_max_backfills"] == "2"
    assert conf(found, "second")["osd.1"]["osd_debug_drop_op_probability"] == "0.5"
    assert "osd_max_backfills" not in conf(found, "first")["osd.0"]


def test_options_of_all_daemons_win_over_defaults_of_each() -> None:
    options = {"debug_ms": 5, "osd_fast_shutdown": True, "mon_data_avail_warn": 7}
    found = layout(ceph={"options": options})
    sections = [conf(found, node) for node in ("m0", "first")]
    for each in sections:
        everybody, own = each.values()
        assert (everybody | own)["debug_ms"] == "5"
        assert (everybody | own)["osd_fast_shutdown"] == "true"
        assert (everybody | own)["mon_data_avail_warn"] == "7"
    assert conf(layout(), "first")["osd.0"]["debug_ms"] == "1"


@pytest.mark.parametrize(
    ("option", "text"), [("log_file", "a node's own options may have it"), ("osd_objectstore", "ceph.store")]
)
def test_options_of_all_daemons_that_could_not_win_are_refused(option: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        layout(ceph={"options": {option: "x"}})


def test_every_entity_has_its_own_key_and_caps() -> None:
    found = layout()
    names = {str(name) for name in found.keyring.entries}
    assert names == {"mon.", "client.admin", "osd.0", "osd.1", "mgr.mgr", "mds.mds", "client.app"}
    assert found.keyring.entries[AuthName.parse("client.app")].caps["osd"] == "allow rwx"
    assert {str(name) for name in found.keys_for(found.members["first"]).entries} == {"client.admin", "osd.0"}
    assert {str(name) for name in found.keys_for(found.members["m0"]).entries} == {"client.admin", "mon."}
    assert len({entry.key.secret for entry in found.keyring.entries.values()}) == len(names)


def test_keys_have_the_cipher_of_the_spec() -> None:
    found = layout(speaks={"cipher": "aes256k"}, ceph={"release": "tentacle"})
    assert {entry.key.type for entry in found.keyring.entries.values()} == {KeyType.from_label("aes256k")}


def test_the_seed_decides_what_is_random() -> None:
    one, other = layout(), layout()
    assert (one.fsid, one.osd_uuids) == (other.fsid, other.osd_uuids)
    assert layout(seed=2).fsid != one.fsid


def test_pools_include_those_of_the_spec_and_of_cephfs() -> None:
    assert layout(ceph={"pools": {"objects": 4}}).pools == {
        "objects": 4,
        "cephfs_metadata": 8,
        "cephfs_data": 8,
    }
    nothing = ClusterSpec.model_validate({"name": "paper", "nodes": {"mon": {"ceph": "mon"}}})
    assert Layout(nothing, {"mon": PaperHost("mon", {"public": "10.0.0.1"})}).pools == {}


def test_keys_are_random_and_identities_depend_on_the_seed() -> None:
    first, second = layout(), layout()
    assert (first.fsid, first.osd_uuids) == (second.fsid, second.osd_uuids)
    assert first.keyring.entries.keys() == second.keyring.entries.keys()
    keys = [entry.key.secret for of in (first, second) for entry in of.keyring.entries.values()]
    assert len(set(keys)) == len(keys)


def test_daemons_and_clients_have_the_options_of_their_host_and_few_buffers_over_rdma() -> None:
    spec = ClusterSpec.model_validate({"name": "paper", "nodes": {"mon": {"ceph": "mon"}}})
    host = PaperHost("mon", {"public": "127.0.0.1"})
    device = {"ms_type": "async+rdma", "ms_async_rdma_device_name": "rxe0", "ms_async_rdma_gid_idx": "0"}
    host.options.update(device)
    found = Layout(spec, {"mon": host})
    for text in (found.conf(found.members["mon"]), found.client_conf(host)):
        parser = ConfigParser(interpolation=None)
        parser.read_string(text)
        assert device.items() <= parser["global"].items()
        assert int(parser["global"]["ms_async_rdma_receive_buffers"]) <= 256
    assert not any(name.startswith("ms_async") for name in conf(layout(), "m0")["global"])
