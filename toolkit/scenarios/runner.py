"""Runs a scenario on a backend, judges its history, and keeps what it left."""

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.cephx.ciphers import KeyType
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.result import CheckResult
from toolkit.errors import Unsupported
from toolkit.faults.tap import Breakpoint
from toolkit.scenarios.lab import Lab, ScenarioFailed
from toolkit.scenarios.scenario import BACKENDS, Scenario

if TYPE_CHECKING:
    from toolkit.report.html import ScenarioReport
    from toolkit.report.sequence import SequenceChart


@dataclass(slots=True)
class ScenarioRun:
    """One scenario, run once."""

    scenario: Scenario
    backend: str
    mode: str
    seed: int
    cuts: tuple[str, ...]
    """Where it cut, as Breakpoint.parse reads it."""
    duration_s: float
    """Wall time the run took."""
    history: History
    checks: list[CheckResult]
    failure: str = ""
    """What the scenario expected in vain; empty if nothing."""
    workers: int = 0
    """Other shards of each node."""
    protocol: Protocol = Protocol.V2
    key_type: KeyType = KeyType.AES
    """What the nodes speak."""
    artefacts: dict[str, Path] = field(default_factory=dict)
    """Files it left, by what they are."""

    @property
    def passed(self) -> bool:
        """Whether everything expected happened and no invariant was violated."""
        return not self.failure and all(result.ok for result in self.checks)

    @property
    def name(self) -> str:
        """What tells this run from others of one invocation."""
        mode = self.mode if self.protocol is Protocol.V2 else self.protocol.value
        return f"{self.scenario.id}-{self.backend}-{mode}"

    @property
    def replay_command(self) -> str:
        """The command that runs it again."""
        words = ["msgrlab", "run", self.scenario.id, "--backend", self.backend, "--mode", self.mode]
        if self.protocol is not Protocol.V2:
            words += ["--proto", self.protocol.value]
        if self.key_type is not KeyType.AES:
            words += ["--cipher", self.key_type.label]
        words += ["--seed", str(self.seed)]
        if self.workers:
            words += ["--workers", str(self.workers)]
        for cut in self.cuts:
            words += ["--cut", cut]
        return shlex.join(words)

    @property
    def complaints(self) -> list[str]:
        """What is wrong, a line each; empty if it passed."""
        lines = [self.failure] if self.failure else []
        for result in self.checks:
            lines += [f"{result.id}: {violation.text}" for violation in result.violations]
        return lines

    @property
    def chart(self) -> "SequenceChart":
        """The frames between the nodes as a sequence chart."""
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - only those who look pay for it

        return SequenceChart(self.history)

    def report(self, directory: Path) -> "ScenarioReport":
        """The run as a page of a report that is written into ``directory``, where its artefacts are."""
        from toolkit.report.html import ScenarioReport, Verdict  # noqa: PLC0415 - as above

        return ScenarioReport(
            title=self.scenario.title,
            id=self.scenario.id,
            description=self.scenario.description,
            backend=self.backend,
            mode=self.mode,
            seed=self.seed,
            verdict=Verdict.PASSED if self.passed else Verdict.FAILED,
            duration_s=self.duration_s,
            checks=self.checks,
            history=self.history,
            replay_command=self.replay_command,
            artefacts={name: path.relative_to(directory) for name, path in self.artefacts.items()},
            reason=self.failure,
        )

    def _repr_html_(self) -> str:
        verdict = "passed" if self.passed else "failed"
        rows = "".join(
            f"<tr><td>{'✓' if result.ok else '✗'}</td><td>{result.id}</td>"
            f"<td style='text-align:left'>{escape(result.title)}</td></tr>"
            for result in self.checks
        )
        wrong = "".join(f"<li>{escape(line)}</li>" for line in self.complaints)
        return (
            f"<p><b>{escape(self.scenario.title)}</b> on <code>{self.backend}</code>, {self.mode}, "
            f"seed {self.seed}: <b>{verdict}</b> in {self.duration_s:.2f} s, {len(self.history)} records</p>"
            f"<ul>{wrong}</ul><table>{rows}</table><p><code>{escape(self.replay_command)}</code></p>"
        )

    def as_json(self) -> dict[str, Any]:
        """The outcome as a JSON object."""
        return {
            "scenario": self.scenario.id,
            "backend": self.backend,
            "mode": self.mode,
            "protocol": self.protocol.value,
            "cipher": self.key_type.label,
            "seed": self.seed,
            "workers": self.workers,
            "passed": self.passed,
            "failure": self.failure or None,
            "seconds": round(self.duration_s, 3),
            "records": len(self.history),
            "checks": [
                {"id": result.id, "ok": result.ok, "violations": [v.text for v in result.violations]}
                for result in self.checks
            ],
            "artefacts": {name: str(path) for name, path in self.artefacts.items()},
            "replay": self.replay_command,
        }


