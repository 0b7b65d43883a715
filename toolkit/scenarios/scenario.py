"""What a scenario is, and how a family of them is written down.

A scenario is a function over the vocabulary of :class:`toolkit.lab.lab.Lab`, in the folder of its family, whose
``__init__`` has ``LC = Family("LC", "Lossless client")``::

    @LC.scenario("LC-01", "connected_fault", cases={"write": {"point": "MESSAGE WRITE"}, ...})
    def connected_fault(lab: Lab, point: str) -> None:
        '''A lossless client survives a fault in mid-traffic.

        What is given, what is done to it, what must come of it.
        '''

The first line of its docstring is its title, the rest its description. Its cases are run one by one, each with
its own parameters. ``python -m toolkit.scenarios.indexing`` puts new scenarios into the index, by which the
catalogue finds them.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from messenger.link import Protocol
from toolkit.lab.ways import ALL_WAYS, Way

ON_NETWORKS = ("netns", "docker")
"""Backends where every node has a host of its own, and packets between them can be lost."""
ON_SOCKETS = ("local", *ON_NETWORKS)
"""Backends with the kernel's own sockets."""
BACKENDS = ("sim", *ON_SOCKETS)
Script = Callable[..., None]
"""Takes the lab, and the parameters of a case by name."""


@dataclass(frozen=True, slots=True)
class Case:
    """One of the cases of a scenario."""

    name: str
    """Empty where a scenario has no others."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """What its script is called with."""
    protocol: Protocol | None = None
    """The one that it is about, by what it names; None: both."""
    only: str = ""
    """Why it runs in simulation alone, though its scenario runs elsewhere too."""

    def runs_in(self, way: Way) -> bool:
        """True if it is about what is spoken there."""
        return self.protocol in {None, way.protocol}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A script over the vocabulary of :class:`toolkit.lab.lab.Lab`, and what it shows."""

    id: str
    name: str
    """One word for it."""
    family: str
    priority: int
    """1: the core of the catalogue, 2: the rest."""
    title: str
    description: str
    script: Script
    cases: tuple[Case, ...] = (Case(""),)
    ways: tuple[Way, ...] = ALL_WAYS
    """In which it runs; the first is the one to take where none is asked for."""
    backends: tuple[str, ...] = BACKENDS
    only: str = ""
    """Why it cannot run on the other backends, where there are any."""
    provokes: tuple[str, ...] = ()
    """Ids of invariants that its peer by hand breaks on purpose; they are not judged."""
    rules: tuple[str, ...] = ()
    """The disputed rules (docs/disputes.md) of which it has a case for every setting."""
    default_cuts: tuple[str, ...] = ()
    """Where it cuts by default, as Breakpoint.parse reads it; its script takes them as ``cuts``."""
    v1_cuts: tuple[str, ...] = ()
    """The same places by the names of msgr v1."""
    processes: bool = False
    """True if on sockets each node is a process of its own, to be frozen or really killed."""
    quick: bool = True
    """True if it takes no longer than others; a slow one runs in its first way alone unless asked for."""
    file: str = ""
    """Where a user has written it; empty for those of the catalogue."""
    line: int = 0
    """Of that file."""

    @property
    def module(self) -> str:
        """The dotted name of the module that it is written in."""
        return self.script.__module__

    def runs_in(self, way: Way) -> bool:
        """True if it runs in that protocol and mode, whatever the cipher and wherever data phases are."""
        return any((known.protocol, known.mode) == (way.protocol, way.mode) for known in self.ways)

    def cases_in(self, way: Way, backend: str = "") -> tuple[Case, ...]:
        """The cases that are about the protocol of a way, and run on a backend if one is named."""
        here = [case for case in self.cases if case.runs_in(way)]
        return tuple(case for case in here if not backend or not self.obstacle(backend, case))

    def obstacle(self, backend: str, case: Case | None = None) -> str:
        """Why it, or one of its cases, cannot run on a backend; empty if it can."""
        if backend not in self.backends:
            return self.only
        return case.only if case is not None and backend != "sim" else ""

    def cuts_on(self, protocol: Protocol) -> tuple[str, ...]:
        """Where it cuts by default, under that protocol."""
        return self.v1_cuts if protocol is Protocol.V1 else self.default_cuts


class Family:
    """Scenarios that belong together, in the order in which they were written."""

    def __init__(self, id: str, title: str) -> None:  # noqa: A002 - what scenarios call it too
        self.id = id
        self.title = title
        self.scenarios: list[Scenario] = []

    def scenario(
        self,
        id: str,  # noqa: A002 - as above
        name: str,
        *,
        priority: int = 1,
        cases: Mapping[str, Mapping[str, Any]] | None = None,
        v1_cases: Mapping[str, Mapping[str, Any]] | None = None,
        sim_cases: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - fields of Scenario
    ) -> Callable[[Script], Script]:
        """Put the decorated script into the family.

        Args:
            id: ``HS-03`` and so on.
            name: one word for it.
            priority: 1 or 2.
            cases: parameters by the name of the case; one without parameters unless given.
            v1_cases: the cases on msgr v1, where they are others.
            sim_cases: which cases run in simulation alone, and why.
            options: ``ways``, ``backends``, ``only``, ``provokes``, ``rules``, ``processes``, ``quick``,
                ``default_cuts`` and ``v1_cuts`` of :class:`Scenario`.
        """

        def add(script: Script) -> Script:
            self.scenarios.append(
                described(script, id, name, self.id, cases, v1_cases, sim_cases, priority=priority, **options)
            )
            return script

        return add


def described(
    script: Script,
    id: str,  # noqa: A002 - as above
    name: str,
    family: str,
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    v1_cases: Mapping[str, Mapping[str, Any]] | None = None,
    sim_cases: Mapping[str, str] | None = None,
    *,
    priority: int = 1,
    **options: Any,  # noqa: ANN401 - fields of Scenario
) -> Scenario:
    """The scenario that a script and its docstring describe; arguments as for :meth:`Family.scenario`."""
    alone = sim_cases or {}
    title, _, description = inspect.cleandoc(script.__doc__ or "").partition("\n")
    own = (cases or {"": {}}).items()
    if v1_cases is None:
        listed = [Case(case, params, only=alone.get(case, "")) for case, params in own]
    else:
        by_protocol = ((Protocol.V2, own), (Protocol.V1, v1_cases.items()))
        listed = [
            Case(case, params, protocol, only=alone.get(case, ""))
            for protocol, own_cases in by_protocol
            for case, params in own_cases
        ]
    return Scenario(
        id=id,
        name=name,
        family=family,
        priority=priority,
        title=title.rstrip("."),
        description=" ".join(description.split()),
        script=script,
        cases=tuple(listed),
        **options,
    )
