"""Clusters for tests, ended after the test with a check for leftovers."""

import json
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.pytest_plugin.evidence import Evidence, Scene

if TYPE_CHECKING:
    from toolkit.cluster import Cluster
    from toolkit.cluster.spec import ClusterSpec

_NAME_CHARS = 30


@dataclass(slots=True)
class _RunningCluster:
    """A running cluster."""

    cluster: "Cluster"
    upkeep: AbstractContextManager["Cluster"]
    replay: str
    checked: bool = False
    known: set[str] = field(default_factory=set)

    def end(self) -> list[str]:
        """Take the cluster down; returns the problems and leftovers, a line each."""
        from toolkit.machine.leaks import leftovers  # noqa: PLC0415 - only tests with clusters need it

        problems = []
        try:
            self.upkeep.__exit__(None, None, None)
        except LocalError as error:
            problems.append(str(error))
        backend = self.cluster.backend.name
        docker_url = "" if backend == "docker" else None
        left = leftovers(self.cluster.lease, docker_url=docker_url, network=backend != "process")
        return problems + [f"{self.cluster.name} has left {what}" for what in left]

    def evidence(self) -> Evidence:
        """Return the evidence that a test's report shows of the cluster."""
        title = f"cluster {self.cluster.name}"
        notes = [repr(self.cluster)]
        return Evidence(
            title, self._scene, self._save, self.replay, checked=self.checked, notes=notes, known=self.known
        )

    def _scene(self) -> Scene:
        return Scene(self.cluster.history.so_far(), self.cluster.check())

    def _save(self, directory: Path) -> Mapping[str, Path]:
        from toolkit.cluster.retention import keep_files  # noqa: PLC0415 - as above

        self.cluster.history.flush()
        keep_files(self.cluster.directory, directory)
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return {str(path.relative_to(directory)): path for path in files}


class Clusters:
    """Starts clusters; their names are unique among workers and sessions.

    Args:
        worker: xdist's id of this worker; empty without xdist.
        backend: backend of clusters that name none; empty for that of their spec.
    """

    def __init__(self, worker: str = "", backend: str = "") -> None:
        self._worker = worker
        self._backend = backend
        self._own: list[_RunningCluster] = []
        self._shared: dict[str, _RunningCluster] = {}
        self.added: Callable[[Evidence], None] = lambda _evidence: None
        """Called with the evidence of every cluster that a test requests."""

    def __call__(
        self,
        spec: "ClusterSpec | Path | str",
        *,
        backend: str = "",
        settings: Sequence[str] = (),
        check: bool = False,
        shared: bool = False,
    ) -> "Cluster":
        """Start a cluster, or reuse the shared one, and return it when it is ready.

        Args:
            spec: a spec, its file, or the name of a ready-made one.
            backend: backend of its nodes; unless given, that of ``--msgrlab-backend`` or of the spec.
            settings: changes of the spec, ``KEY=VALUE``.
            check: True to fail the test at its end if an invariant is violated.
            shared: True to share the cluster with all tests of the session that request the same one; changes
                that a test makes stay.

        Raises:
            Unsupported: this machine lacks what the cluster needs.
            LocalError: the spec is invalid, or the cluster does not start.
        """
        from toolkit.cluster.spec_lookup import spec_from  # noqa: PLC0415 - only tests with clusters need it

        wanted, backend = spec_from(spec, settings), backend or self._backend
        words = ["msgrlab", "up", str(spec)] if isinstance(spec, Path | str) else []
        key = json.dumps([wanted.as_json(), backend], sort_keys=True)
        kept = self._shared.get(key) if shared else None
        if kept is None:
            kept = self._up(wanted, backend, _command(words, backend, settings))
            if shared:
                self._shared[key] = kept
            else:
                self._own.append(kept)
        kept.checked |= check
        self.added(kept.evidence())
        return kept.cluster

    def _up(self, spec: "ClusterSpec", backend: str, replay: str) -> _RunningCluster:
        from toolkit.cluster import up  # noqa: PLC0415 - as above

        tail = "-" + "-".join(filter(None, (self._worker, secrets.token_hex(3))))
        name = spec.name[: _NAME_CHARS - len(tail)].rstrip("-") + tail
        upkeep = up(spec, backend=backend, name=name)
        return _RunningCluster(upkeep.__enter__(), upkeep, replay)

    def shared(self) -> list[Evidence]:
        """Return the evidence of the shared clusters."""
        return [kept.evidence() for kept in self._shared.values()]

    def end_own(self) -> list[str]:
        """Take the clusters down that are not shared, in reverse order; returns the problems, a line each."""
        problems = []
        while self._own:
            problems += self._own.pop().end()
        return problems

    def end_shared(self) -> list[str]:
        """Take the shared clusters down; returns the problems, a line each."""
        problems = []
        while self._shared:
            problems += self._shared.popitem()[1].end()
        return problems


class SharedClusters:
    """Starts clusters that the tests of a session share: the same cluster for the same arguments."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def __call__(
        self,
        spec: "ClusterSpec | Path | str",
        *,
        backend: str = "",
        settings: Sequence[str] = (),
        check: bool = False,
    ) -> "Cluster":
        """Return a ready cluster; arguments and errors as of :class:`Clusters`.

        With ``check``, a test fails if an invariant is violated during it.
        """
        return self._clusters(spec, backend=backend, settings=settings, check=check, shared=True)


def _command(words: list[str], backend: str, settings: Sequence[str]) -> str:
    """Return the command that starts the same cluster; empty for a spec without a file."""
    if not words:
        return ""
    options = ["--backend", backend] if backend else []
    return shlex.join([*words, *options, *(word for setting in settings for word in ("--set", setting))])
