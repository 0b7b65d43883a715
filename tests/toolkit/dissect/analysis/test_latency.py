"""Requests and replies of an analysis, which are kept as rows of numbers."""

from toolkit.dissect.analysis.latency import Exchange, ExchangeLog
from toolkit.dissect.analysis.messages import Transmission
from toolkit.dissect.analysis.rows import RowStore

_BEFORE_1970_NS = -1_500_000_000
_LARGEST_TID = (1 << 64) - 1


def _exchange(request: str, reply: str, tid: int, asked_ns: int, answered_ns: int) -> Exchange:
    ends = Transmission(3, 10, asked_ns), Transmission(4, 12, answered_ns)
    return Exchange(1, "client.4123", "osd.3", tid, request, reply, *ends)


def test_exchanges_come_back_as_they_were_added() -> None:
    added = [
        _exchange("osd_op", "osd_op_reply", 7, 1_000, 251_000),
        _exchange("ping", "osd_op", _LARGEST_TID, _BEFORE_1970_NS, 500_000_000),
    ]
    log = ExchangeLog(RowStore())
    for exchange in added:
        log.add(exchange)
    assert list(log) == added
    latencies = [(request, reply, list(times)) for request, reply, times in log.latencies_ms()]
    assert latencies == [("osd_op", "osd_op_reply", [0.25]), ("ping", "osd_op", [2000.0])]
