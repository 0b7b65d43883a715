"""The workloads that run while a capture is recorded."""

import json
from contextlib import ExitStack

from captures.chamber import cut, listening_ports, run, silence
from captures.client_process import ClientProcess
from captures.tcpdump import Tcpdump
from captures.waiting import wait_until
from messenger.errors import LocalError
from toolkit.cluster.daemons import Daemon
from toolkit.cluster.osd import RealOsd
from toolkit.cluster.real import RealCluster

POOL = "objects"

_CLIENT = """\
import json, os, rados, sys
conf, pool = sys.argv[1:]
text, noise = b"hello " * 3000, os.urandom(5000)
with rados.Rados(conffile=conf, name="client.admin") as cluster:
    for command in ("status", "osd dump"):
        cluster.mon_command(json.dumps({"prefix": command, "format": "json"}), b"")
    with cluster.open_ioctx(pool) as io:
        io.write_full("greeting", text)
        io.write("greeting", noise, 6000)
        io.append("greeting", b"world")
        io.set_xattr("greeting", "lang", b"en")
        with rados.WriteOpCtx() as op:
            io.set_omap(op, ("one", "two"), (b"1", b"2"))
            io.operate_write_op(op, "greeting")
        assert io.read("greeting", 20000) == text[:6000] + noise + text[11000:] + b"world"
        assert io.stat("greeting")[0] == len(text) + 5
        writes = [io.aio_write_full(f"small-{i}", b"%d " % i * 100) for i in range(12)]
        for write in writes:
            write.wait_for_complete()
        if hasattr(io, "watch"):
            with io.watch("greeting", lambda notify_id, notifier_id, watch_id, data: "heard"):
                io.notify("greeting", "listen")
        else:
            io.notify("greeting", "listen")
        try:
            io.read("nobody")
        except rados.ObjectNotFound:
            pass
        io.remove_object("greeting")
"""
_WRITER = """\
import rados, sys
conf, pool = sys.argv[1:]
with rados.Rados(conffile=conf, name="client.admin") as cluster, cluster.open_ioctx(pool) as io:
    for line in sys.stdin:
        name, count = line.split()
        writes = [io.aio_write_full(name, b"%04d " % i * 200) for i in range(int(count))]
        for write in writes:
            write.wait_for_complete()
        print(flush=True)
"""


_OTHERS = {
    "mgr.x": ("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"),
    "mds.a": ("mon", "allow profile mds", "osd", "allow *", "mds", "allow *", "mgr", "allow profile mds"),
}
"""Daemons other than monitors and OSDs, and their capabilities."""
_COMMANDER = """\
import json, rados, sys, time
command = lambda prefix: json.dumps({"prefix": prefix, "format": "json"})
with rados.Rados(conffile=sys.argv[1], name="client.admin") as cluster:
    while not json.loads(cluster.mon_command(command("mgr dump"), b"")[1])["available"]:
        time.sleep(0.5)
    assert cluster.mgr_command(command("pg dump"), b"")[0] == 0
    assert cluster.osd_command(0, command("version"), b"")[0] == 0
"""


def client(cluster: RealCluster, tcpdump: Tcpdump) -> None:
    """One client, from its first connection to the monitor to its last: commands, objects, a notification."""
    _make_pool(cluster)
    with tcpdump:
        run("python3", "-c", _CLIENT, str(cluster.conf), POOL)


def osds(cluster: RealCluster, tcpdump: Tcpdump) -> None:
    """Two OSDs start and store replicas; then their connection is cut while messages are in flight."""
    _make_pool(cluster)
    where = json.loads(cluster.ceph("osd", "map", POOL, "object", "-f", "json"))
    primary = cluster.osds[where["acting_primary"]]
    for osd in cluster.osds:
        osd.stop()
    with tcpdump:
        for osd in cluster.osds:
            osd.start()
        for osd in cluster.osds:
            osd.wait_until_up()
        with ClientProcess(_WRITER, str(cluster.conf), POOL) as writer:
            writer.do("object 2")
            _cut_while_silent(cluster, primary, writer)
            writer.do("object 2")


def manager_and_mds(cluster: RealCluster, tcpdump: Tcpdump) -> None:
    """A manager and an MDS start next to an OSD; a file system is created, and each daemon gets commands."""
    _make_pool(cluster)
    for pool in ("meta", "data"):
        cluster.ceph("osd", "pool", "create", pool, "1", "1")
    cluster.ceph("fs", "new", "files", "meta", "data")
    directory = cluster.monitor.directory
    for name, caps in _OTHERS.items():
        key = cluster.ceph("auth", "get-or-create", name, *caps)
        with cluster.keyring.open("a") as keyring:
            keyring.write(key)
        (directory / name).mkdir()
    with tcpdump, ExitStack() as undo:
        for name in _OTHERS:
            daemon = Daemon(name, cluster.conf, directory)
            undo.callback(daemon.end)
        run("python3", "-c", _COMMANDER, str(cluster.conf))
        wait_until(lambda: _serves_files(daemon))


def _serves_files(mds: Daemon) -> bool:
    try:
        return bool(mds.admin("status")["state"] == "up:active")
    except (OSError, LocalError):
        return False  # the daemon does not listen yet, or its state is not known yet


def _make_pool(cluster: RealCluster) -> None:
    """Create the pool, with one placement group, and wait until it accepts a write."""
    cluster.ceph("osd", "pool", "create", POOL, "1", "1")
    cluster.ceph("osd", "pool", "application", "enable", POOL, "rados")
    cluster.rados("-p", POOL, "put", "object", "-", stdin="first")


def _cut_while_silent(cluster: RealCluster, primary: RealOsd, writer: ClientProcess) -> None:
    """Cut the OSDs' connection after the primary has sent messages that the replica never received."""
    ports = [port for osd in cluster.osds for port in _cluster_ports(osd)]
    with silence(ports):
        writer.start("object 5")
        wait_until(lambda: primary.admin("dump_ops_in_flight")["num_ops"] >= 5)
        if not sum(map(cut, ports)):
            raise RuntimeError("the OSDs have no connection to cut")
    writer.wait()


def _cluster_ports(osd: RealOsd) -> list[int]:
    """Return the ports of an OSD's cluster messenger: bound after those for clients, before heartbeats."""
    ports = listening_ports(osd.pid)
    each = len(ports) // 4
    return ports[each : 2 * each]
