"""Actions of rules: each verb with the functions that parse and print it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from messenger.errors import LocalError
from toolkit.dissect.stream import Ending
from toolkit.faults import scalars
from toolkit.faults.dials import Refuse
from toolkit.faults.edits import V1_TAGS, V2_TAGS, Inject, SetFields, Sign
from toolkit.faults.mangle import (
    Change,
    Drop,
    Duplicate,
    Flip,
    Insert,
    Join,
    Reflect,
    Replace,
    Replay,
    Swap,
    Truncate,
)
from toolkit.faults.timing import Delay, Hold, Log, Pieces, Slow
from toolkit.scanner import Scanner, plain


@dataclass(frozen=True, slots=True)
class Cut:
    """End the link at a frame.

    Args:
        byte: number of bytes of the frame that are still delivered (negative: counted from its end); None for all.
        how: how both parties see the end: as RST, or as FIN.
    """

    byte: int | None = 0
    how: Ending = Ending.RESET


What = Change | Cut | Refuse
"""The action of a rule."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the rule language."""

    usage: str
    """Its syntax, for errors and documentation."""
    about: str
    """Its effect, in a line."""
    kind: type
    read: Callable[[Scanner], What]
    write: Callable[[Any], str]
    """Returns the arguments of the verb for an action of its kind."""


# ---- ending a link


def _read_cut(how: Ending) -> Callable[[Scanner], Cut]:
    def read(found: Scanner) -> Cut:
        if found.has("after"):
            return Cut(None, how)
        if found.has("at"):
            return Cut(found.read(scalars.BYTE, scalars.number), how)
        if not found.has("before") and found.peek():
            raise found.error(f"{found.peek()!r} is not before, after or at BYTE")
        return Cut(0, how)

    return read


def _write_cut(cut: Cut) -> str:
    return "after" if cut.byte is None else f"at {cut.byte}" if cut.byte else "before"


# ---- timing


def _read_hold(found: Scanner) -> Hold:
    name = found.read(scalars.NAME, scalars.name)
    for_s = found.read(scalars.TIME, scalars.seconds) if found.has("for") else None
    return Hold(name, for_s, alone=found.has("alone"))


def _write_hold(hold: Hold) -> str:
    time = "" if hold.for_s is None else f" for {plain(hold.for_s)}s"
    return f"{hold.name}{time}{' alone' * hold.alone}"


def _read_log(found: Scanner) -> Log:
    return Log(found.rest())


# ---- frames


def _read_duplicate(found: Scanner) -> Duplicate:
    return Duplicate(found.read(scalars.TIME, scalars.seconds) if found.has("after") else None)


def _read_replay(found: Scanner) -> Replay:
    tag = _tag(found)
    nth = found.read("#NUMBER", lambda text: scalars.count(_hash(text))) if found.peek().startswith("#") else 1
    return Replay(tag, nth, instead=found.has("instead"))


def _hash(text: str) -> str:
    return text.removeprefix("#")


def _write_replay(replay: Replay) -> str:
    nth = f" #{replay.nth}" if replay.nth != 1 else ""
    return f"{replay.tag}{nth}{' instead' * replay.instead}"


def _tag(found: Scanner) -> str:
    return found.choose("tag", sorted({*V1_TAGS, *V2_TAGS, "BANNER"}))


# ---- bytes and fields


def _read_corrupt(found: Scanner) -> Flip:
    region = field = ""
    byte = 0
    if found.has("byte"):
        byte = found.read(scalars.BYTE, scalars.number)
        if found.has("of"):
            region = found.take("a region, like segment 0").text
            if region in {"segment", "crc"}:
                region += f" {found.read('a number of a segment', scalars.number)}"
    else:
        field = found.read("byte N, or the name of a field", scalars.name)
        if found.has("byte"):
            byte = found.read(scalars.BYTE, scalars.number)
    mask = found.read("bits from 1 to 0xff", _mask) if found.has("mask") else 1
    return Flip(byte, mask, region, found.has("fixed"), field)


