"""The backend ``vm``: a scenario runs on namespaces or RDMA devices of a virtual machine; the host judges it.

The guest runs ``python -m toolkit.scenarios.guests``, which plays one case and leaves its history and outcome in a
directory that the host shares with it. Judging stays on the host, because Python is many times slower in a guest
whose processor is emulated.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.errors import Unsupported
from toolkit.lab.ways import Way
from toolkit.machine import vm
from toolkit.scenarios.scenario import IN_GUEST, OVER_RDMA, Case, Scenario

_TIMEOUT_S = 900.0
"""For one case. Expectations of scenarios have time limits of their own; this one is for a guest that hangs."""
_PRELOADED = (
    "toolkit.scenarios.runner",
    "toolkit.lab.real.real_lab",
    "toolkit.cluster.backends.netns",
    "toolkit.cluster.backends.rdma",
)
_OUTCOME, _HISTORY = "outcome.json", "history.ndjson"
_kept: "list[_Machines]" = []
"""The machines that runs share, if there are any."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a case did in the guest."""

    history: History
    visited: Counter[tuple[str, str]]
    """Number of times that each action was taken at each point of the interception grid."""
    failure: str
    """The expectation that was not met; empty if all were."""
    duration_s: float
    """Seconds that it took, without the boot of the guest."""


class _Machines:
    """A machine for each kernel that runs need; the first run that needs it boots it.

    Args:
        undo: ends them.
        given: the machines to try for all runs, in this order; those of the fastest kernels unless given.
    """

    def __init__(self, undo: ExitStack, given: Sequence[vm.Machine]) -> None:
        self._undo = undo
        self._given = given
        self._by_kernel: dict[vm.Kernel, vm.Machine] = {}

    def for_runs_of(self, scenario: Scenario) -> Iterator[vm.Machine]:
        """Yield the machines to try for a scenario, the fastest one first; the last one has everything."""
        if self._given:
            yield from self._given
            return
        for kernel in vm.fastest_first(needs_rdma=scenario.inside == OVER_RDMA):
            yield self._with_kernel(kernel)

    def _with_kernel(self, kernel: vm.Kernel) -> vm.Machine:
        if kernel not in self._by_kernel:
            directory = Path(self._undo.enter_context(TemporaryDirectory(prefix="msgrlab-vm-")))
            machine = vm.Machine(kernel=kernel, out=directory, preload=_PRELOADED)
            self._by_kernel[kernel] = self._undo.enter_context(machine)
        return self._by_kernel[kernel]


@contextmanager
def kept(*machines: vm.Machine) -> Iterator[None]:
    """Let the runs inside this context share guests, one for each kernel that they need.

    Args:
        machines: the machines to try for all runs, in this order, each with a directory ``out``; those that are
            needed unless given.
    """
    with ExitStack() as undo:
        _kept.append(_Machines(undo, machines))
        undo.callback(_kept.pop)
        yield


def play(scenario: Scenario, case: Case, way: Way, seed: int, cuts: Sequence[str]) -> Played:
    """Play a case in the guest that :func:`kept` holds, or in one of its own.

    Args:
        scenario: the scenario; one of the user has to be in a file.
        case: the case to play.
        way: protocol, mode, cipher and shards of the nodes.
        seed: decides everything random.
        cuts: where to cut, as for :func:`~toolkit.scenarios.runner.run_scenario`.

    Raises:
        Unsupported: virtual machines are not possible here, or the scenario is not possible in the guest.
        LocalError: the guest or the program in it failed.
    """
    if not _kept:
        with kept():
            return play(scenario, case, way, seed, cuts)
    reason = Unsupported("no kernel for it")
    for machine in _kept[-1].for_runs_of(scenario):
        try:
            return _played_in(machine, scenario, case, way, seed, cuts)
        except Unsupported as error:  # perhaps the next kernel has it
            reason = error
    raise reason


def _played_in(
    machine: vm.Machine, scenario: Scenario, case: Case, way: Way, seed: int, cuts: Sequence[str]
) -> Played:
    """Play a case in a machine; arguments and errors are those of :func:`play`."""
    assert machine.out is not None
    machine.out.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=machine.out) as name:
        wanted = {"scenario": scenario.id, "case": case.name, "way": way.name, "seed": seed, "cuts": [*cuts]}
        done = machine.run_module(__name__, name, json.dumps(wanted), timeout_s=_TIMEOUT_S)
        if done.code:
            reason = (done.stderr.strip().splitlines() or [f"exit code {done.code}"])[-1]
            raise LocalError(f"{scenario.id} on {IN_GUEST}: {reason}")
        outcome = json.loads((Path(name) / _OUTCOME).read_text("utf-8"))
        if error := outcome.get("error"):
            raise (Unsupported if outcome["is_unsupported"] else LocalError)(f"in the virtual machine: {error}")
        history = History.load(Path(name) / _HISTORY)
    visited = Counter({(point, action): count for point, action, count in outcome["visited"]})
    return Played(history, visited, outcome["failure"], outcome["duration_s"])


def main(directory: Path, wanted: dict[str, Any]) -> None:
    """Play one case in this machine, and write its history and outcome into a directory."""
    try:
        outcome = _played(directory, **wanted)
    except LocalError as error:
        outcome = {"error": str(error), "is_unsupported": isinstance(error, Unsupported)}
    (directory / _OUTCOME).write_text(json.dumps(outcome), "utf-8")


def _played(directory: Path, scenario: str, case: str, way: str, seed: int, cuts: list[str]) -> dict[str, Any]:
    from toolkit.scenarios.catalogue import find  # noqa: PLC0415 - the host has the scenario already
    from toolkit.scenarios.runner import play_case  # noqa: PLC0415 - which imports this module

    found, way_to_run = find(scenario), Way.parse(way)
    if found.processes or found.inside == OVER_RDMA:
        from toolkit.cluster.backends.base import Backend  # noqa: PLC0415 - only processes take it
        from toolkit.cluster.zygote import Zygote  # noqa: PLC0415

        Backend.zygote = Zygote(has_payloads=False)
    chosen = next(each for each in found.cases_in(way_to_run, found.inside) if each.name == case)
    began_s = time.monotonic()
    history, visited, failure = play_case(found, found.inside, chosen, way_to_run, seed, cuts)
    duration_s = time.monotonic() - began_s
    history.save(directory / _HISTORY)
    counts = [[*place, count] for place, count in visited.items()]
    return {"visited": counts, "failure": failure, "duration_s": duration_s}


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
