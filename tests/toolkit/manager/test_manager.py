"""Our manager beside real daemons: sessions, reports, cut links, restart, failover, refused commands and peers."""

import asyncio
import errno
import functools
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.tickets import ServiceKey
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import FaultError, FaultReason, LocalError
from messenger.messages.mgrmap import ModuleInfo
from messenger.messenger import Messenger
from messenger.session.policy import LOSSY_CLIENT
from tests.support.aio import on_loop, within
from tests.support.filesystems import FS_SPEC, in_fs_group, needs_mds
from toolkit.cluster import Cluster
from toolkit.cluster.spec import parse_spec
from toolkit.manager.daemon import Daemon
from toolkit.manager.manager import ANY_PORTS, Manager, State
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError

patiently = functools.partial(within, 60)
pytestmark = in_fs_group
CAPS = ("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *")
ACTIVE_CLEAN = {"state_name": "active+clean"}
V1_SPEC = "speaks: {protocol: v1}\nnodes: {mon: {ceph: mon}, osd: {ceph: osd}}\n"
DAEMONS = ["mds.mds", "mon.mon", "osd.0"]


@pytest.fixture
def cluster(msgrlab_cluster: Callable[..., Cluster]) -> Cluster:
    """A file system without a manager; the same one for all tests."""
    return msgrlab_cluster(parse_spec(FS_SPEC, "fs.yaml"), shared=True)


def spoken(cluster: Cluster) -> Config | None:
    """Options for the mode of a cluster on v2; v1 has one mode only."""
    return None if cluster.spec.speaks.protocol == "v1" else Config.only_mode(ConMode.SECURE)


async def ceph(cluster: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["ceph", "-c", str(cluster.ceph_conf), *arguments]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=30, check=False
    )


async def ask(cluster: Cluster, prefix: str, **arguments: Any) -> bytes:
    """Run a command of the monitor as client.admin."""
    assert cluster.ceph_conf is not None
    keyring = cluster.ceph_conf.parent / "keyring"
    async with Rados.connect(cluster.nodes["mon"].address, keyring=keyring, config=spoken(cluster)) as admin:
        return (await admin.command({"prefix": prefix, **arguments})).output


async def status(cluster: Cluster) -> Any:
    return json.loads(await ask(cluster, "status", format="json"))


async def manager(cluster: Cluster, directory: Path, name: str = "msgrlab", *caps: str) -> Manager:
    """A manager whose key the monitor has made."""
    keyring = directory / name
    keyring.write_bytes(await ask(cluster, "auth get-or-create", entity=f"mgr.{name}", caps=caps or CAPS))
    return Manager.connect(
        cluster.nodes["mon"].address,
        entity=f"mgr.{name}",
        keyring=keyring,
        config=spoken(cluster),
        listen_on="v1:127.0.0.1:0/0" if cluster.spec.speaks.protocol == "v1" else ANY_PORTS,
        timeout_s=20 if not caps else 1,
    )


def has_more_reports(osd: Daemon, seen: int) -> bool:
    return osd.pg_reports > seen


@asynccontextmanager
async def running(ours: Manager) -> AsyncIterator[Manager]:
    """Run it, and end it so that the next test's manager becomes active at once."""
    async with ours:
        yield ours
        if ours.state is State.ACTIVE:
            await ours.fail()


@needs_mds
@patiently
async def test_daemons_report_and_the_monitors_get_the_sums(cluster: Cluster, tmp_path: Path) -> None:
    ours = await manager(cluster, tmp_path)
    ours.modules, ours.services = [ModuleInfo("posed")], {"posed": "http://127.0.0.1:1/"}
    ours.configure(1)
    async with running(ours):
        await ours.wait_until(lambda: ours.sessions() == DAEMONS and ours.digest)
        osd = ours.daemons["osd.0"]
        await ours.wait_until(lambda: osd.reports > 1 and osd.pg_reports and osd.metadata)
        assert str(osd.entity) == "osd.0"
        assert osd.metadata["ceph_version"].startswith("ceph version 16.2")
        groups = sum(pool.pg_num for pool in ours.monitors.osdmap.pools.values())
        assert osd.counters.values["osd.numpg"].value == len(osd.pg_stats) == groups > 0

        while (result := (await status(cluster))["pgmap"])["pgs_by_state"] != [ACTIVE_CLEAN | {"count": groups}]:
            seen = osd.pg_reports
            await ours.wait_until(functools.partial(has_more_reports, osd, seen))
        assert osd.osd_stat is not None
        assert result["bytes_total"] == osd.osd_stat.kb * 1024
        space = osd.osd_stat.statfs
        pools = json.loads(await ask(cluster, "df", format="json"))["pools"]
        free_bytes = space.available_bytes - 0.05 * space.total_bytes
        assert pools
        assert all(pool["stats"]["max_avail"] == pytest.approx(free_bytes, rel=0.01) for pool in pools)
        mgrmap = json.loads(await ask(cluster, "mgr dump", format="json"))
        assert (mgrmap["active_name"], mgrmap["active_gid"], mgrmap["available"]) == ("msgrlab", ours.gid, True)
        assert mgrmap["services"] == ours.services
        assert [module["name"] for module in mgrmap["available_modules"]] == ["posed"]