def _mask(text: str) -> int:
    value = scalars.count(text)
    if value > 0xFF:
        raise ValueError(text)
    return value


def _write_corrupt(flip: Flip) -> str:
    where = flip.field or f"byte {flip.byte}"
    if flip.field and flip.byte:
        where += f" byte {flip.byte}"
    of = f" of {flip.region}" if flip.region else ""
    mask = f" mask 0x{flip.mask:02x}" if flip.mask != 1 else ""
    return f"{where}{of}{mask}{' fixed' * flip.fix_crc}"


def _read_set(found: Scanner) -> SetFields:
    values = [found.read(scalars.ASSIGNMENT, scalars.assignment)]
    while "=" in found.peek():
        values.append(found.read(scalars.ASSIGNMENT, scalars.assignment))
    return SetFields(tuple(values), fix=not found.has("unfixed"))


def _read_inject(found: Scanner) -> Inject:
    tag = _tag(found)
    values = []
    while "=" in found.peek():
        values.append(found.read(scalars.ASSIGNMENT, scalars.assignment))
    return Inject(tag, tuple(values), before=found.has("before"), back=found.has("back"))


def _write_inject(inject: Inject) -> str:
    return f"{inject.tag} {_assigned(inject.values)}{' before' * inject.before}{' back' * inject.back}"


def _assigned(values: tuple[tuple[str, str], ...]) -> str:
    return " ".join(f"{name}={value}" for name, value in values)


def _read_insert(found: Scanner) -> Insert:
    extra = found.read(scalars.HEX, scalars.hex_bytes)
    return Insert(extra, found.read(scalars.BYTE, scalars.number) if found.has("at") else None)


def _read_truncate(found: Scanner) -> Truncate:
    return Truncate(found.read("how many bytes are left", scalars.number))


def _write_replace(replace: Replace) -> str:
    if not isinstance(replace.other, bytes):
        raise LocalError("a change that calls a function has no text")
    return replace.other.hex() or "-"


def _hex(raw: bytes) -> str:
    return raw.hex() or "-"


