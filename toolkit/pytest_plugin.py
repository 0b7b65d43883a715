"""The pytest plugin: clusters for tests, taken down behind them, with nothing left.

::

    def test_messages_arrive(msgrlab_cluster):
        cluster = msgrlab_cluster("two-peers", check=True)
        cluster.nodes["a"].command("send", peer="b", count=3)

The fixture is a :class:`Clusters`; what it makes goes down at the end of the test, or of the session if shared.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolkit.cluster import Cluster
    from toolkit.cluster.spec import ClusterSpec

_NAME_CHARS = 30
_SHOWN_VIOLATIONS = 20


@dataclass(slots=True)
class _Kept:
    """A cluster that is up."""

    cluster: "Cluster"
    upkeep: AbstractContextManager["Cluster"]
    check: bool

    def end(self) -> list[str]:
        """Take it down; returns what was wrong with it, a line each."""
        from messenger.errors import LocalError  # noqa: PLC0415 - loaded for whoever has clusters
        from toolkit.machine.leaks import leftovers  # noqa: PLC0415

        problems = _violations(self.cluster) if self.check else []
        try:
            self.upkeep.__exit__(None, None, None)
        except LocalError as error:
            problems.append(str(error))
        backend = self.cluster.backend.name
        docker_url = "" if backend == "docker" else None
        left = leftovers(self.cluster.lease, docker_url=docker_url, network=backend != "process")
        return problems + [f"{self.cluster.name} has left {what}" for what in left]


class Clusters:
    """Makes clusters, each with a name that no other worker or session has.

    Args:
        worker: xdist's id of this worker; empty without xdist.
    """

    def __init__(self, worker: str = "") -> None:
        self._worker = worker
        self._own: list[_Kept] = []
        self._shared: dict[str, _Kept] = {}

    def __call__(
        self,
        spec: "ClusterSpec | Path | str",
        *,
        backend: str = "",
        settings: Sequence[str] = (),
        check: bool = False,
        shared: bool = False,
    ) -> "Cluster":
        """A cluster that is ready.

        Args:
            spec: a spec, its file, or the name of a ready-made one.
            backend: where its nodes run, otherwise than the spec says.
            settings: ``KEY=VALUE``, changes of the spec.
            check: whether the test fails at its end if an invariant does not hold.
            shared: whether it is the one that others of the session have who ask for the same; what a test does to
                it stays done.

        Raises:
            Unsupported: it cannot be had here.
            LocalError: the spec is wrong, or it does not come up.
        """
        from toolkit.cluster.choosing import spec_from  # noqa: PLC0415 - loaded for whoever has clusters

        wanted = spec_from(spec, settings)
        if not shared:
            kept = self._up(wanted, backend, check=check)
            self._own.append(kept)
            return kept.cluster
        key = json.dumps([wanted.as_json(), backend], sort_keys=True)
        if key not in self._shared:
            self._shared[key] = self._up(wanted, backend, check=check)
        self._shared[key].check |= check
        return self._shared[key].cluster

    def _up(self, spec: "ClusterSpec", backend: str, *, check: bool) -> _Kept:
        from toolkit.cluster import up  # noqa: PLC0415 - as above

        tail = "-" + "-".join(filter(None, (self._worker, secrets.token_hex(3))))
        name = spec.name[: _NAME_CHARS - len(tail)].rstrip("-") + tail
        upkeep = up(spec, backend=backend, name=name)
        return _Kept(upkeep.__enter__(), upkeep, check)

    def end_own(self) -> list[str]:
        """Take down those that are not shared, the last one first; returns what was wrong, a line each."""
        problems = []
        while self._own:
            problems += self._own.pop().end()
        return problems

    def end_shared(self) -> list[str]:
        """The same with those that are."""
        problems = []
        while self._shared:
            problems += self._shared.popitem()[1].end()
        return problems


def _violations(cluster: "Cluster") -> list[str]:
    found = [
        f"{cluster.name}: {result.id} {result.title}: {violation.text}"
        for result in cluster.check()
        for violation in result.violations
    ]
    more = len(found) - _SHOWN_VIOLATIONS
    return found[:_SHOWN_VIOLATIONS] + ([f"and {more} more violations"] if more > 0 else [])


@pytest.fixture(scope="session")
def _msgrlab_clusters() -> Iterator[Clusters]:
    clusters = Clusters(os.environ.get("PYTEST_XDIST_WORKER", ""))
    yield clusters
    if problems := clusters.end_shared():
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def msgrlab_cluster(_msgrlab_clusters: Clusters) -> Iterator[Clusters]:
    """Makes clusters for a test: ``msgrlab_cluster("two-peers", backend="netns", check=True)``."""
    yield _msgrlab_clusters
    if problems := _msgrlab_clusters.end_own():
        pytest.fail("\n".join(problems), pytrace=False)
