"""The classes of scenarios and their families, and how a scenario is written.

A scenario is a function over the verbs of :class:`toolkit.lab.lab.Lab`, in the folder of its family, whose
``__init__`` has ``LC = Family("LC", "Lossless client")``::

    @LC.scenario("LC-01", "connected_fault", cases={"write": {"point": "MESSAGE WRITE"}, ...})
    def connected_fault(lab: Lab, point: str) -> None:
        '''A lossless client survives a fault in mid-traffic.

        The nodes, the fault, and the expected result.
        '''

The first line of its docstring is its title, the rest its description. Its cases run one by one, each with its own
parameters. ``python -m toolkit.scenarios.index_writer`` adds new scenarios to the index, which the catalogue
reads.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from messenger.link import Protocol
from toolkit.lab.ways import ALL_WAYS, Way

ON_NETWORKS = ("netns", "docker")
"""Backends on which every node has a host of its own, and packets between hosts can be lost."""
ON_SOCKETS = ("local", *ON_NETWORKS)
"""Backends with the kernel's own sockets."""
BACKENDS = ("sim", *ON_SOCKETS)
OVER_RDMA = "rdma"
"""A further backend, for all scenarios that run on ``local``: nodes with soft-RoCE devices, on this machine."""
QUEUE_PAIRS = "faults of RDMA devices and queue pairs"
"""Why a scenario runs over RDMA only."""
IN_GUEST = "vm"
"""A further backend: namespaces of a virtual machine, or its soft-RoCE devices for scenarios over RDMA only."""
OF_LABS = (*BACKENDS, OVER_RDMA)
"""Backends that a lab can have."""
OF_RUNS = (*OF_LABS, IN_GUEST)
"""Backends that a run can have."""
Script = Callable[..., None]
"""Called with the lab, and with the parameters of a case by name."""


@dataclass(frozen=True, slots=True)
class Case:
    """One of the cases of a scenario."""

    name: str
    """The name of the case; empty if its scenario has only one."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the script."""
    protocol: Protocol | None = None
    """The protocol whose frames or points the case names; None: both protocols."""
    only: str = ""
    """Why the case runs in simulation only, although its scenario runs elsewhere too; empty if it does not."""

    def runs_in(self, way: Way) -> bool:
        """True if the case is about the way's protocol."""
        return self.protocol in {None, way.protocol}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A script over the verbs of :class:`toolkit.lab.lab.Lab`, with its title, cases and requirements."""

    id: str
    name: str
    """Its name, one word."""
    family: str
    priority: int
    """1: the core of the catalogue, 2: the rest."""
    title: str
    description: str
    script: Script
    cases: tuple[Case, ...] = (Case(""),)
    ways: tuple[Way, ...] = ALL_WAYS
    """The ways in which it runs; the first is the default."""
    backends: tuple[str, ...] = BACKENDS
    only: str = ""
    """Why it cannot run on the other backends; empty if it runs on all."""
    provokes: tuple[str, ...] = ()
    """Ids of invariants that its raw peer violates on purpose; they are not judged."""
    rules: tuple[str, ...] = ()
    """The disputed rules (docs/disputes.md) for which it has a case for each setting."""
    default_cuts: tuple[str, ...] = ()
    """The breakpoints of its cuts by default, as Breakpoint.parse parses them; its script gets them as ``cuts``.
    """
    v1_cuts: tuple[str, ...] = ()
    """The same breakpoints with the frame names of msgr v1."""
    processes: bool = False
    """True if on sockets each node is a process of its own, which can be frozen or killed with SIGKILL."""
    quick: bool = True
    """False if it takes long; then it runs only in its first way unless a way is named."""
    file: str = ""
    """The user's file that defines it; empty for scenarios of the catalogue."""
    line: int = 0
    """Its line in that file."""

    @property
    def module(self) -> str:
        """The dotted name of the module that defines it."""
        return self.script.__module__

    def runs_in(self, way: Way) -> bool:
        """True if it runs in the way's protocol and mode, with any cipher and any number of shards."""
        return any((known.protocol, known.mode) == (way.protocol, way.mode) for known in self.ways)

    @property
    def places(self) -> str:
        """The backends on which it runs, for messages."""
        return ", ".join(backend for backend in OF_RUNS if self.runs_on(backend))

    @property
    def inside(self) -> str:
        """The backend on which it runs in a virtual machine; empty if it does not."""
        return next((each for each in ("netns", OVER_RDMA) if each in self.backends), "")

    def runs_on(self, backend: str) -> bool:
        """True if it runs on a backend; on ``vm`` if it runs on ``netns``, on ``rdma`` if it does on ``local``."""
        if backend == IN_GUEST:
            return bool(self.inside)
        return backend in self.backends or (backend == OVER_RDMA and "local" in self.backends)

    def cases_in(self, way: Way, backend: str = "") -> tuple[Case, ...]:
        """The cases about the protocol of a way that run on the backend, if one is given."""
        here = [case for case in self.cases if case.runs_in(way)]
        return tuple(case for case in here if not backend or not self.obstacle(backend, case))

    def obstacle(self, backend: str, case: Case | None = None) -> str:
        """Why the scenario, or one of its cases, cannot run on a backend; empty if it can."""
        if not self.runs_on(backend):
            return self.only
        return case.only if case is not None and backend != "sim" else ""

    def cuts_on(self, protocol: Protocol) -> tuple[str, ...]:
        """The breakpoints of its cuts by default, for that protocol."""
        return self.v1_cuts if protocol is Protocol.V1 else self.default_cuts


class Family:
    """Scenarios about one subject, in the order in which they were defined."""

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
        """Add the decorated script to the family.

        Args:
            id: id of the scenario, such as ``HS-03``.
            name: its name, one word.
            priority: 1 or 2.
            cases: parameters by the name of the case; a single case without parameters unless given.
            v1_cases: the cases on msgr v1, if they differ.
            sim_cases: cases that run in simulation only, with the reason of each.
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
    """Make the scenario of a script and its docstring; arguments as for :meth:`Family.scenario`."""
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
