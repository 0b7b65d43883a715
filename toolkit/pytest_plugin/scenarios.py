"""Scenarios and labs for tests."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.pytest_plugin.evidence import Evidence, Scene, save_history
from toolkit.pytest_plugin.options import Options

if TYPE_CHECKING:
    from toolkit.lab.lab import Lab
    from toolkit.scenarios.batch import Job
    from toolkit.scenarios.runner import ScenarioRun
    from toolkit.scenarios.scenario import Script
    from toolkit.simulation.swarm import Outcome

Added = Callable[[Evidence], None]


class Runs:
    """Runs scenarios, and fails the test if a run does not pass.

    Args:
        options: the msgrlab options of the pytest run.
        added: called with the evidence of each run.
    """

    def __init__(self, options: Options, added: Added) -> None:
        self._options = options
        self._added = added

    def __call__(
        self,
        scenario: "str | Script",
        *,
        backend: str = "",
        mode: str = "crc",
        protocol: str = "v2",
        cipher: str = "aes",
        workers: int = 0,
        seed: int | None = None,
        cuts: Sequence[str] = (),
        check: bool = True,
    ) -> "ScenarioRun":
        """Run a scenario.

        Args:
            scenario: its id or name, ``FILE::NAME``, or a function with ``@scenario``; of several cases the first,
                unless named as in ``HS-03[HELLO READ]``.
            backend: ``sim``, ``local``, ``netns``, ``docker`` or ``vm``; that of ``--msgrlab-backend`` unless
                given.
            mode: connection mode, ``crc``, ``secure`` or ``compressed``.
            protocol: ``v1`` or ``v2``.
            cipher: type of the cephx key that the nodes share, ``aes`` or ``aes256k``.
            workers: number of threads (in ``sim``: shards) of each node that run its open connections.
            seed: seed of all random choices; that of ``--msgrlab-seed`` unless given.
            cuts: cuts instead of the scenario's own, each ``SENDER:TAG[:NTH[:BYTE]]``.
            check: False to return a run that did not pass instead of failing the test.

        Raises:
            AssertionError: the run did not pass.
            Unsupported: the scenario cannot run in this way, or not on this machine.
            LocalError: the scenario is unknown.
        """
        from toolkit.lab.ways import Way  # noqa: PLC0415 - only tests with scenarios need it
        from toolkit.scenarios.catalogue import wanted  # noqa: PLC0415
        from toolkit.scenarios.runner import run_scenario  # noqa: PLC0415

        __tracebackhide__ = True
        way = Way.of(protocol, mode, cipher, workers)
        seed = self._options.seed if seed is None else seed
        done = run_scenario(wanted(scenario), backend or self._options.scenario_backend, way, seed, cuts)
        return self._judged(done, check=check)

    def job(self, job: "Job") -> "ScenarioRun":
        """Run one case in one way; raises as a call does."""
        __tracebackhide__ = True
        return self._judged(job.run(), check=True)

    def _judged(self, done: "ScenarioRun", *, check: bool) -> "ScenarioRun":
        __tracebackhide__ = True
        title = f"{done.scenario_id} on {done.backend}, {done.way}"
        scene = partial(Scene, done.history, done.checks)
        notes = [done.scenario.title, *done.complaints[:1]]
        self._added(
            Evidence(
                title,
                scene,
                partial(_save_run, done),
                done.replay_command,
                done.seed,
                notes=notes,
                failed=not done.passed,
            )
        )
        if check and not done.passed:
            lines = "\n".join(done.complaints)
            raise AssertionError(
                f"{title}, seed {done.seed}, did not pass:\n{lines}\nagain: {done.replay_command}"
            )
        return done


def _save_run(done: "ScenarioRun", directory: Path) -> Mapping[str, Path]:
    from toolkit.scenarios.runner import save_artefacts  # noqa: PLC0415 - only failures pay for it

    save_artefacts(done, directory / "run")
    return done.artefacts


class Simulations:
    """Opens labs in simulation, and runs the lives of seeds (docs/simulation.md).

    Args:
        options: the msgrlab options of the pytest run.
        added: called with the evidence of each lab and life.
        open_labs: closes the labs.
    """

    def __init__(self, options: Options, added: Added, open_labs: ExitStack) -> None:
        self._options = options
        self._added = added
        self._open = open_labs

    def __call__(
        self,
        mode: str = "crc",
        *,
        seed: int | None = None,
        protocol: str = "v2",
        cipher: str = "aes",
        check: bool = True,
    ) -> "Lab":
        """Open a lab on virtual time, with the verbs of docs/scenarios.md.

        Args:
            mode: connection mode, ``crc``, ``secure`` or ``compressed``.
            seed: seed of all random choices; that of ``--msgrlab-seed`` unless given.
            protocol: ``v1`` or ``v2``.
            cipher: type of the cephx key that the nodes share, ``aes`` or ``aes256k``.
            check: True to fail the test at its end if an invariant is violated.

        Raises:
            LocalError: the mode, protocol or cipher is unknown.
            Unsupported: the protocol does not have the mode.
        """
        from toolkit.lab.ways import Way  # noqa: PLC0415 - only tests with labs need it
        from toolkit.scenarios.runner import open_lab  # noqa: PLC0415

        seed = self._options.seed if seed is None else seed
        lab = self._open.enter_context(open_lab("sim", Way.of(protocol, mode, cipher, 0), seed))
        title = f"lab in simulation, {lab.way}"
        self._added(Evidence(title, partial(_scene_of, lab), partial(_save_lab, lab), "", seed, check))
        return lab

    def live(self, seed: int | None = None) -> "Outcome":
        """Run the life of a seed; if it fails, the test fails with the shortest schedule that still fails.

        Args:
            seed: the seed; that of ``--msgrlab-seed`` unless given.

        Raises:
            AssertionError: the life failed.
        """
        from toolkit.simulation.findings import describe_life  # noqa: PLC0415 - only tests with lives need it
        from toolkit.simulation.swarm import live  # noqa: PLC0415

        __tracebackhide__ = True
        outcome = live(self._options.seed if seed is None else seed)
        if not outcome.passed:
            outcome = outcome.shrink()
        scene = partial(Scene, outcome.history, ())
        save = partial(save_history, outcome.history)
        self._added(Evidence(f"life of seed {outcome.seed}", scene, save, outcome.replay_command, outcome.seed))
        if not outcome.passed:
            raise AssertionError("\n".join(describe_life(outcome)))
        return outcome


def _scene_of(lab: "Lab") -> Scene:
    from toolkit.checks.history import History  # noqa: PLC0415 - only tests with labs need it
    from toolkit.checks.invariants import check  # noqa: PLC0415
    from toolkit.checks.merge import in_order  # noqa: PLC0415

    history = History(in_order(lab.history))
    return Scene(history, check(history))


def _save_lab(lab: "Lab", directory: Path) -> Mapping[str, Path]:
    return save_history(_scene_of(lab).history, directory)
