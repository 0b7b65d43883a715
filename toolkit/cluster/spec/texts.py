"""Texts in a spec that have a language of their own: faults of ``timeline`` and ``chaos``, rules of proxies.

The languages are imported only where there is something to check: they take a while to start.
"""

from collections.abc import Iterable

from messenger.errors import LocalError
from toolkit.cluster.spec.mistakes import Mistake, unknown
from toolkit.cluster.spec.parts import Moment, Proxy


def timeline_mistakes(timeline: Iterable[Moment], nodes: Iterable[str] | None) -> list[Mistake]:
    """Faults that are none, or of nodes that are not there, where it is known which are."""
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
            strange = [name for name in fault.nodes if name not in known]
            found += [Mistake(place, unknown("node", name, known)) for name in strange]
    return found


def chaos_mistakes(kinds: Iterable[str]) -> list[Mistake]:
    """Kinds of faults that there are not."""
    from toolkit.faults.language import words

    known = [word.word for word in words()]
    return [
        Mistake(("faults", position), unknown("fault", kind, known))
        for position, kind in enumerate(kinds)
        if kind not in known
    ]


def script_mistakes(proxies: Iterable[Proxy]) -> list[Mistake]:
    """Lines of proxies that are no rules."""
    from toolkit.faults.script import Rule

    found = []
    for position, proxy in enumerate(proxies):
        for number, line in enumerate(proxy.script):
            try:
                Rule.parse(line)
            except LocalError as error:
                found.append(Mistake((position, "script", number), str(error)))
    return found
