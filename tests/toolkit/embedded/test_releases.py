"""Unmodified clients of four Ceph releases on an embedded cluster, while their links are cut at random."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from toolkit.cluster import Cluster
from toolkit.cluster.ceph.programs import out_of_image
from toolkit.cluster.chroot import existing_image
from toolkit.cluster.images import RELEASES
from toolkit.cluster.nemesis import Crowd, Nemesis, Timeline, draw
from toolkit.cluster.spec import ClusterSpec
from toolkit.cluster.spec.model import Chaos

pytestmark = pytest.mark.xdist_group("embedded")

APP = "app"
DAEMONS = ("mon", "osd0", "osd1", "osd2")
TIMEOUT_S = 120.0
LEAST_CUTS = 2
"""Cuts of the network that hit links of each release's programs."""
MOST_ROUNDS = 20
SPEC = ClusterSpec.model_validate(
    {
        "name": "releases",
        "nodes": {
            "mon": {"ceph": "mon"},
            "osd": {"ceph": "osd", "count": 3, "options": {"ms_inject_socket_failures": 100}},
            APP: {"rados": "client.app"},
        },
        "speaks": {"protocol": "v1+v2"},
        "ceph": {
            "release": "embedded",
            "options": {"rbd_default_features": "layering"},
            "pools": {"objects": 8, "rbd": 8},
        },
    }
)
SCRIPT = """
import json, rados, sys
prefix, count = sys.argv[1], int(sys.argv[2])
with rados.Rados(conffile="", name="client.app") as cluster, cluster.open_ioctx("objects") as ioctx:
    started = [ioctx.aio_write_full(f"{prefix}.{i}", f"{prefix} {i}".encode() * 200) for i in range(count)]
    for i in range(count):
        ioctx.append(f"{prefix}.log", f"<{i}>".encode())
        with rados.WriteOpCtx() as op:
            ioctx.set_omap(op, (str(i),), (b"value %d" % i,))
            ioctx.operate_write_op(op, f"{prefix}.log")
    for each in started:
        each.wait_for_complete()
    failed = [each.get_return_value() for each in started if each.get_return_value()]
    wrong = [i for i in range(count) if ioctx.read(f"{prefix}.{i}", 1 << 20) != f"{prefix} {i}".encode() * 200]
    print(json.dumps({"failed": failed, "wrong": wrong, "log": ioctx.read(f"{prefix}.log").decode()}))
"""
CHECK = """
import json, rados, sys
prefix, count = sys.argv[1], int(sys.argv[2])
with rados.Rados(conffile="", name="client.app") as cluster, cluster.open_ioctx("objects") as ioctx:
    wrong = [i for i in range(count) if ioctx.read(f"{prefix}.{i}", 1 << 20) != f"{prefix} {i}".encode() * 200]
    with rados.ReadOpCtx() as op:
        values, _ = ioctx.get_omap_vals(op, "", "", 1000)
        ioctx.operate_read_op(op, f"{prefix}.log")
        omap = {key: value.decode() for key, value in values}
    print(json.dumps({"wrong": wrong, "log": ioctx.read(f"{prefix}.log").decode(), "omap": omap}))
"""


class Client:
    """The programs of a release on the host of the cluster's client; each must end with exit code 0."""

    def __init__(self, cluster: Cluster, release: str) -> None:
        self._host = cluster.nodes[APP].host
        self._image = existing_image(release)

    def run(self, *argv: str, stdin: str = "") -> str:
        """Return the output of the program; raises LocalError if it fails."""
        return self._host.run(*out_of_image(self._host, self._image, argv), stdin=stdin, timeout_s=TIMEOUT_S)

    def rados(self, *arguments: str) -> str:
        return self.run("rados", "-p", "objects", *arguments)

    def file(self, name: str, content: bytes = b"") -> Path:
        """A file that the programs see."""
        return self._host.write(name, content)


@contextmanager
def links_cut_at_random(cluster: Cluster, seed: int) -> Iterator[Callable[[], int]]:
    """Cut links of the client during the block: by forged RST and FIN segments, and by the OSDs within frames.

    The block gets a function that counts the former. Afterwards there have been cuts of both kinds, and all faults
    are healed. The fixture judges the invariants at the end of the test.
    """
    if cluster.nodes[APP].state == "up":
        cluster.nodes[APP].kill()  # all links of its host are those of the release's programs
    chaos = Chaos(seed=seed, every_s=0.4, for_s=2 * TIMEOUT_S, faults=["reset", "finish"])
    steps = draw(chaos, Crowd((APP, *DAEMONS), ())).steps
    timeline = Timeline.of([step for step in steps if APP in step.fault.nodes])
    nemesis = Nemesis(cluster.scene, timeline, seed=seed, live=False).start()
    began_s = cluster.now()

    def hits() -> int:
        cuts = [record for record in cluster.history.so_far().of("cut") if record.time_s >= began_s]
        return len([record for record in cuts if " 0 connections" not in record.fields["detail"]])

    try:
        yield hits
    finally:
        nemesis.close()
    cluster.fault("heal")
    assert [str(step) for step in nemesis.done if step.error] == []
    injected = [record for record in cluster.history.so_far().of("inject") if record.time_s >= began_s]
    assert hits() >= LEAST_CUTS
    assert len({record.node for record in injected}) > 1


