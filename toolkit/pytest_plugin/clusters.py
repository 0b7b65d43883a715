"""Clusters for tests, taken down behind them, with nothing left."""

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
class _Kept:
    """A cluster that is up."""

    cluster: "Cluster"
    upkeep: AbstractContextManager["Cluster"]
    replay: str
    checked: bool = False
    known: set[str] = field(default_factory=set)

    def end(self) -> list[str]:
        """Take it down; returns what was wrong with that, a line each."""
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
        """What the report of a test shows of it."""
        title = f"cluster {self.cluster.name}"
        notes = [repr(self.cluster)]
        return Evidence(
            title, self._scene, self._save, self.replay, checked=self.checked, notes=notes, known=self.known
        )

    def _scene(self) -> Scene:
        return Scene(self.cluster.history.so_far(), self.cluster.check())

    def _save(self, directory: Path) -> Mapping[str, Path]:
        from toolkit.cluster.keeping import keep_files  # noqa: PLC0415 - as above

        self.cluster.history.flush()
        keep_files(self.cluster.directory, directory)
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return {str(path.relative_to(directory)): path for path in files}


class Clusters:
    """Makes clusters, each with a name that no other worker or session has.

    Args:
        worker: xdist's id of this worker; empty without xdist.
        backend: where clusters run that name no backend; empty: where their spec says.
    """

    def __init__(self, worker: str = "", backend: str = "") -> None:
        self._worker = worker
        self._backend = backend
        self._own: list[_Kept] = []
        self._shared: dict[str, _Kept] = {}
        self.added: Callable[[Evidence], None] = lambda _evidence: None
        """Called with the evidence of every cluster that a test asks for."""

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
            backend: where its nodes run; as ``--msgrlab-backend`` or the spec says unless given.
            settings: ``KEY=VALUE``, changes of the spec.
            check: whether the test fails at its end if an invariant does not hold.
            shared: whether tests of the session that ask for the same cluster share it; what a test does to
                it stays done.

        Raises:
            Unsupported: it cannot be had here.
            LocalError: the spec is wrong, or it does not come up.
        """
        from toolkit.cluster.choosing import spec_from  # noqa: PLC0415 - only tests with clusters need it

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

    def _up(self, spec: "ClusterSpec", backend: str, replay: str) -> _Kept:
        from toolkit.cluster import up  # noqa: PLC0415 - as above

        tail = "-" + "-".join(filter(None, (self._worker, secrets.token_hex(3))))
        name = spec.name[: _NAME_CHARS - len(tail)].rstrip("-") + tail
        upkeep = up(spec, backend=backend, name=name)
        return _Kept(upkeep.__enter__(), upkeep, replay)

    def shared(self) -> list[Evidence]:
        """The evidence of those that are shared."""
        return [kept.evidence() for kept in self._shared.values()]

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


class SharedClusters:
    """Makes clusters that the tests of a session share: the same one for the same arguments."""

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
        """A cluster that is ready; arguments and errors as of :class:`Clusters`.

        With ``check``, the test in which an invariant is violated fails.
        """
        return self._clusters(spec, backend=backend, settings=settings, check=check, shared=True)


def _command(words: list[str], backend: str, settings: Sequence[str]) -> str:
    """The command that brings the same cluster up; empty for a spec that has no file."""
    if not words:
        return ""
    options = ["--backend", backend] if backend else []
    return shlex.join([*words, *options, *(word for setting in settings for word in ("--set", setting))])
