"""The real daemons of a cluster together: make, start, query and stop them."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from toolkit.cluster.backends.base import Host, Program
from toolkit.cluster.ceph.admission import Admission
from toolkit.cluster.ceph.daemon import READY_TIMEOUT_S, CephDaemon
from toolkit.cluster.ceph.programs import require_programs
from toolkit.cluster.spec.model import ClusterSpec

HARMLESS = {
    "MON_DISK_LOW": "this machine's disk",
    "MGR_DOWN": "no manager was asked for",
    "MGR_MODULE_ERROR": "managers run without modules",
    "MGR_MODULE_DEPENDENCY": "managers run without modules",
    "MDS_INSUFFICIENT_STANDBY": "one MDS has no standby",
    "TOO_FEW_OSDS": "small on purpose",
    "POOL_NO_REDUNDANCY": "small on purpose",
    "TOO_FEW_PGS": "small on purpose",
    "POOL_APP_NOT_ENABLED": "a pool that was just made",
}
"""Health checks that do not keep a cluster from being ready, and why."""

_CLEAN = "Started/Primary/Active/Clean"
"""State of a placement group at its primary OSD, if it is active and clean."""
_REPLICA = "Started/ReplicaActive/RepNotRecovering"
"""State of an up-to-date placement group at another OSD."""
_CREATION_S = 5.0
"""Seconds after which a placement group that an OSD was asked to create should be clean."""
_QUERIES = 4
"""Number of queries to run at once."""


class CephNodes(Admission):
    """Real daemons on hosts of any backend.

    Args:
        spec: spec of the cluster.
        hosts: hosts of its daemons and RADOS clients, by the names of nodes.
        report: called with a short description of each step.
        announce: called with a line before something is fetched or run that was not requested by name.

    Raises:
        LocalError: programs are not installed.
        Unsupported: an image needs root.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        hosts: Mapping[str, Host],
        report: Callable[[str], None] = lambda _: None,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(spec, hosts, announce)
        self._report = report
        if not all(member.host.is_container for member in self.layout.members.values()):
            require_programs({member.kind for member in self.layout.members.values()}, spec.ceph.release)
        # daemons die with the thread that starts them, so this one runs until the end
        self._thread = ThreadPoolExecutor(1, "ceph daemons")
        self._introduction, self._settlement = _Once(self._introduce), _Once(self._settle)
        self.nodes = {name: CephDaemon(self, member) for name, member in self.layout.members.items()}
        """Nodes by name, in the spec's order; start all of them at once, each in its own thread."""

    def of(self, kind: str) -> list[CephDaemon]:
        """Return the daemons of a kind."""
        return [node for node in self.nodes.values() if node.kind == kind]

    # ---- up and down

    def up(self) -> None:
        """Make and start all daemons, and wait until they serve.

        Raises:
            LocalError: a daemon does not start, with its last output, or the cluster does not become healthy.
        """

        def start(node: CephDaemon) -> None:
            node.start()
            node.wait_ready()

        self._each(start)

    def down(self) -> None:
        """Kill all daemons and drop their data. A second call does nothing."""
        self._each(CephDaemon.finish)
        self._thread.shutdown()

    def wait_healthy(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until all placement groups are clean, and health is OK except for :data:`HARMLESS` warnings.

        Raises:
            LocalError: it takes longer; with the remaining problems.
        """
        timeout_s *= self._slowness
        deadline_s = time.monotonic() + timeout_s
        while True:
            problems = self._problems()
            if not problems:
                return
            if time.monotonic() > deadline_s:
                raise LocalError(f"Ceph is not healthy after {timeout_s:.0f} s: {'; '.join(problems)}")
            time.sleep(CephDaemon.poll_s * self._slowness)

    # ---- for its daemons

    def launch(self, start: Callable[[], Program]) -> Program:
        """Start a program in the thread that lives until the end: daemons die with their starting thread."""
        return self._thread.submit(start).result()

    def introduce(self) -> None:
        """Register all OSDs with the monitors, unless they are; raises LocalError."""
        self._introduction()

    def recreate(self) -> bool:
        """Recreate placement groups that no OSD has any more; returns False if the OSD has ignored a request.

        Only with a single OSD: with several, others still have the placement groups that one has lost. An OSD
        ignores requests for pools without the flag "creating". The monitor sets that flag with the next OSD map,
        but may send the request with the present one, and does not repeat it.

        Raises:
            LocalError: the monitors refuse it.
        """
        if len(self.of("osd")) != 1:
            return True
        self._report("Ceph: placement groups are made anew")
        self._batch(f"osd force-create-pg {group} --yes-i-really-mean-it" for group in self._group_names())
        deadline_s = time.monotonic() + _CREATION_S * self._slowness
        while time.monotonic() < deadline_s:
            if not self._unclean_pgs():
                return True
            time.sleep(CephDaemon.poll_s * self._slowness)
        return False

    @override
    def settle(self) -> None:
        self._settlement()

    # ---- asking

    def ceph(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's ``ceph`` as ``client.admin``, on the host of a running monitor; returns its output.

        Raises:
            LocalError: the command failed, with its error output, or no monitor runs.
        """
        return self._tool("ceph", *arguments, stdin=stdin)

    def rados(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's ``rados`` there; raises LocalError like :meth:`ceph`."""
        return self._tool("rados", *arguments, stdin=stdin)

    def status(self) -> dict[str, Any]:
        """Return health, quorum, and the numbers of OSDs that exist, are up, and are in.

        Raises:
            LocalError: the monitors do not answer.
        """
        status = json.loads(self.ceph("status", "--format", "json", *self._within(2)))
        osdmap = status["osdmap"].get("osdmap", status["osdmap"])  # one level deeper until Nautilus
        return {
            "health": status["health"]["status"],
            "checks": {name: entry["summary"]["message"] for name, entry in status["health"]["checks"].items()},
            "quorum": status["quorum_names"],
            "osds": {"all": osdmap["num_osds"], "up": osdmap["num_up_osds"], "in": osdmap["num_in_osds"]},
            "pgs": {entry["state_name"]: entry["count"] for entry in status["pgmap"].get("pgs_by_state", [])},
            "mgr": bool(status.get("mgrmap", {}).get("available")),
        }

    @override
    def listeners(self) -> dict[str, list[tuple[str, int]]]:
        mons = self.of("mon")
        found = {node.name: [(addr.host, addr.port) for addr in AddrVec.parse(node.address)] for node in mons}
        dump = json.loads(self.ceph("osd", "dump", "--format", "json", *self._within(5)))
        by_id = {int(node.member.id): node.name for node in self.of("osd")}
        for osd in dump["osds"]:
            if osd["up"] and osd["osd"] in by_id:
                pairs = [entry["addr"].rpartition(":") for entry in osd["public_addrs"]["addrvec"]]
                found[by_id[osd["osd"]]] = [(host.strip("[]"), int(port)) for host, _, port in pairs]
        return found

    # ---- inside

    def _tool(self, tool: str, *arguments: str, stdin: str = "") -> str:
        monitor = next((node for node in self.of("mon") if node.state in {"starting", "up"}), None)
        if monitor is None:
            raise LocalError("no monitor runs: msgrlab fault restart MON")
        conf = str(monitor.host.directory / "ceph.conf")
        return monitor.host.run(tool, "-c", conf, *arguments, stdin=stdin)

    @property
    def _slowness(self) -> float:
        return max(member.host.slowness for member in self.layout.members.values())

    def _within(self, timeout_s: int) -> list[str]:
        """Return the arguments of a tool that has so many seconds to connect to a monitor."""
        return ["--connect-timeout", str(round(timeout_s * self._slowness))]

    def _introduce(self) -> None:
        layout = self.layout
        self._wait_for(self.of("mon"))
        lines = [f"osd new {identity} {osd_id}" for osd_id, identity in layout.osd_uuids.items()]
        for pool, pg_num in layout.pools.items():
            application = "cephfs" if pool.startswith("cephfs_") else "rados"
            lines += [f"osd pool create {pool} {pg_num}", f"osd pool application enable {pool} {application}"]
        if layout.of("mds"):
            lines.append("fs new files cephfs_metadata cephfs_data")
        self._report("Ceph: creating OSDs and pools")
        self._batch(lines)

    def _batch(self, lines: Iterable[str]) -> None:
        """Have the monitors run commands, in one connection."""
        output = self.ceph(stdin="".join(f"{line}\n" for line in lines))
        if errors := [line for line in output.splitlines() if line.startswith("Error")]:
            raise LocalError(f"ceph: {'; '.join(errors)}")

    def _group_names(self) -> list[str]:
        """Return the placement groups of all pools, which were made in this order."""
        pools = enumerate(self.layout.pools.values(), 1)
        return [f"{number}.{seed:x}" for number, pg_num in pools for seed in range(pg_num)]

    def _settle(self) -> None:
        self._wait_for(list(self.nodes.values()))
        self._report("Ceph: waiting for health")
        self.wait_healthy()

    def _wait_for(self, nodes: list[CephDaemon]) -> None:
        """Wait for daemons that other threads start."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S * self._slowness
        for node in nodes:
            while not node.ready():
                if node.state in {"dead", "down"} or time.monotonic() > deadline_s:
                    raise LocalError(f"{node.daemon} did not come up: {node.last_words() or 'no output'}")
                time.sleep(CephDaemon.poll_s * self._slowness)

    def _problems(self) -> list[str]:
        """Return what keeps the cluster from being ready; the faster queries come first."""
        unclean = self._unclean_pgs()
        if unclean:
            return [f"{unclean} placement groups are not clean"]
        status = self.status()
        problems = [text for name, text in status["checks"].items() if not self._is_harmless(name)]
        if len(status["quorum"]) < len(self.of("mon")):
            problems.append(f"of the monitors only {', '.join(status['quorum'])} are in quorum")
        osds = len(self.of("osd"))
        if not osds <= min(status["osds"]["up"], status["osds"]["in"]):
            problems.append(f"of {osds} OSDs {status['osds']['up']} are up, {status['osds']['in']} in")
        if self.of("mgr"):
            # manager modules make further placement groups
            groups = status["pgs"].items()
            problems += [f"{n} placement groups are {state}" for state, n in groups if "active+clean" not in state]
            if not status["mgr"]:
                problems.append("no manager is active")
        if self.of("mds") and not any(node.status().get("serves_as") == "up:active" for node in self.of("mds")):
            problems.append("no MDS is active")
        return problems

    def _is_harmless(self, check_name: str) -> bool:
        # newer releases warn that keys of type aes are insecure, but the spec requires them
        of_keys = check_name.startswith("AUTH_INSECURE_") and self.layout.spec.speaks.cipher == "aes"
        return check_name in HARMLESS or of_keys

    def _unclean_pgs(self) -> int:
        """Return the number of placement groups that are not clean; asks OSDs, as there may be no manager."""
        expected = sum(self.layout.pools.values())
        answers = [osd.ask("dump_pgstate_history") for osd in self.of("osd") if osd.state == "up"]
        if all("pgs" in answer for answer in answers):
            states: list[str] = [group["currently"] for answer in answers for group in answer["pgs"]]
            clean = sum(state.startswith(_CLEAN) for state in states)
            # a primary is clean, too, before its replicas have peered
            replicated = sum(state == _REPLICA for state in states) // max(1, self.layout.pool_size - 1)
            return max(0, expected - (min(clean, replicated) if self.layout.pool_size > 1 else clean))
        # the admin socket of Nautilus lacks these states
        with ThreadPoolExecutor(_QUERIES) as pool:
            return expected - sum(pool.map(self._is_clean, self._group_names()))

    def _is_clean(self, group: str) -> bool:
        try:
            state: str = json.loads(self.ceph("tell", group, "query", *self._within(5)))["state"]
        except (LocalError, ValueError):
            return False
        return state.startswith("active+clean")

    def _each(self, what: Callable[[CephDaemon], None]) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            for done in [pool.submit(what, node) for node in self.nodes.values()]:
                done.result()


class _Once:
    """An action that the first caller runs while others wait for it; all get the same error."""

    def __init__(self, what: Callable[[], None]) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._is_done = False
        self._error: LocalError | None = None

    def __call__(self) -> None:
        with self._lock:
            if not self._is_done:
                self._is_done = True
                try:
                    self._what()
                except LocalError as error:
                    self._error = error
            if self._error is not None:
                raise self._error
