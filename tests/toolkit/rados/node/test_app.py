"""Commands of a client node, on a real cluster."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from messenger.errors import LocalError, MsgrError
from toolkit.cluster.real import RealCluster
from toolkit.rados.node.app import RadosApp
from toolkit.rados.node.program import run_client
from toolkit.rados.node.spec import RadosSpec

pytestmark = [pytest.mark.needs("ceph-osd", "ceph-mon", "ceph"), pytest.mark.xdist_group("real_cluster")]

POOL = "nodes"
Clusters = Callable[..., RealCluster]
Records = list[tuple[float, str, dict[str, Any]]]


@pytest.fixture(scope="module")
def spec(real_cluster: Clusters) -> RadosSpec:
    cluster = real_cluster(3, "crc", "cephx")
    cluster.ceph("osd", "pool", "create", POOL, "4")
    return RadosSpec(
        name="app",
        rados="client.admin",
        monitors=[cluster.monitor.addr_v2],
        keyring=cluster.keyring.read_text(),
        pool=POOL,
        names={cluster.monitor.addr_v2: "mon", cluster.monitor.addresses: "mon"},
    )


def records_of(spec: RadosSpec, script: Callable[[RadosApp], Coroutine[Any, Any, None]]) -> Records:
    """Carry out a script on a client; its history."""
    records: Records = []

    async def live() -> None:
        app = RadosApp(spec, lambda *record: records.append(record))
        await app.open()
        try:
            await script(app)
        finally:
            await app.close()

    asyncio.run(live())
    return records


def test_app_gets_and_verifies_objects_that_it_put(spec: RadosSpec) -> None:
    async def script(app: RadosApp) -> None:
        put = await app.carry_out("put", {"oid": "object", "size_bytes": 3000})
        assert (put["state"], put["size_bytes"]) == ("done", 3000)
        assert (await app.carry_out("get", {"oid": "object"}))["digest"] == put["digest"]
        assert (await app.carry_out("stat", {"oid": "object"}))["size_bytes"] == 3000
        assert await app.carry_out("fill", {"count": 5}) == {"done": 8, "pending": [], "failed": []}
        assert await app.carry_out("verify", {}) == {"checked": 6, "wrong": []}
        assert POOL in (await app.carry_out("map", {}))["pools"]

    records_of(spec, script)


def test_verify_reports_objects_changed_by_another_client(spec: RadosSpec, real_cluster: Clusters) -> None:
    cluster = real_cluster(3, "crc", "cephx")

    async def script(app: RadosApp) -> None:
        for oid in ("changed", "gone", "kept"):
            await app.carry_out("put", {"oid": oid, "text": "mine"})
        await asyncio.to_thread(cluster.rados, "-p", POOL, "put", "changed", "-", stdin="theirs")
        await asyncio.to_thread(cluster.rados, "-p", POOL, "rm", "gone")
        assert await app.carry_out("verify", {}) == {"checked": 3, "wrong": ["changed", "gone"]}
        await app.carry_out("remove", {"oid": "changed"})
        assert (await app.carry_out("verify", {}))["wrong"] == ["gone"]

    records_of(spec, script)


def test_an_answer_does_not_wait_for_ever(spec: RadosSpec, real_cluster: Clusters) -> None:
    cluster = real_cluster(3, "crc", "cephx")

    async def script(app: RadosApp) -> None:
        await asyncio.to_thread(cluster.ceph, "osd", "pause")
        try:
            put = await app.carry_out("put", {"oid": "paused", "text": "late", "wait_s": 0.1})
            assert put == {"operation": 1, "verb": "put", "oid": "paused", "state": "pending"}
            assert await app.carry_out("operations", {}) == {"done": 0, "pending": [put], "failed": []}
            assert await app.carry_out("verify", {}) == {"checked": 0, "wrong": []}
        finally:
            await asyncio.to_thread(cluster.ceph, "osd", "unpause")
        assert (await app.carry_out("wait", {}))["done"] == 1
        assert await app.carry_out("verify", {}) == {"checked": 1, "wrong": []}

    records_of(spec, script)


def test_watchers_receive_notifications(spec: RadosSpec) -> None:
    async def script(app: RadosApp) -> None:
        await app.carry_out("put", {"oid": "bell", "text": "here"})
        await app.carry_out("watch", {"oid": "bell"})
        with pytest.raises(LocalError, match="bell is watched already"):
            await app.carry_out("watch", {"oid": "bell"})
        assert await app.carry_out("notify", {"oid": "bell", "text": "ring"}) == {"replies": ["app"], "missed": []}
        assert (await app.carry_out("notifications", {}))["heard"] == [{"oid": "bell", "text": "ring"}]
        await app.carry_out("unwatch", {"oid": "bell"})
        with pytest.raises(LocalError, match="bell is not watched"):
            await app.carry_out("unwatch", {"oid": "bell"})

    records_of(spec, script)


def test_app_refuses_unknown_verbs_and_missing_objects(spec: RadosSpec) -> None:
    async def script(app: RadosApp) -> None:
        with pytest.raises(LocalError, match="unknown verb 'fly'; known: "):
            await app.carry_out("fly", {})
        with pytest.raises(MsgrError, match="read of 'nobody': ENOENT"):
            await app.carry_out("get", {"oid": "nobody"})
        assert [each["oid"] for each in (await app.carry_out("operations", {}))["failed"]] == ["nobody"]

    records_of(spec, script)


def test_history_contains_the_monitor_and_its_frames(spec: RadosSpec) -> None:
    async def script(app: RadosApp) -> None:
        await app.carry_out("put", {"oid": "said", "text": "so"})
        sessions = (await app.carry_out("sessions", {}))["sessions"]
        assert "mon" in {session["peer"] for session in sessions}

    records = records_of(spec, script)
    sent = [fields for _, kind, fields in records if kind == "send"]
    delivered = [fields for _, kind, fields in records if kind == "deliver"]
    frames = [fields for _, kind, fields in records if kind == "frame" and fields["tag"] == "MESSAGE"]
    assert len([frame for frame in frames if frame["direction"] == "tx"]) == len(sent)
    assert len([frame for frame in frames if frame["direction"] == "rx"]) >= len(delivered)
    assert "mon" in {fields["peer"] for fields in sent}
    assert all(frame["link"].startswith("app/") for frame in frames)


def test_app_reports_an_unreachable_cluster(spec: RadosSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.rados.node.app.CONNECT_TIMEOUT_S", 0.2)
    absent = RadosSpec.from_json(spec.as_json() | {"monitors": ["v2:127.0.0.1:1/0"]})

    async def script(app: RadosApp) -> None:
        raise AssertionError(app)

    with pytest.raises(LocalError, match=r"connecting to .*ETIMEDOUT"):
        records_of(absent, script)


class Lines:
    """A controller that records what it receives."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put(self, **values: Any) -> None:
        self.lines.append(values)

    def record(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        """Records are not looked at here."""


def test_commands_are_lines(spec: RadosSpec) -> None:
    control = Lines()
    commands = [
        {"id": 1, "verb": "put", "args": {"oid": "line", "text": "one"}},
        {"id": 2, "verb": "get", "args": {"oid": "line"}},
        {"id": 3, "verb": "get", "args": {"wrong": 1}},
        {"id": 4},
    ]

    async def live() -> None:
        reader = asyncio.StreamReader()
        for command in commands:
            reader.feed_data(json.dumps(command).encode() + b"\n")
        reader.feed_data(b"no JSON\n")
        reader.feed_eof()
        await run_client(spec.as_json(), reader, control)

    asyncio.run(live())
    ready, put, get, wrong, nothing, broken = control.lines
    assert ready == {"ready": "client.admin"}
    assert put["answer"]["state"] == "done"
    assert (get["reply"], get["answer"]["text"]) == (2, "one")
    assert wrong["error"].startswith("TypeError: ")
    assert nothing == {"reply": 4, "error": "LocalError: a command needs a verb"}
    assert broken["error"].startswith("JSONDecodeError: ")