@needs_mds
@patiently
async def test_daemons_come_back_after_a_cut_link_and_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    ours = await manager(cluster, tmp_path)
    ours.configure(1)
    async with running(ours):
        await ours.wait_until(lambda: ours.sessions() == DAEMONS)
        osd = ours.daemons["osd.0"]
        ours.cut("osd.0")
        assert not osd.is_open
        with pytest.raises(RadosError, match=r"osd.0 has no open session; open: mds.mds, mon.mon: ENOTCONN"):
            ours.cut("osd.0")
        await ours.wait_until(lambda: osd.is_open and osd.reports and osd.counters.values)  # all declared again
        assert (osd.times("open"), osd.times("cut")) == (2, 1)

        gid, nonces = ours.gid, {addr.nonce for addr in ours.addrs}
        await ours.restart()
        assert ours.gid != gid
        assert not nonces & {addr.nonce for addr in ours.addrs}
        await ours.wait_until(lambda: ours.sessions() == DAEMONS and osd.pg_reports)
        assert ours.state is State.ACTIVE
        assert osd.times("open") == 3


@patiently
async def test_daemons_report_over_v1_and_come_back_after_a_cut_link(
    msgrlab_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = msgrlab_cluster(parse_spec(V1_SPEC, "v1.yaml"))
    ours = await manager(cluster, tmp_path)
    ours.configure(1)
    async with running(ours):
        await ours.wait_until(lambda: ours.sessions() == ["mon.mon", "osd.0"] and ours.digest)
        assert str(ours.addrs).startswith("v1:")
        osd = ours.daemons["osd.0"]
        await ours.wait_until(lambda: osd.reports and osd.pg_reports)
        ours.cut("osd.0")
        await ours.wait_until(lambda: osd.is_open and osd.reports and osd.counters.values)
        assert (osd.times("open"), osd.times("cut"), osd.times("bad_message")) == (2, 1, 0)


@needs_mds
@patiently
async def test_standby_becomes_active_after_the_active_manager_failed(cluster: Cluster, tmp_path: Path) -> None:
    async with (
        await manager(cluster, tmp_path, "first") as first,
        await manager(cluster, tmp_path, "second") as second,
    ):
        await first.wait(State.ACTIVE)
        assert second.state is State.STANDBY
        await first.wait_until(lambda: "osd.0" in first.sessions())
        assert second.sessions() == []
        assert [standby.name for standby in second.mgrmap.standbys.values()] == ["second"]
        await ask(cluster, "mgr fail", who="first")
        await second.wait(State.ACTIVE)
        await first.wait(State.REPLACED)
        assert first.sessions() == []
        await second.wait_until(lambda: second.sessions() == DAEMONS)

        await first.restart()
        assert first.state is State.STANDBY
        with pytest.raises(
            RadosError, match=r"mgr.first is standby, only an active manager can be failed: EINVAL"
        ):
            await first.fail()
        await second.fail()
        await first.wait(State.ACTIVE)
        await first.fail()
        await second.stop()
        with pytest.raises(RadosError, match=r"mgr.second does not run"):
            _ = second.addrs


@needs_mds
@patiently
async def test_commands_are_answered_with_an_error(cluster: Cluster, tmp_path: Path) -> None:
    async with running(await manager(cluster, tmp_path)) as ours:
        await ours.wait_until(lambda: ours.mgrmap.available)
        shown = await ceph(cluster, "pg", "stat")
        assert (shown.returncode, shown.stdout) == (errno.EOPNOTSUPP, "")
        assert "this is msgrlab's manager, which carries out no commands" in shown.stderr
        result = await ceph(cluster, "tell", "mgr", "status")
        assert result.returncode == errno.EOPNOTSUPP
        assert [json.loads(each)["prefix"] for each in ours.refused_commands] == [
            "pg stat",
            "get_command_descriptions",
        ]


@needs_mds
@patiently
async def test_peers_and_managers_with_wrong_keys_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    rng = Random(7)
    async with running(await manager(cluster, tmp_path)) as ours:
        assert ours.monitors.rotating is not None
        forged = ServiceKey(max(ours.monitors.rotating.secrets), CryptoKey.generate(rng, 0))
        liar = MintingClient(AuthName.parse("osd.0"), 4242, {EntityType.MGR: forged})
        stranger = Messenger(
            EntityName(EntityType.OSD, 0), auth_client=liar, config=Config.only_mode(ConMode.SECURE)
        )
        async with stranger:
            link = stranger.connect(AddrVec(tuple(ours.addrs)[:1]), EntityType.MGR, LOSSY_CLIENT)
            with pytest.raises(FaultError) as refused:
                await link.ready(10)
        assert refused.value.fault.reason is FaultReason.AUTH_DENIED

    keyring = tmp_path / "wrong"
    keyring.write_text(f"[mgr.msgrlab]\n\tkey = {CryptoKey.generate(rng, 0).to_base64()}\n")
    wrong = Manager.connect(cluster.nodes["mon"].address, keyring=keyring, timeout_s=10)
    with pytest.raises(RadosError) as denied:
        await wrong.__aenter__()
    assert denied.value.errno == errno.EACCES
    powerless = await manager(cluster, tmp_path, "powerless", "mon", "allow r")
    with pytest.raises(RadosError, match=r"mgr.powerless to the manager map; it needs mon 'profile mgr'"):
        await powerless.__aenter__()
    assert powerless.state is State.STOPPED


@on_loop
async def test_an_entity_of_another_type_is_an_error() -> None:
    with pytest.raises(LocalError, match=r"entity 'osd.0' is not a manager: give mgr.NAME"):
        Manager.connect("v2:127.0.0.1:1", entity="osd.0")
