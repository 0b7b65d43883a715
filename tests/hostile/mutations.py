"""Captures of real daemons with a change, given to every command that reads captures.

A mutation changes bytes of the file, or frames of one connection whose crcs are corrected, so that decoders accept
them. The same seed gives the same mutations.
"""

import contextlib
import io
import os
import signal
import struct
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType

from messenger.v2.revision import crc_frames
from messenger.v2.wire import MESSAGE_HEADER, Tag
from tests.fuzz.mutate import changed
from tests.hostile.captures import FOLDER, capture_of, real
from toolkit.capture.formats import open_capture
from toolkit.cli.main import run
from toolkit.dissect.decode import Decoder
from toolkit.dissect.frames import DecodedFrame

NAMES = sorted(keyring.parent.name for keyring in FOLDER.glob("*/keyring"))
_PLAIN = tuple(name for name in NAMES if name.endswith(("-crc", "-none", "-osds", "-daemons")))
"""Captures of v2 whose frames can be written again."""
_EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 1)
_LIMITS = {"B": 8, "H": 16, "I": 32, "Q": 64}
_SLOWEST_S = 60
COMMANDS = (
    ("decode", "{}", "--keyring", "{key}", "--format", "json"),
    ("decode", "{}", "--keyring", "{key}", "-o", "{}.csv", "--force"),
    ("analyze", "{}", "--keyring", "{key}"),
    ("analyze", "{}", "--keyring", "{key}", "--json"),
    ("chart", "{}", "--keyring", "{key}"),
    ("chart", "{}", "--keyring", "{key}", "-o", "{}.html", "--force"),
)


def mutations(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Names of captures, and the mutated files."""
    rng = Random(seed)
    for number in range(count):
        if number % 2:
            name = rng.choice(NAMES)
            yield name, _with_changed_bytes(real(name), real(rng.choice(NAMES)), rng)
        else:
            name = rng.choice(_PLAIN)
            yield name, _with_changed_frames(name, rng)


def _with_changed_bytes(raw: bytes, other: bytes, rng: Random) -> bytes:
    for _ in range(rng.choice((1, 1, 3, 30))):
        raw = next(changed([raw, raw, raw, raw, other], 1, rng)) or raw
    return raw


@cache
def _frames(name: str) -> tuple[tuple[DecodedFrame, ...], ...]:
    """The frames of each link of a capture."""
    found: dict[int, list[DecodedFrame]] = {}
    decoder = Decoder()
    with open_capture(io.BytesIO(real(name))) as reader:
        for batch in reader:
            for frame in decoder.feed(batch):
                found.setdefault(frame.stream.index, []).append(frame)
        for frame in decoder.finish():
            found.setdefault(frame.stream.index, []).append(frame)
    return tuple(tuple(frames) for frames in found.values())


def _with_changed_frames(name: str, rng: Random) -> bytes:
    frames = list(rng.choice(_frames(name)))
    script = [(frame.direction, bytes(frame.wire)) for frame in frames if frame.wire]
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(len(script))
        way, wire = script[at]
        match rng.randrange(6):
            case 0:
                script.insert(rng.randrange(len(script)), (way, wire))
            case 1:
                del script[at]
            case 2:
                script[at] = way.other, wire
            case _:
                script[at] = way, _rewritten(rng.choice(frames), rng)
        if not script:
            break
    return capture_of(script)


def _rewritten(frame: DecodedFrame, rng: Random) -> bytes:
    """Return a frame with other contents and right crcs."""
    if frame.tag not in Tag.__members__ or not frame.segments or frame.mode != "crc":
        return bytes(frame.wire)
    writer = crc_frames(1 if frame.protocol == "v2.1" else 0, 1 << 30)[1]
    tag = Tag[frame.tag] if rng.randrange(8) else rng.choice(list(Tag))
    if frame.tag != Tag.MESSAGE.name:
        return writer.control(tag, _other_payload(bytes(frame.segments[0]), rng))
    header, *parts = map(bytes, frame.segments)
    values = list(MESSAGE_HEADER.unpack_from(header))
    kinds = [kind for kind in MESSAGE_HEADER.format if kind in _LIMITS]
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(values))
        values[at] = rng.choice(_EXTREMES) % (1 << _LIMITS[kinds[at]])
    if rng.randrange(2):
        parts[0] = _other_payload(parts[0], rng)
    pieces: list[object] = []
    writer.message(pieces, MESSAGE_HEADER.pack(*values), *parts)  # type: ignore[arg-type]
    return b"".join(pieces)  # type: ignore[arg-type]


def _other_payload(payload: bytes, rng: Random) -> bytes:
    if not payload:
        return rng.randbytes(rng.choice((0, 1, 8, 64)))
    raw = bytearray(next(changed([payload], 1, rng)))
    if len(raw) >= 8 and rng.randrange(2):
        struct.pack_into("<Q", raw, rng.randrange(len(raw) - 7), rng.choice(_EXTREMES))
    return bytes(raw)


# ---- trying them


class TooSlowError(Exception):
    """A command took too long."""


def tried(name: str, raw: bytes, folder: Path) -> list[str]:
    """Return the problems of the commands with a file; empty if all of them end as documented."""
    path = folder / "mutated"
    path.write_bytes(raw)
    keyring = FOLDER / name / "keyring"
    found = []
    for words in COMMANDS:
        line = [word.format(path, key=keyring) for word in words]
        err = io.StringIO()
        try:
            with _in_time(), contextlib.redirect_stdout(_Nowhere()), contextlib.redirect_stderr(err):
                code = run(line)
        except (Exception, MemoryError):  # noqa: BLE001 - what escapes is what is looked for
            found.append(f"{' '.join(words)}\n{traceback.format_exc(limit=-6)}")
            continue
        if code not in {0, 1, 2} or err.getvalue().count("\n") > 1:
            found.append(f"{' '.join(words)}: {code}, {err.getvalue()!r}")
    return found


class _Nowhere(io.TextIOWrapper):
    """Standard output without a reader."""

    def __init__(self) -> None:
        super().__init__(open(os.devnull, "wb"), encoding="utf-8")  # noqa: PTH123, SIM115 - closed with this


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SLOWEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def problems(seed: int, count: int, folder: Path) -> Iterator[str]:
    """Try mutations; what is wrong with each, in words. Files with which something is wrong stay in the folder."""
    for number, (name, raw) in enumerate(mutations(seed, count)):
        found = tried(name, raw, folder)
        if found:
            kept = folder / f"{seed}-{number}-{name}"
            kept.write_bytes(raw)
            yield from (f"{kept}: {problem}" for problem in found)
