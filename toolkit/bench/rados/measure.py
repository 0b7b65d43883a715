"""Measures writes in turns (A B B A): two clients on one real OSD, or one client on two OSDs.

The real cluster is a monitor and an OSD with its objects in memory; the embedded one has the same. Nothing is
pinned to a CPU: real OSDs and ``rados bench`` have threads.
"""

import json
import os
import re
import resource
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from messenger.errors import LocalError
from toolkit.bench.anchor.compare import Ratios
from toolkit.bench.cell import KIB, MIB
from toolkit.bench.rados.load import LONGEST_S, Load
from toolkit.cluster.daemons import Mode, require_tools, run_tool
from toolkit.cluster.own import up
from toolkit.cluster.real import RealCluster
from toolkit.cluster.spec import ClusterSpec
from toolkit.machine import interpreters

SIDES = ("client", "osd")
"""``client``: our client and Ceph's, on Ceph's OSD. ``osd``: our OSD and Ceph's, with Ceph's client."""
POOL = "bench"
_GROUPS = 8
_TURN_BYTES = 192 * MIB
"""Maximum size of one turn's objects together; the OSDs keep them in memory."""
_FEWEST, _MOST = 16, 5000
"""Numbers of objects of one turn."""
_QUIET = {"debug_ms": "0"}
_SECTIONS = {
    "mon.a": _QUIET,
    # a memstore frees the space of removed objects late, and clients wait while an OSD is full
    "osd.0": {**_QUIET, "memstore_device_bytes": str(16 << 30)},
}
"""Options of the real daemons, which otherwise log every message."""
_TIME, _WRITES = "Total time run", "Total writes made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The compared programs, and the writes that they do."""

    side: str
    mode: Mode
    size: int
    """Bytes of each object."""
    in_flight: int
    """Number of writes in flight."""
    count: int
    """Number of objects in each turn."""

    @property
    def name(self) -> str:
        """Name of the case, as in ``client secure 4K x16``."""
        units = ((MIB, "M"), (KIB, "K"), (1, ""))
        size = next(f"{self.size // unit}{word}" for unit, word in units if self.size % unit == 0)
        return f"{self.side} {self.mode} {size} x{self.in_flight}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RadosResult:
    """Medians over the turns of one case, and ratios of pairs of turns: ours divided by Ceph's."""

    case: Case
    ops_per_s: float
    ceph_ops_per_s: float
    rate: Ratios
    """Ratio of the rates; above 1, ours is faster."""
    cpu_us_per_op: float
    """User and system time of the compared program, the client or the OSD."""
    ceph_cpu_us_per_op: float
    cpu: Ratios
    """Ratio of the CPU times; below 1, ours needs less."""
    load: float
    """Load of the machine, the mean of the last minute; the measurement itself accounts for up to 2."""

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON contract."""
        return {
            "name": self.case.name,
            **asdict(self.case),
            "ops_per_s": round(self.ops_per_s, 1),
            "ceph_ops_per_s": round(self.ceph_ops_per_s, 1),
            "rate_ratio": self.rate.as_json(),
            "cpu_us_per_op": round(self.cpu_us_per_op, 2),
            "ceph_cpu_us_per_op": round(self.ceph_cpu_us_per_op, 2),
            "cpu_ratio": self.cpu.as_json(),
            "load": round(self.load, 2),
        }


@dataclass(frozen=True, slots=True)
class _Turn:
    """One run of a client on an OSD."""

    elapsed_s: float
    client_cpu_s: float
    osd_cpu_s: float


@dataclass(frozen=True, slots=True)
class _Server:
    """A cluster with one OSD."""

    conf: Path
    """ceph.conf for Ceph's clients; its keyring has the key of ``client.admin``."""
    addr: str
    """Address of the monitor."""
    keyring: Path
    osd_pid: int