with_each_release = pytest.mark.parametrize(
    "release",
    [pytest.param(release, marks=pytest.mark.needs("netns", f"ceph-image-{release}")) for release in RELEASES],
)


@with_each_release
def test_acknowledged_writes_of_each_release_survive_random_cuts(
    release: str, msgrlab_cluster: Callable[..., Cluster]
) -> None:
    cluster = msgrlab_cluster(SPEC, backend="netns", shared=True, check=True)
    client = Client(cluster, release)
    content = Random(release).randbytes(600_000)
    before, after = client.file(f"{release}.before", content), client.file(f"{release}.after")
    run_name, image, script = (f"--run-name={release}", f"{release}-image", (f"py-{release}", "12"))

    with links_cut_at_random(cluster, seed=list(RELEASES).index(release)) as hits:
        bench = client.rados("bench", "3", "write", "-b", "4096", run_name, "--no-cleanup", "--max-objects=150")
        client.run("rbd", "create", image, "--size", "8M")
        client.run("rbd", "bench", "--io-type", "write", "--io-size", "4K", "--io-total", "64K", image)
        client.run("rbd", "import", "--no-progress", str(before), f"{image}-full")
        scripted = json.loads(client.run("python3", "-", *script, stdin=SCRIPT))
        for round_ in range(MOST_ROUNDS):  # on a fast machine all is done before the second cut
            if hits() >= LEAST_CUTS:
                break
            client.rados("bench", "1", "write", "-t", "1", "-b", "64", f"--run-name={release}-{round_}")

    log = "".join(f"<{i}>" for i in range(12))
    assert scripted == {"failed": [], "wrong": [], "log": log}
    (written,) = re.findall(r"Total writes made: +(\d+)", bench)
    assert int(written) > 0
    read = client.rados("bench", "30", "seq", run_name)  # compares each object with what was written
    assert re.findall(r"Total reads made: +(\d+)", read) == [written]
    assert set(client.run("rbd", "ls").split()) >= {image, f"{image}-full"}
    client.run("rbd", "export", "--no-progress", f"{image}-full", str(after.with_suffix(".exported")))
    assert after.with_suffix(".exported").read_bytes() == content
    omap = {str(i): f"value {i}" for i in range(12)}
    checked = json.loads(client.run("python3", "-", *script, stdin=CHECK))
    assert checked == {"wrong": [], "log": log, "omap": omap}


@with_each_release
def test_snapshots_clones_and_copies_of_each_release_survive_random_cuts(
    release: str, msgrlab_cluster: Callable[..., Cluster]
) -> None:
    cluster = msgrlab_cluster(SPEC, backend="netns", shared=True, check=True)
    client = Client(cluster, release)
    content = Random(release).randbytes(1_200_000)
    before, after = client.file(f"{release}.source", content), client.file(f"{release}.back")
    image = f"{release}-parent"

    def exported(name: str) -> bytes:
        after.unlink(missing_ok=True)
        client.run("rbd", "export", "--no-progress", name, str(after))
        return after.read_bytes()

    with links_cut_at_random(cluster, seed=10 + list(RELEASES).index(release)) as hits:
        client.run("rbd", "import", "--no-progress", str(before), image)
        for round_ in range(MOST_ROUNDS):
            snap, clone, name = f"{image}@s{round_}", f"{release}-clone{round_}", f"{release}-copied{round_}"
            client.run("rbd", "snap", "create", snap)
            client.run("rbd", "clone", "--rbd-default-clone-format", "2", snap, clone)
            client.run("rbd", "bench", "--io-type", "write", "--io-size", "4K", "--io-total", "64K", image)
            client.run("rbd", "flatten", "--no-progress", clone)
            client.rados("put", name, str(before))
            client.rados("cp", name, f"{name}.copy")
            if hits() >= LEAST_CUTS:
                break

    copy = client.file(f"{release}.copy")
    client.rados("get", f"{name}.copy", str(copy))
    assert copy.read_bytes() == content
    assert exported(f"{image}@s0") == exported(f"{release}-clone0") == content
    assert exported(image) != content
    assert exported(snap) == exported(clone)
