"""Checks of texts with their own language: faults of ``timeline`` and ``chaos``, rules of proxies.

The languages are imported only if a spec uses them, because their import is slow.
"""

from collections.abc import Iterable

from messenger.errors import LocalError
from toolkit.cluster.spec.mistakes import Mistake, unknown
from toolkit.cluster.spec.parts import Moment, Proxy
from toolkit.network.places import is_guest_name


def timeline_mistakes(timeline: Iterable[Moment], nodes: Iterable[str] | None) -> list[Mistake]:
    """Return faults of a timeline that do not parse, or that name unknown nodes.

    Names of virtual machines are possible: one may be attached when the time of the fault comes.

    Args:
        timeline: the faults and their times.
        nodes: names of the nodes; None if they are not known because ``nodes`` has mistakes.
    """
    from toolkit.faults.language import parse

    known = None if nodes is None else list(nodes)
    found = []
    for position, moment in enumerate(timeline):
        place = (position, "fault")
        try:
            fault = parse(moment.fault)
        except LocalError as error:
            found.append(Mistake(place, str(error)))
            continue
        if known is not None:
            strange = [
                name
                for name in fault.nodes
                if name not in known and not (fault.takes_guests and is_guest_name(name))
            ]
            found += [Mistake(place, unknown("node", name, known)) for name in strange]
    return found


def chaos_mistakes(kinds: Iterable[str]) -> list[Mistake]:
    """Return unknown kinds of faults."""
    from toolkit.faults.language import words

    known = [word.word for word in words()]
    return [
        Mistake(("faults", position), unknown("fault", kind, known))
        for position, kind in enumerate(kinds)
        if kind not in known
    ]


def script_mistakes(proxies: Iterable[Proxy]) -> list[Mistake]:
    """Return lines of proxy scripts that do not parse."""
    from toolkit.faults.script import Rule

    found = []
    for position, proxy in enumerate(proxies):
        for number, line in enumerate(proxy.script):
            try:
                Rule.parse(line)
            except LocalError as error:
                found.append(Mistake((position, "script", number), str(error)))
    return found
