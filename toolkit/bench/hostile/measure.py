"""Measures attacks: starts and stops the attackers, times the client, and reads the server's resources."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import SystemRandom
from time import monotonic, time
from typing import Any

from messenger.cephx.keys import CryptoKey
from messenger.link import Protocol
from toolkit.bench.hostile.attacks import ATTACKS
from toolkit.bench.hostile.client import Seen
from toolkit.bench.hostile.spec import THROTTLE_MIB, AttackSpec, ClientSpec, Held, ServerSpec
from toolkit.bench.measure import cpus, possible_cores
from toolkit.bench.process import BenchProcess

NONE = "none"
"""The row without attackers."""
PACE_S = 0.005
"""Pause between two requests of one session."""
P99_MS, FLOOD_P99_MS = 20.0, 50.0
"""Goals for p99 on two cores, in general and during floods."""
RSS_MIB = 64.0
"""Goal for the growth of the server's memory, beyond the dispatch throttle."""
GIVEN_BACK_S = 15.0
"""Goal for the time until the server has released all resources of attackers that have left."""
RESIDUE_MIB = 16.0
"""Growth of memory that allocators may keep: below it, the server's memory counts as released."""
_GIVE_UP_S = 100.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileResult:
    """The result of one attack."""

    attack: str
    protocols: tuple[Protocol, ...]
    quiet_p50_ms: float
    """Latency before the attack, from the time at which a request was due to its answer."""
    quiet_p99_ms: float
    p50_ms: float
    """Latency of the requests due during the attack."""
    p99_ms: float
    rss_mib: float
    """Growth of the server's peak memory since before the attack."""
    cpu: float
    """Share of one CPU that the server used during the attack."""
    lost: int
    """Requests of the legitimate client whose answer is missing, out of order or wrong."""
    resets: int
    """Number of reset and remote_reset events of the legitimate client's sessions."""
    given_back_s: float | None
    """Time from the end of the attack until the server held no more than before it; None if over 100 s."""
    connections: int
    """Number of connections that the attackers opened."""
    received: dict[str, int]
    """Messages that the server dispatched, by type."""
    faults: dict[str, int]
    """Faults of the server's links, by reason."""

    @property
    def p99_limit_ms(self) -> float:
        """The goal for p99 during this attack."""
        return FLOOD_P99_MS if self.attack != NONE and ATTACKS[self.attack].IS_FLOOD else P99_MS

    @property
    def rss_limit_mib(self) -> float:
        """The goal for the growth of the server's memory."""
        return RSS_MIB + THROTTLE_MIB

    @property
    def missed(self) -> list[str]:
        """The goals that this run missed."""
        goals = {
            "p99": self.p99_ms <= self.p99_limit_ms,
            "RSS": self.rss_mib <= self.rss_limit_mib,
            "lost": not self.lost and not self.resets,
            "back": self.given_back_s is not None and self.given_back_s <= GIVEN_BACK_S,
        }
        return [goal for goal, reached in goals.items() if not reached]

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON contract."""
        return {
            "attack": self.attack,
            "protocols": list(self.protocols),
            "quiet_p50_ms": self.quiet_p50_ms,
            "quiet_p99_ms": self.quiet_p99_ms,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "p50_ratio": round(self.p50_ms / self.quiet_p50_ms, 2),
            "p99_ratio": round(self.p99_ms / self.quiet_p99_ms, 2),
            "rss_mib": round(self.rss_mib, 1),
            "cpu": round(self.cpu, 3),
            "lost": self.lost,
            "resets": self.resets,
            "given_back_s": None if self.given_back_s is None else round(self.given_back_s, 2),
            "connections": self.connections,
            "faults": self.faults,
            "missed": self.missed,
        }


def measure_attacks(
    names: Sequence[str],
    protocols: Sequence[Protocol],
    seconds: float,
    finished: Callable[[HostileResult], None] = lambda _: None,
) -> list[HostileResult]:
    """Measure attacks one after the other, each against a new server.

    Args:
        names: names of attacks in :data:`ATTACKS`; ``none`` measures the server without attackers.
        protocols: protocols of the client and the attackers.
        seconds: duration of each attack, and of the quiet time before it.
        finished: called with each result.

    Raises:
        LocalError: a process exited or did not answer.
    """

    async def measure_all() -> list[HostileResult]:
        results = []
        for name in names:
            results.append(await measure_attack(name, protocols, seconds))
            finished(results[-1])
        return results

    return asyncio.run(measure_all())


async def measure_attack(name: str, protocols: Sequence[Protocol], seconds: float) -> HostileResult:
    """Measure one attack; see :func:`measure_attacks`."""
    server_cpu, other_cpu = cpus(possible_cores()[-1])
    key = CryptoKey.generate(SystemRandom(), time()).to_base64()
    async with AsyncExitStack() as stack:

        async def start(part: str, role: str) -> BenchProcess:
            return await stack.enter_async_context(BenchProcess(f"toolkit.bench.hostile.{part}", role))

        attackers = await start("attacker", "attacking")
        client = await start("client", "requesting")
        server = await start("server", "attacked")
        open_files = ATTACKS[name].OPEN_FILES if name != NONE else 0
        server.write(ServerSpec(key=key, cpu=server_cpu, open_files=open_files).as_json())
        listening = await server.answer("ready")
        addrs = {str(protocol): listening[protocol] for protocol in protocols}
        client.write(ClientSpec(key=key, cpu=other_cpu, addrs=addrs, pace_s=PACE_S).as_json())
        victims = await client.answer("ready")

        await client.ask("phase")
        await asyncio.sleep(seconds)
        before = await _held(server)
        await client.ask("phase")
        began_s = monotonic()
        if name != NONE:
            spec = AttackSpec(key=key, cpu=other_cpu, attack=name, addrs=addrs, victims=victims)
            attackers.write(spec.as_json())
            await attackers.answer("ready")
        await asyncio.sleep(seconds)
        during, lasted_s = await _held(server), monotonic() - began_s
        await client.ask("phase")
        connections = await attackers.ask("leave") if name != NONE else 0
        given_back_s = await _release_s(server, before)
        seen = Seen.from_json(await client.ask("finish"))
        after = await _held(server)
    _, quiet, attacked, _ = seen.phases
    return HostileResult(
        attack=name,
        protocols=tuple(protocols),
        quiet_p50_ms=quiet.p50_ms,
        quiet_p99_ms=quiet.p99_ms,
        p50_ms=attacked.p50_ms,
        p99_ms=attacked.p99_ms,
        rss_mib=after.peak_rss_mib - before.rss_mib,
        cpu=(during.cpu_s - before.cpu_s) / lasted_s,
        lost=seen.lost,
        resets=seen.resets,
        given_back_s=given_back_s,
        connections=connections,
        received=after.received,
        faults=after.faults,
    )


async def _held(server: BenchProcess) -> Held:
    return Held(**await server.ask("held"))


async def _release_s(server: BenchProcess, before: Held) -> float | None:
    """Return the seconds until the server holds no more than before; None if the time limit is exceeded."""
    began_s = monotonic()
    while (waited_s := monotonic() - began_s) < _GIVE_UP_S:
        now = await _held(server)
        if (
            now.descriptors <= before.descriptors
            and now.sessions <= before.sessions
            and now.half_open_links <= before.half_open_links
            and now.queued_bytes <= before.queued_bytes + 4096
            and now.throttled <= before.throttled
            and now.rss_mib <= before.rss_mib + RESIDUE_MIB
        ):
            return waited_s
        await asyncio.sleep(_LOOK_S)
    return None