def default_count(size: int) -> int:
    """Return the number of objects of this size in a turn: 5000, or fewer so that they fit into memory."""
    return max(_FEWEST, min(_MOST, _TURN_BYTES // size))


def measure_rados(
    cases: Sequence[Case], turns: int, finished: Callable[[RadosResult], None] = lambda _: None
) -> list[RadosResult]:
    """Measure every case; those of a mode share their clusters.

    Args:
        cases: the cases to measure.
        turns: number of turns of each side.
        finished: called with each result as soon as it is complete.

    Raises:
        Unsupported: Ceph's programs are not installed.
        LocalError: a cluster does not start, or a client fails.
    """
    require_tools(["ceph-osd", "ceph-mon", "rados"])
    results = []
    for mode in dict.fromkeys(case.mode for case in cases):
        of_mode = [case for case in cases if case.mode == mode]
        with _real(mode) as real:
            for case in (case for case in of_mode if case.side == "client"):
                results.append(_compare_clients(case, real, turns))
                finished(results[-1])
            on_osds = [case for case in of_mode if case.side == "osd"]
            if not on_osds:
                continue
            with _embedded(mode) as embedded:
                for case in on_osds:
                    results.append(_compare_osds(case, embedded, real, turns))
                    finished(results[-1])
    return results


def _compare_clients(case: Case, real: _Server, turns: int) -> RadosResult:
    start_s = _start_cpu_s(real)
    pairs = _in_turns(lambda: _ours(case, real), lambda: _ceph(case, real, start_s), turns)
    return _result(case, pairs, lambda turn: turn.client_cpu_s)


def _compare_osds(case: Case, embedded: _Server, real: _Server, turns: int) -> RadosResult:
    pairs = _in_turns(lambda: _ceph(case, embedded), lambda: _ceph(case, real), turns)
    return _result(case, pairs, lambda turn: turn.osd_cpu_s)


def _in_turns(ours: Callable[[], _Turn], ceph: Callable[[], _Turn], turns: int) -> list[tuple[_Turn, _Turn]]:
    pairs = []
    for number in range(turns):
        if number % 2:
            ceph_turn = ceph()
            pairs.append((ours(), ceph_turn))
        else:
            our_turn = ours()
            pairs.append((our_turn, ceph()))
    return pairs


def _result(case: Case, pairs: Sequence[tuple[_Turn, _Turn]], cpu_s: Callable[[_Turn], float]) -> RadosResult:
    rates = [(case.count / ours.elapsed_s, case.count / ceph.elapsed_s) for ours, ceph in pairs]
    costs = [(cpu_s(ours) / case.count * 1e6, cpu_s(ceph) / case.count * 1e6) for ours, ceph in pairs]
    return RadosResult(
        case=case,
        ops_per_s=median(rate for rate, _ in rates),
        ceph_ops_per_s=median(rate for _, rate in rates),
        rate=Ratios.of(rates),
        cpu_us_per_op=median(cost for cost, _ in costs),
        ceph_cpu_us_per_op=median(cost for _, cost in costs),
        cpu=Ratios.of(costs),
        load=os.getloadavg()[0],
    )


# ---- clients


def _ours(case: Case, server: _Server) -> _Turn:
    load = Load(
        addr=server.addr,
        keyring=str(server.keyring),
        mode=case.mode,
        pool=POOL,
        size=case.size,
        in_flight=case.in_flight,
        count=case.count,
    )
    before_s = _cpu_s(server.osd_pid)
    command = [*interpreters.PYTHON, "-m", "toolkit.bench.rados.load"]
    done = subprocess.run(
        command,
        input=load.as_json(),
        capture_output=True,
        text=True,
        env=interpreters.environment(),
        timeout=2 * LONGEST_S,
        check=False,
    )
    if done.returncode:
        raise LocalError(f"our client: {(done.stderr.strip() or 'it failed').splitlines()[-1]}")
    took = json.loads(done.stdout)
    return _Turn(took["elapsed_s"], took["cpu_s"], _cpu_s(server.osd_pid) - before_s)


def _ceph(case: Case, server: _Server, start_s: float = 0.0) -> _Turn:
    """Run ``rados bench``, and remove its objects afterwards.

    Args:
        case: the writes.
        server: the cluster.
        start_s: CPU seconds that the program needs to start and to log in.
    """
    run_name = f"--run-name={secrets.token_hex(4)}"
    writes = ("-b", str(case.size), "-t", str(case.in_flight), "--max-objects", str(case.count))
    osd_before_s, before_s = _cpu_s(server.osd_pid), _children_cpu_s()
    output = _rados(server, "bench", str(LONGEST_S), "write", *writes, run_name, "--no-cleanup")
    client_s, osd_s = _children_cpu_s() - before_s, _cpu_s(server.osd_pid) - osd_before_s
    _rados(server, "cleanup", run_name)
    found = dict(re.findall(r"^([A-Z][a-z ]+): +([0-9.]+)$", output, re.MULTILINE))
    if found.get(_WRITES) != str(case.count):
        raise LocalError(f"rados bench has written {found.get(_WRITES, 'no')} objects, not {case.count}")
    return _Turn(float(found[_TIME]), max(client_s - start_s, 0.0), osd_s)


def _start_cpu_s(server: _Server) -> float:
    """Return the CPU seconds in which ``rados`` starts and logs in."""
    before_s = _children_cpu_s()
    _rados(server, "lspools")
    return _children_cpu_s() - before_s


def _rados(server: _Server, *arguments: str) -> str:
    return run_tool("rados", "-c", str(server.conf), "-p", POOL, *arguments)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used: its CPU clock, as of clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


# ---- servers


@contextmanager
def _real(mode: Mode) -> Iterator[_Server]:
    with RealCluster(osds=1, mode=mode, sections=_SECTIONS) as cluster:
        cluster.ceph("osd", "pool", "create", POOL, str(_GROUPS))
        server = _Server(cluster.conf, cluster.monitor.addr_v2, cluster.keyring, cluster.osds[0].pid)
        _rados(server, "bench", "1", "write", "-b", "4096", "--max-objects", "1")  # waits for active PGs
        yield server


@contextmanager
def _embedded(mode: Mode) -> Iterator[_Server]:
    spec = ClusterSpec.model_validate(
        {
            "name": "bench",
            "speaks": {"protocol": "v2", "mode": mode},
            "nodes": {"mon": {"ceph": "mon"}, "osd": {"ceph": "osd"}},
            "ceph": {"release": "embedded", "pools": {POOL: _GROUPS}},
        }
    )
    with up(spec, backend="process", name=f"bench-{secrets.token_hex(4)}") as cluster:
        conf = cluster.ceph_conf
        assert conf is not None
        yield _Server(conf, cluster.nodes["mon"].address, conf.parent / "keyring", cluster.nodes["osd"].pid)