VERBS: Mapping[str, Verb] = {
    "cut": Verb("cut [before|after|at BYTE]", "end the link with RST", Cut, _read_cut(Ending.RESET), _write_cut),
    "close": Verb(
        "close [before|after|at BYTE]",
        "end the link with FIN to both peers",
        Cut,
        _read_cut(Ending.FIN),
        _write_cut,
    ),
    "hold": Verb(
        "hold NAME [for TIME] [alone]",
        "hold the frame and all later ones (alone: only this frame) until NAME is released",
        Hold,
        _read_hold,
        _write_hold,
    ),
    "delay": Verb(
        "delay TIME [alone]",
        "delay the frame and all later ones (alone: only this frame)",
        Delay,
        lambda found: Delay(found.read(scalars.TIME, scalars.seconds), alone=found.has("alone")),
        lambda delay: f"{plain(delay.seconds)}s{' alone' * delay.alone}",
    ),
    "drop": Verb(
        "drop [rest]",
        "drop the frame (rest: and all later ones)",
        Drop,
        lambda found: Drop(rest=found.has("rest")),
        lambda drop: "rest" if drop.rest else "",
    ),
    "duplicate": Verb(
        "duplicate [after TIME]",
        "forward the frame twice",
        Duplicate,
        _read_duplicate,
        lambda change: "" if change.after_s is None else f"after {plain(change.after_s)}s",
    ),
    "replay": Verb(
        "replay TAG [#N] [instead]",
        "repeat the N-th TAG of the same sender since the rule was set, after the frame (instead: in its place)",
        Replay,
        _read_replay,
        _write_replay,
    ),
    "swap": Verb("swap", "forward the next frame first", Swap, lambda _: Swap(), lambda _: ""),
    "join": Verb("join", "forward the frame and the next one in one write", Join, lambda _: Join(), lambda _: ""),
    "reflect": Verb(
        "reflect [both]",
        "return the frame to its sender (both: and forward it)",
        Reflect,
        lambda found: Reflect(both=found.has("both")),
        lambda reflect: "both" if reflect.both else "",
    ),
    "truncate": Verb(
        "truncate BYTES",
        "forward only the first BYTES bytes (negative: all but the last)",
        Truncate,
        _read_truncate,
        lambda truncate: str(truncate.bytes_left),
    ),
    "corrupt": Verb(
        "corrupt FIELD [byte N] | byte N [of REGION] [mask BITS] [fixed]",
        "flip bits (fixed: compute crcs, signature and seal again)",
        Flip,
        _read_corrupt,
        _write_corrupt,
    ),
    "set": Verb(
        "set FIELD=VALUE... [unfixed]",
        "set fields to other values (unfixed: keep the old crcs)",
        SetFields,
        _read_set,
        lambda change: _assigned(change.values) + ("" if change.fix else " unfixed"),
    ),
    "sign": Verb(
        "sign", "compute AUTH_SIGNATURE again for the changed frames", Sign, lambda _: Sign(), lambda _: ""
    ),
    "inject": Verb(
        "inject TAG [FIELD=VALUE...] [before] [back]",
        "insert a frame after it (before: before it; back: to its sender)",
        Inject,
        _read_inject,
        _write_inject,
    ),
    "insert": Verb(
        "insert HEX [at BYTE]",
        "insert bytes after the frame, or before byte BYTE of it",
        Insert,
        _read_insert,
        lambda insert: _hex(insert.extra) + ("" if insert.byte is None else f" at {insert.byte}"),
    ),
    "replace": Verb(
        "replace HEX",
        "forward these bytes instead of the frame",
        Replace,
        lambda found: Replace(found.read(scalars.HEX, scalars.hex_bytes)),
        _write_replace,
    ),
    "slow": Verb(
        "slow RATE [rest]",
        "forward the frame at this rate (rest: and all later ones)",
        Slow,
        lambda found: Slow(found.read(scalars.RATE, scalars.rate), rest=found.has("rest")),
        lambda slow: f"{plain(slow.bytes_per_s)}B/s{' rest' * slow.rest}",
    ),
    "trickle": Verb(
        "trickle [BYTES] [rest]",
        "forward the frame in pieces of BYTES bytes, default 1 (rest: and all later ones)",
        Pieces,
        lambda found: Pieces(
            found.read("a number of bytes", scalars.count) if found.peek() not in {"", "rest"} else 1,
            rest=found.has("rest"),
        ),
        lambda pieces: f"{pieces.size_bytes}{' rest' * pieces.rest}",
    ),
    "log": Verb("log [TEXT]", "log the frame", Log, _read_log, lambda log: log.text),
    "refuse": Verb("refuse", "refuse the connection with RST", Refuse, lambda _: Refuse(), lambda _: ""),
}
"""Verbs by name."""

AT_DIALS = (Refuse, Hold, Delay)
"""Actions that are possible at connection attempts."""


def read_what(found: Scanner) -> What:
    """Parse the action of a rule, up to the end of its words.

    Raises:
        TextError: there is no such verb, or its arguments are wrong.
    """
    verb = found.choose("verb", VERBS)
    what = VERBS[verb].read(found)
    found.finish(f"it is {VERBS[verb].usage}")
    return what


def write_what(what: What) -> str:
    """Return the text of an action.

    Raises:
        LocalError: there is none, because the action calls a Python function.
    """
    for name, verb in VERBS.items():
        if type(what) is verb.kind and not (
            isinstance(what, Cut) and (what.how is Ending.FIN) != (name == "close")
        ):
            return f"{name} {verb.write(what)}".strip()
    raise LocalError(f"{type(what).__name__} has no text")
