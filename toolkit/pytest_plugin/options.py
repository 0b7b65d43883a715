"""Options of the plugin, its markers, and its line in the header of a run."""

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

STRICT_VARIABLE = "MSGRLAB_STRICT"
"""Environment variable with the effect of ``--msgrlab-strict``."""
KEEP = ("failed", "all", "none")
DEFAULT_SEED = 1
_RANDOM = "random"
_SEED_BITS = 31
_WORKER_SEED = "msgrlab_seed"
_MARKERS = (
    "needs(*capabilities, reason=''): what the machine must offer; `msgrlab doctor` lists the names",
    "scenarios(*words, ways=(), backends=(), seeds=()): what msgrlab_scenario runs, your own unless named",
)


@dataclass(frozen=True, slots=True)
class Options:
    """The msgrlab options of a pytest run."""

    seed: int
    backend: str
    """Backend of tests that name none; empty for ``sim`` for scenarios and the spec's backend for clusters."""
    keep: str
    """The tests whose files are kept, one of :data:`KEEP`."""
    out: Path | None
    """Directory of the kept files; None for pytest's temporary directory."""
    strict: bool

    @property
    def scenario_backend(self) -> str:
        """The backend of scenarios that name none."""
        return {"": "sim", "process": "local"}.get(self.backend, self.backend)

    @property
    def cluster_backend(self) -> str:
        """The backend of clusters that name none; empty for that of the spec. Clusters cannot be simulated."""
        return {"local": "process", "sim": ""}.get(self.backend, self.backend)

    @property
    def words(self) -> list[str]:
        """The command line options that repeat a run with the same seed and backend."""
        return [f"--msgrlab-seed={self.seed}", *([f"--msgrlab-backend={self.backend}"] if self.backend else [])]


def options_of(config: pytest.Config) -> Options:
    """Return the msgrlab options of this pytest run."""
    get = config.getoption
    out = get("msgrlab_out")
    return Options(
        int(get("msgrlab_seed")),
        get("msgrlab_backend"),
        get("msgrlab_keep"),
        Path(config.invocation_params.dir, out) if out else None,
        bool(get("msgrlab_strict")),
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("msgrlab", "msgrlab: clusters, scenarios and the simulator")
    group.addoption(
        "--msgrlab-seed",
        metavar="N",
        default=str(DEFAULT_SEED),
        help=f"Seed of scenarios and simulations that name none; {_RANDOM}: draw one and print it (default: "
        f"{DEFAULT_SEED}).",
    )
    group.addoption(
        "--msgrlab-backend",
        metavar="B",
        default="",
        choices=["", "sim", "local", "process", "netns", "docker", "swarm", "rdma", "vm"],
        help="Where scenarios and clusters run that name no backend: sim, local (process for clusters), netns, "
        "docker, swarm, vm, or rdma (scenarios only; default: scenarios in simulation, clusters where their "
        "spec says).",
    )
    group.addoption(
        "--msgrlab-keep",
        metavar="WHOSE",
        default=KEEP[0],
        choices=KEEP,
        help=f"Keep histories, logs, charts and captures of these tests: {', '.join(KEEP)} (default: {KEEP[0]}).",
    )
    group.addoption(
        "--msgrlab-out",
        metavar="DIR",
        default="",
        help="Keep them in a folder of DIR for each test (default: in pytest's temporary directory).",
    )
    group.addoption(
        "--msgrlab-strict",
        action="store_true",
        default=os.environ.get(STRICT_VARIABLE, "0") not in {"", "0"},
        help="A test that needs what this machine lacks fails instead of being skipped, unless the machine cannot "
        f"have it. {STRICT_VARIABLE}=1 does the same.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and draw the seed; workers of xdist use the seed of the main process."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    seed = getattr(config, "workerinput", {}).get(_WORKER_SEED, config.option.msgrlab_seed)
    config.option.msgrlab_seed = seed
    if seed == _RANDOM:
        config.option.msgrlab_seed = str(random.getrandbits(_SEED_BITS))
    elif not (seed.isascii() and seed.isdecimal()):
        raise pytest.UsageError(f"--msgrlab-seed {seed}: give a whole number, or {_RANDOM}")
    _check_out(options_of(config).out)


def _check_out(out: Path | None) -> None:
    """Check, before any test is run, that files can be kept; the directory is made for the first of them.

    Raises:
        pytest.UsageError: the directory cannot be made, or not be written to.
    """
    there = next((each for each in (out, *out.parents) if each.exists()), None) if out is not None else None
    if there is not None and not (there.is_dir() and os.access(there, os.W_OK)):
        raise pytest.UsageError(f"--msgrlab-out {out}: {there} is no directory that can be written to")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - of xdist, which may be missing
    """Pass the seed to a worker, which parses the command line again."""
    node.workerinput[_WORKER_SEED] = node.config.option.msgrlab_seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the header line: the options that differ from their defaults."""
    options = options_of(config)
    words = [] if options.seed == DEFAULT_SEED and not options.backend else options.words
    words += ["--msgrlab-strict"] if options.strict else []
    return [f"msgrlab: {' '.join(words)}"] if words else []
