"""Counters of daemons: declared once, then values in the order of their paths."""

import struct

import pytest

from messenger.denc.codec import Encoder
from messenger.errors import DecodeError
from messenger.messages.mgr import MMgrReport, PerfCounterType
from toolkit.manager import counters as module
from toolkit.manager.counters import Counter, CounterFlag, Counters

OPS = PerfCounterType("osd.op", type=CounterFlag.U64 | CounterFlag.COUNTER)
LATENCY = PerfCounterType("osd.lat", type=CounterFlag.TIME | CounterFlag.AVERAGE)


def packed(*numbers: int) -> bytes:
    encoder = Encoder()
    with encoder.versioned(1, 1):
        encoder.raw(struct.pack(f"<{len(numbers)}Q", *numbers))
    return encoder.getvalue()


def test_values_follow_the_declarations_in_the_order_of_paths() -> None:
    counters = Counters()
    counters.take(MMgrReport("0", declare_types=[OPS, LATENCY], packed=packed(9000, 3, 3, 41)))
    assert counters.values == {"osd.lat": Counter(LATENCY, 9000, 3), "osd.op": Counter(OPS, 41)}
    counters.take(MMgrReport("0", packed=packed(9500, 4, 4, 42)))
    assert counters.values["osd.op"].value == 42
    counters.take(MMgrReport("0", undeclare_types=["osd.lat"], packed=packed(43)))
    assert counters.values == {"osd.op": Counter(OPS, 43)}
    counters.take(MMgrReport("0"))
    assert counters.values["osd.op"].value == 43, "a report without values changes none"


def test_another_session_declares_everything_again() -> None:
    counters = Counters()
    counters.take(MMgrReport("0", declare_types=[OPS], packed=packed(1)))
    counters.forget()
    assert counters.values == {}
    counters.take(MMgrReport("0", declare_types=[LATENCY], packed=packed(5, 1, 1)))
    assert list(counters.values) == ["osd.lat"]


def test_reports_that_do_not_fit_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = Counters()
    with pytest.raises(DecodeError):
        counters.take(MMgrReport("0", declare_types=[OPS, LATENCY], packed=packed(1, 2)))
    monkeypatch.setattr(module, "MOST_COUNTERS", 1)
    with pytest.raises(DecodeError, match="2 counters declared, at most 1 are kept"):
        Counters().take(MMgrReport("0", declare_types=[OPS, LATENCY], packed=packed(1, 1, 1, 1)))
