"""Measures ``msgrlab up`` and ``msgrlab down``, compared with the start of a bare process or container."""

import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolkit.machine.interpreters import PYTHON, environment

_TIMEOUT_S = 180.0
_CEPH = """\
name: mon-osd
nodes:
  mon: {{ceph: mon}}
  osd: {{ceph: osd}}
ceph: {{release: {release}}}
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster that is measured."""

    cluster: str
    """``two-peers``, or ``mon-osd``: a real monitor and one OSD, up when its health is HEALTH_OK."""
    backend: str
    release: str = "host"
    """Release of the Ceph daemons, if the cluster has any."""


KINDS = (
    Kind("two-peers", "process"),
    Kind("two-peers", "netns"),
    Kind("two-peers", "docker"),
    Kind("mon-osd", "process"),
    Kind("mon-osd", "netns"),
    Kind("mon-osd", "docker", "pacific"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of a kind of cluster, in seconds of wall-clock time; None if it does not come up."""

    kind: Kind
    up_s: float | None
    """From the start of ``msgrlab up`` to its end."""
    down_s: float | None
    floor_s: float | None
    """Time of one Python process that does nothing; with Docker, of one container."""
    problem: str = ""
    """Reason why the cluster does not come up; empty if it does."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        values = asdict(self)
        kind: dict[str, Any] = values.pop("kind")
        return kind | values


class _Unusable(Exception):
    """A program failed; the text is its error."""


def measure_clusters(
    kinds: Sequence[Kind], rounds: int, finished: Callable[[Measured], None] = lambda _: None
) -> list[Measured]:
    """Start and stop each kind of cluster several times.

    Args:
        kinds: the clusters to measure.
        rounds: how often each is started.
        finished: called with each result as soon as it is complete.
    """
    results = []
    with tempfile.TemporaryDirectory(prefix="msgrlab-bench.") as directory:
        for kind in kinds:
            results.append(_measure(kind, rounds, Path(directory)))
            finished(results[-1])
    return results


def _measure(kind: Kind, rounds: int, directory: Path) -> Measured:
    spec = kind.cluster
    if kind.cluster == "mon-osd":
        path = directory / f"{kind.release}.yaml"
        path.write_text(_CEPH.format(release=kind.release))
        spec = str(path)
    turns: list[tuple[float, float, float]] = []
    try:
        if kind.backend == "docker":
            _timed(*_msgrlab("images", "build", "node"))  # an outdated image must not be built while timed
        for _ in range(rounds):
            name = f"bench-{secrets.token_hex(4)}"
            up_s = _timed(*_msgrlab("up", spec, "--name", name, "--backend", kind.backend))
            try:
                down_s = _timed(*_msgrlab("down", name))
            except BaseException:
                with suppress(_Unusable):
                    _timed(*_msgrlab("down", name))
                raise
            floor_s = _timed(*_floor(kind))
            turns.append((up_s, down_s, floor_s))
    except _Unusable as error:
        return Measured(kind, None, None, None, str(error))
    up_s, down_s, floor_s = (round(statistics.median(times), 3) for times in zip(*turns, strict=True))
    return Measured(kind, up_s, down_s, floor_s)


def _floor(kind: Kind) -> tuple[str, ...]:
    if kind.backend != "docker":
        return (*PYTHON, "-c", "pass")
    from toolkit.cluster.images import names  # noqa: PLC0415 - only Docker's clusters need it

    image = names.tag("node" if kind.cluster == "two-peers" else f"ceph:{kind.release}")
    return ("docker", "run", "--rm", "--network", "none", image, "true")


def _msgrlab(*words: str) -> tuple[str, ...]:
    return (*PYTHON, "-c", "from toolkit.cli.main import main; main()", *words)


def _timed(*command: str) -> float:
    """Run a program and return the seconds that it took."""
    began_s = time.monotonic()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"{command[0]}: {error}") from None
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise _Unusable(output[-1] if output else f"{command[0]} ended with exit code {done.returncode}")
    return time.monotonic() - began_s
