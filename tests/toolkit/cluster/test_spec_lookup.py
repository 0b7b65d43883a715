"""Specs with some values changed."""

from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import peers
from toolkit.cluster.spec_lookup import spec_from

TEXT = """\
nodes:
  server: {entity: mds.0, policy: stateful_server}
  client: {entity: client.1, listens: false, policy: lossless_client}
  osd: {entity: osd.0, count: 2}
traffic:
  - {from: client, to: server}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("spec", [5, None, b"two-peers", {"nodes": {"a": {"entity": "osd.1"}}}])
def test_object_of_another_type_is_no_spec(spec: object) -> None:
    with pytest.raises(LocalError, match=r"spec is of type .*: give a ClusterSpec, a path, or the name"):
        spec_from(spec)  # type: ignore[arg-type]


def test_setting_adds_a_count_to_a_node_without_one(file: Path) -> None:
    spec = spec_from(file, ["nodes.client.count=3", "nodes.osd.count=1"])
    assert list(spec.nodes) == ["server", "client0", "client1", "client2", "osd"]
    assert [traffic.sender for traffic in spec.traffic] == ["client0", "client1", "client2"]


def test_one_node_of_a_count_is_changed_alone(file: Path) -> None:
    spec = spec_from(file, ["nodes.osd1.workers=2"])
    assert [node.workers for name, node in spec.messengers().items() if name.startswith("osd")] == [0, 2]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("nodes.clint.count=3", "no node 'clint'; there are server, client, osd"),
        ("nodes.client.count=0", "nodes.client.count: give at least 1, not 0"),
    ],
)
def test_impossible_setting_is_an_error(file: Path, setting: str, text: str) -> None:
    with pytest.raises(LocalError, match=text):
        spec_from(file, [setting])


def test_settings_apply_to_a_spec_object() -> None:
    assert spec_from(peers(), ["nodes.a.workers=3"]).messengers()["a"].workers == 3
    with pytest.raises(LocalError, match="no node 'c'; there are a, b"):
        spec_from(peers(), ["nodes.c.workers=3"])
