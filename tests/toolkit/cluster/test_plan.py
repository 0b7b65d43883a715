"""The release of Ceph of a cluster's daemons."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.toolkit.cluster.ceph.conftest import ceph_spec
from toolkit.cluster.backends.base import HostWish
from toolkit.cluster.backends.docker.backend import DockerBackend
from toolkit.cluster.backends.process import ProcessBackend
from toolkit.cluster.plan import host_wishes, with_release
from toolkit.errors import Unsupported


def _engine_with(monkeypatch: pytest.MonkeyPatch, releases: Sequence[str]) -> None:
    """Docker has images of these releases."""
    monkeypatch.setattr(DockerBackend, "ceph_releases", lambda: releases)


@pytest.mark.parametrize(
    ("there", "speaks", "chosen"),
    [
        (["nautilus", "reef"], {}, "reef"),
        (["nautilus", "pacific", "tentacle"], {"mode": "compressed"}, "tentacle"),
        (["reef", "tentacle"], {"cipher": "aes256k"}, "tentacle"),
    ],
)
def test_containers_take_the_newest_image_that_suits_the_spec(
    monkeypatch: pytest.MonkeyPatch, there: list[str], speaks: dict[str, str], chosen: str
) -> None:
    _engine_with(monkeypatch, there)
    announced: list[str] = []
    spec = with_release(ceph_spec(speaks=speaks), DockerBackend, announced.append)
    assert spec.ceph.release == chosen
    assert len(announced) == 1
    assert chosen in announced[0]


@pytest.mark.parametrize(
    ("there", "changes", "remedy"),
    [
        ([], {}, "msgrlab images build ceph:tentacle"),
        (
            ["nautilus", "pacific"],
            {"speaks": {"mode": "compressed"}},
            "no image of tentacle or reef: msgrlab images",
        ),
    ],
)
def test_containers_without_an_image_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, there: list[str], changes: dict[str, Any], remedy: str
) -> None:
    _engine_with(monkeypatch, there)
    with pytest.raises(Unsupported, match=remedy):
        with_release(ceph_spec(**changes), DockerBackend, print)


def test_a_release_that_is_named_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _engine_with(monkeypatch, ["reef"])
    for spec, backend in ((ceph_spec("nautilus"), DockerBackend), (ceph_spec(), ProcessBackend)):
        assert with_release(spec, backend, print) is spec


def test_daemons_of_ceph_need_more_memory_than_messengers() -> None:
    real = {wish.name: wish.memory_mib for wish in host_wishes(ceph_spec(osds=1))}
    assert real["osd"] > real["mon"] > real["app"] == HostWish("a", ("public",)).memory_mib
    embedded = host_wishes(ceph_spec("embedded", osds=1))
    assert {wish.memory_mib for wish in embedded} == {real["app"]}
