"""Our client of a file system and a real MDS: links that are cut, a daemon that is killed, sessions that end."""

import asyncio
import errno
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from messenger.cephx.exchange import ConMode
from messenger.compat import override
from messenger.config import Config
from messenger.errors import Fault, FaultReason
from messenger.messages.mds_client import MdsRequestOp as Op
from messenger.messages.mds_client import SessionOp
from messenger.messenger import Connection, Messenger
from tests.support.aio import on_loop, within
from tests.support.filesystems import FS_SPEC, in_fs_group, needs_mds
from toolkit.cephfs.client import FsClient
from toolkit.cephfs.session import MdsSession, State
from toolkit.cluster import Cluster
from toolkit.cluster.spec import parse_spec
from toolkit.faults.points import ArmedPoints
from toolkit.rados.errors import RadosError

patiently = functools.partial(within, 90)
pytestmark = in_fs_group
RIGHTS = (0o755).to_bytes(4, "little")


class Cut(FsClient):
    """A client whose links can be cut."""

    @override
    def make_messenger(self, auth: Any, config: Config | None) -> Messenger:
        self.points = ArmedPoints()
        return Messenger(auth_client=auth, dispatcher=self, config=config, interceptor=self.points)


@pytest.fixture
def cluster(msgrlab_cluster: Callable[..., Cluster]) -> Cluster:
    """A file system; the same one for all tests."""
    return msgrlab_cluster(parse_spec(FS_SPEC, "fs.yaml"), shared=True)


def client(cluster: Cluster, **options: Any) -> Cut:
    assert cluster.ceph_conf is not None
    keyring = cluster.ceph_conf.parent / "keyring"
    config = Config.only_mode(ConMode.SECURE)
    return Cut.connect(cluster.nodes["mon"].address, keyring=keyring, config=config, timeout_s=20, **options)


def ceph(cluster: Cluster, *arguments: str) -> str:
    return cluster.nodes["mon"].host.run("ceph", "-c", str(cluster.ceph_conf), *arguments)


def seen_by_mds(cluster: Cluster, gid: int) -> str:
    """Return the daemon's text about a client's session; empty if it has none."""
    listed = cluster.nodes["mds"].ask("session ls")
    return next((session["state"] for session in listed if session["id"] == gid), "")


@needs_mds
@patiently
async def test_each_request_is_executed_once_despite_cut_links(cluster: Cluster) -> None:
    async with client(cluster) as fs:
        session = await fs.open(hostname="posed")
        (known,) = [each for each in cluster.nodes["mds"].ask("session ls") if each["id"] == fs.global_id]
        assert (known["state"], known["client_metadata"]["hostname"]) == ("open", "posed")
        for number, point in enumerate(("MESSAGE WRITE", "MESSAGE READ") * 3):
            fs.points.arm(point, "FAULT", 1)
            reply = await session.request(Op.MKDIR, f"cut{number}", arguments=RIGHTS, safe=False)
            assert reply.result == 0
        assert session.times("connected") > 6
        assert session.times("open") == 1, "it goes on, and is not opened again"
        with pytest.raises(RadosError, match="EEXIST"):
            await session.request(Op.MKDIR, "cut0", arguments=RIGHTS)
        await session.request(Op.RMDIR, "cut0", safe=False)
        session.close()
        await session.wait(State.CLOSED)
        assert seen_by_mds(cluster, fs.global_id) == ""


@needs_mds
@patiently
async def test_session_continues_with_the_daemon_that_takes_over(cluster: Cluster) -> None:
    mds = cluster.nodes["mds"]
    async with client(cluster) as fs:
        session = await fs.open()
        await session.request(Op.MKDIR, "kept", arguments=RIGHTS, safe=False)
        await asyncio.to_thread(mds.kill)
        lost = session.begin(Op.MKDIR, "meanwhile", arguments=RIGHTS)
        await asyncio.to_thread(mds.restart)
        async with asyncio.timeout(60):
            assert (await lost.safe).result == 0
        assert session.times("reconnecting") == 1
        assert session.state is State.OPEN
        assert seen_by_mds(cluster, fs.global_id) == "open"
        for path in ("kept", "meanwhile"):
            assert (await session.request(Op.GETATTR, path)).result == 0


@needs_mds
@patiently
async def test_session_is_stale_until_it_is_renewed(cluster: Cluster) -> None:
    await asyncio.to_thread(ceph, cluster, "fs", "set", "files", "session_timeout", "30")
    async with client(cluster) as fs:
        session = await fs.open()
        fs.renews = False
        async with asyncio.timeout(60):
            await session.wait(State.STALE)
        assert seen_by_mds(cluster, fs.global_id) == "stale"
        session.renew()
        async with asyncio.timeout(10):
            await session.wait(State.OPEN)
        assert seen_by_mds(cluster, fs.global_id) == "open"


@needs_mds
@patiently
async def test_blocklisted_client_is_reset_and_refused(cluster: Cluster) -> None:
    async with client(cluster) as fs:
        session = await fs.open()
        (known,) = [each for each in cluster.nodes["mds"].ask("session ls") if each["id"] == fs.global_id]
        await asyncio.to_thread(ceph, cluster, "osd", "blocklist", "add", known["inst"].split()[1])
        async with asyncio.timeout(30):
            await session.wait_until(lambda: session.is_over)
        assert session.state is State.RESET
        with pytest.raises(RadosError) as refused:
            await fs.open()
        assert refused.value.errno == errno.EACCES
        assert "blocklisted" in str(refused.value)


@on_loop
async def test_missing_file_system_is_an_error(msgrlab_cluster: Callable[..., Cluster]) -> None:
    cluster = msgrlab_cluster("embedded", shared=True)
    assert cluster.ceph_conf is not None
    keyring = cluster.ceph_conf.parent / "keyring"
    fs = FsClient.connect(cluster.nodes["mon"].address, keyring=keyring, timeout_s=2)
    with pytest.raises(RadosError, match="is there a file system") as refused:
        await fs.__aenter__()
    assert refused.value.errno == errno.ENOENT


@pytest.mark.parametrize(("state", "then"), [(State.OPEN, State.RESET), (State.OPENING, State.OPENING)], ids=str)
@on_loop
async def test_reconnect_of_the_same_daemon_resets_the_session(state: State, then: State) -> None:
    fs = FsClient.connect("v2:127.0.0.1:1")
    sent: list[Any] = []
    connection = cast(Connection, SimpleNamespace(send=sent.append, mark_down=lambda: None))
    session = fs.sessions[0] = MdsSession(0, {}, lambda: 1)
    session.dialled(connection)
    session.become(state)
    fs.ms_handle_connect(connection)
    assert session.state is state
    fs.ms_handle_remote_reset(connection, Fault(FaultReason.EOF, "not known"))
    assert session.state is state, "a daemon at the same port may have come in the place of that one"
    fs.ms_handle_connect(connection)
    assert session.state is then
    assert [message.payload.op for message in sent] == ([SessionOp.REQUEST_OPEN] if state is State.OPENING else [])