def run_scenario(
    scenario: Scenario,
    backend: str,
    mode: str,
    seed: int,
    cuts: Sequence[str] = (),
    *,
    workers: int = 0,
    protocol: Protocol = Protocol.V2,
    key_type: KeyType = KeyType.AES,
) -> ScenarioRun:
    """Run a scenario.

    Args:
        scenario: what to run.
        backend: ``sim`` or ``local``.
        mode: ``crc`` or ``secure``.
        seed: decides everything random.
        cuts: where to cut instead of the scenario's own places, as Breakpoint.parse reads it.
        workers: how many other shards (threads, when live) of each node run data phases.
        protocol: what the nodes speak.
        key_type: of the cephx key that the nodes share.

    Raises:
        LocalError: no such backend or mode, or the scenario cannot be cut elsewhere.
        Unsupported: the scenario cannot run on that backend, or that mode is none of the protocol.
    """
    _check_supported(scenario, backend, mode, cuts)
    if protocol is Protocol.V1 and mode != "crc":
        raise Unsupported(f"msgr v1 has no mode {mode}; it runs in crc")
    places = tuple(cuts) or scenario.cuts_on(protocol)
    breakpoints = [Breakpoint.parse(place, protocol) for place in places]
    began_s = time.monotonic()
    lab = _lab(backend, mode, seed, workers, protocol, key_type)
    failure = ""
    try:
        scenario.script(lab, breakpoints)
    except ScenarioFailed as error:
        failure = str(error)
    finally:
        # Nodes of other processes write in their own time; what they say of being stopped is not the scenario's.
        history = History(sorted(lab.history, key=lambda record: record.time_s))
        lab.close()
    duration_s = time.monotonic() - began_s
    return ScenarioRun(
        scenario,
        backend,
        mode,
        seed,
        places,
        duration_s,
        history,
        check(history),
        failure,
        workers=workers,
        protocol=protocol,
        key_type=key_type,
    )


def _check_supported(scenario: Scenario, backend: str, mode: str, cuts: Sequence[str]) -> None:
    if backend not in BACKENDS:
        raise LocalError(f"unknown backend {backend!r}; {scenario.id} runs on {_list(scenario.backends)}")
    if backend not in scenario.backends:
        raise Unsupported(f"{scenario.id} cannot run on {backend}; it runs on {_list(scenario.backends)}")
    if mode not in scenario.modes:
        raise LocalError(f"{scenario.id} does not run in mode {mode!r}; it runs in {_list(scenario.modes)}")
    if cuts and not scenario.default_cuts:
        raise LocalError(f"{scenario.id} cuts where its description says; --cut is for others")


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(words)


def _lab(backend: str, mode: str, seed: int, workers: int, protocol: Protocol, key_type: KeyType) -> Lab:
    if backend == "sim":
        from toolkit.simulation.lab import SimLab  # noqa: PLC0415 - one backend does not pay for the other

        return SimLab(mode, seed, workers, protocol, key_type)
    from toolkit.cluster.local import LocalLab  # noqa: PLC0415

    return LocalLab(mode, seed, workers, protocol, key_type)


def save_artefacts(run: ScenarioRun, directory: Path) -> None:
    """Write a run's history, sequence chart and outcome into ``directory``, which must not exist yet.

    Raises:
        LocalError: it exists, or cannot be written.
    """
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise LocalError(f"{directory} exists already; nothing is overwritten, name another --out") from None
    except OSError as error:
        raise LocalError(f"{directory}: {error.strerror}") from None
    run.artefacts = {
        "history": directory / "history.ndjson",
        "chart": directory / "chart.svg",
        "outcome": directory / "outcome.json",
    }
    run.history.save(run.artefacts["history"])
    run.artefacts["chart"].write_text(run.chart.svg(), encoding="utf-8")
    run.artefacts["outcome"].write_text(json.dumps(run.as_json(), indent=2) + "\n", encoding="utf-8")
