"""History records of actions of the proxy."""

from typing import Any

from toolkit.dissect.direction import Direction
from toolkit.faults.dials import AtDial
from toolkit.faults.mangle import Flip, Mangle
from toolkit.faults.strike import Strike
from toolkit.faults.tap import Breakpoint, ByteCut
from toolkit.faults.timing import is_timing


def strike_record(a: str, b: str, strike: Strike) -> tuple[str, dict[str, Any]]:
    """The history record (kind, fields) of a proxy action on a link that ``a`` dialled to ``b``."""
    between: dict[str, Any] = {"a": a, "b": b}
    problem = strike.problem if isinstance(strike, Mangle) else ""
    if isinstance(strike, AtDial) or (isinstance(strike, Mangle) and (problem or is_timing(strike.change))):
        detail = f"{strike}: {problem}" if problem else str(strike)
        return "path", between | {"fault": strike.change.what, "detail": detail}
    if isinstance(strike, ByteCut):
        return "cut", between | {"at": {}, "detail": str(strike)}
    frame = strike.hit
    assert frame is not None
    sender = strike.sender or (a if frame.direction is Direction.TO_SERVER else b)
    at: dict[str, Any] = {"sender": sender, "tag": frame.tag, "nth": strike.number}
    if isinstance(strike, Breakpoint):
        at |= {"byte": strike.byte, "index": frame.index, "offset": frame.offset}
        return "cut", between | {"at": at, "detail": str(strike)}
    assert isinstance(strike, Mangle)
    at |= {"index": frame.index, "offset": frame.offset}
    if isinstance(strike.change, Flip) and not strike.change.fix_crc:
        at["byte"] = strike.change.position(frame)
    return "mangle", between | {"at": at, "what": strike.change.what, "detail": str(strike.change)}


def blindness_record(a: str, b: str, why: str) -> tuple[str, dict[str, Any]]:
    """The history record (kind, fields) of a link that ``a`` dialled to ``b``, whose frames rules cannot see."""
    return "path", {"a": a, "b": b, "fault": "blind", "detail": f"rules see no frames of this link: {why}"}
