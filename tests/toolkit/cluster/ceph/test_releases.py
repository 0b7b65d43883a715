"""Every release of Ceph, out of its image, on every backend of this machine."""

import asyncio
import uuid

import pytest

from messenger.denc.address import AddrVec
from tests.toolkit.cluster.ceph.conftest import ceph_spec
from toolkit.checks.result import Outcome
from toolkit.cluster.own import up
from toolkit.probe.findings import investigate

RELEASES = ("nautilus", "pacific", "reef", "tentacle")


@pytest.mark.parametrize(
    ("release", "backend"),
    [
        pytest.param(
            release,
            backend,
            marks=pytest.mark.needs(f"ceph-image-{release}", *(["netns"] if backend == "netns" else [])),
        )
        for release in RELEASES
        for backend in ("process", "netns")
    ],
)
@pytest.mark.xdist_group("ceph_cluster")
def test_a_release_serves_a_client_of_ours(release: str, backend: str) -> None:
    cipher = "aes256k" if release == "tentacle" else "aes"
    spec = ceph_spec(
        release, osds=1, speaks={"mode": "secure", "cipher": cipher}, traffic=[{"workload": "rados-register"}]
    )
    with up(spec, backend=backend, name=f"t{uuid.uuid4().hex[:12]}") as cluster:
        assert cluster.nodes["mon"].status()["cluster"]["health"] == "HEALTH_OK"
        if backend == "process":
            addr = next(iter(AddrVec.parse(cluster.nodes["mon"].address)))
            probed = asyncio.run(investigate(addr, "client.admin", cluster.directory / "ceph.keyring", 10.0))
            assert (probed.fault, probed.as_json()["status"]["fsid"]) == (None, probed.as_json()["fsid"])
        assert release in cluster.backend.hosts["mon"].run("ceph", "--version")
        app = cluster.nodes["app"]
        app.command("fill", count=5)
        assert app.command("verify") == {"checked": 5, "wrong": []}
        cluster.nodes["osd"].stop()
        cluster.nodes["osd"].restart()
        assert app.command("verify") == {"checked": 5, "wrong": []}
        assert [result.id for result in cluster.check() if not result.ok] == []
        assert cluster.check(["linearizable"])[0].outcome is Outcome.HOLDS
