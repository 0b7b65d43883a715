"""Merges the records of several processes into one history.

Processes of one machine share one monotonic clock, also in containers: their records come through several pipes
and only need sorting. Clocks of several machines differ; the messages between the nodes show by how much.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from toolkit.checks.history import History
from toolkit.checks.records import Record

_BY_RUNNER = frozenset({"process", "clock", "end"})
"""Kinds of records under a node's name that its runner writes."""


def in_order(records: Iterable[Record]) -> list[Record]:
    """Sort records by time; records that a node wrote itself stay in the order in which it wrote them.

    Cheap if nearly all records are in order already.
    """
    latest_s: dict[str, float] = defaultdict(lambda: float("-inf"))
    keyed = []
    for place, record in enumerate(records):
        time_s = record.time_s
        if record.kind not in _BY_RUNNER:
            time_s = latest_s[record.node] = max(latest_s[record.node], time_s)
        keyed.append((time_s, place, record))
    keyed.sort()
    return [record for _, _, record in keyed]


def merged(histories: Mapping[str, History], ahead_s: Mapping[str, float] | None = None) -> History:
    """Merge one history per node into one.

    Args:
        histories: the histories by node; each may contain records that the runner wrote about its node.
        ahead_s: by node, the seconds by which its clock is ahead of the common one; estimated from the messages
            (:func:`clocks_ahead_s`) unless given.
    """
    ahead_s = clocks_ahead_s(histories) if ahead_s is None else ahead_s
    return History(
        in_order(
            Record(round(record.time_s - ahead_s.get(name, 0.0), 9), record.node, record.kind, record.fields)
            for name, history in histories.items()
            for record in history
        )
    )


def clocks_ahead_s(histories: Mapping[str, History]) -> dict[str, float]:
    """Estimate the seconds by which each node's clock is ahead of the first node's.

    A message cannot arrive before it is sent. For nodes with messages both ways, the fastest messages of the two
    directions are assumed to have taken equally long; the error is at most half a round trip. With messages one
    way only, the clock is moved no further than necessary.
    """
    delays = _least_delays_s(histories)
    ahead_s: dict[str, float] = {}
    for first in histories:
        if first in ahead_s:
            continue
        ahead_s[first] = 0.0
        found = deque([first])
        while found:
            a = found.popleft()
            for b in histories:
                if b not in ahead_s and (difference_s := _difference_s(delays, a, b)) is not None:
                    ahead_s[b] = ahead_s[a] + difference_s
                    found.append(b)
    return ahead_s


def _least_delays_s(histories: Mapping[str, History]) -> dict[tuple[str, str], float]:
    """Return, by sender and receiver, the shortest time in seconds from send to delivery, by their own clocks."""
    sent: dict[tuple[str, str, int, str], float] = {}
    for record in (record for history in histories.values() for record in history if record.kind == "send"):
        sent.setdefault((record.node, record["peer"], record["tid"], record["digest"]), record.time_s)
    delays: dict[tuple[str, str], float] = {}
    for record in (record for history in histories.values() for record in history if record.kind == "deliver"):
        pair = record["peer"], record.node
        since_s = sent.get((*pair, record["tid"], record["digest"]))
        if since_s is not None:
            delays[pair] = min(delays.get(pair, float("inf")), record.time_s - since_s)
    return delays


def _difference_s(delays: Mapping[tuple[str, str], float], a: str, b: str) -> float | None:
    """Return the seconds by which b's clock is ahead of a's; None if no messages between them show it."""
    there, back = delays.get((a, b)), delays.get((b, a))
    if there is not None and back is not None:
        return (there - back) / 2
    if there is not None:
        return min(there, 0.0)
    return None if back is None else max(-back, 0.0)
