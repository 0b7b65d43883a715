"""Decoded frames as text lines, as ``msgrlab decode`` and ``msgrlab capture --decode`` print them."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from textwrap import wrap

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import GAP, UNKNOWN, DecodedFrame, MessageInfo, Verdict, utc
from toolkit.dissect.stream import End, Stream

_NANO = 1_000_000_000
_NO_TERMINAL_WIDTH = 240
"""Longest line that is written to a file or pipe."""
_LEAST_WIDTH = 40
_LENGTH_FROM = 100
"""Terminals of at least this width also show the length of frames."""
_ERROR_INDENT = " " * 7
_LONGEST_VALUE = 40
_MOST_VALUES = 24

_HEADINGS = {"frame": 6, "time": 10, "link": 4, "bytes": 7, "checks": 9, "frame or message": 17}
_UTC_WIDTH = 30
_RIGHT = ("frame", "time", "bytes")

_PLAIN_MARKS = {Verdict.OK: "+", Verdict.BAD: "!", Verdict.NO_KEY: "?", "to": ">", "from": "<", "more": "~"}
_MARKS = {Verdict.OK: "✓", Verdict.BAD: "✗", Verdict.NO_KEY: "?", "to": "→", "from": "←", "more": "…"}
_STYLES = {
    Verdict.OK: Style.parse("green"),
    Verdict.BAD: Style.parse("bold red"),
    Verdict.NO_KEY: Style.parse("yellow"),
    "message": Style.parse("bold"),
    "minor": Style.parse("dim"),
    "link": Style.parse("bold cyan"),
}
_NOTABLE = ("oid", "ops", "result", "cmd", "what", "rs")
"""Fields that are shown before the length of a message, because they identify the message."""
_COMMAND = re.compile(r'{"prefix": ?"([a-z0-9_ -]+)"')
"""Beginning of a command to a daemon, before its arguments."""
_MINOR_TAGS = ("ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK")


class FrameLines:
    """Formats frames as lines that fit the width of the terminal.

    Args:
        console: console to which the lines will be printed.
        utc: show wall-clock time instead of seconds since :attr:`began_ns`.
    """

    def __init__(self, console: Console, *, utc: bool = False) -> None:
        self.began_ns: int | None = None
        """Zero of the time column; if it is not set before the first line, the time of the first frame."""
        self._terminal = console.is_terminal
        self._width = max(_LEAST_WIDTH, console.width) if self._terminal else _NO_TERMINAL_WIDTH
        self._colours = ColorSystem.STANDARD if console.color_system and not console.no_color else None
        self._marks = _MARKS if _can_print(console, "".join(_MARKS.values())) else _PLAIN_MARKS
        self._columns = dict(_HEADINGS) | ({"time": _UTC_WIDTH} if utc else {})
        self._utc = utc
        if self._width < _LENGTH_FROM:
            del self._columns["bytes"]
        self._started = False
        self._links: set[int] = set()
        self._ended: set[int] = set()
        self._missed: set[tuple[int, str]] = set()

    def lines(self, frame: DecodedFrame) -> Iterator[str]:
        """Yield the line of a frame; the first frame has a heading, the first of a link also the addresses."""
        if not self._started:
            self._started = True
            if self.began_ns is None:
                self.began_ns = frame.time_ns
            yield self._styled("minor", self._heading())
        if frame.stream.index not in self._links:
            self._links.add(frame.stream.index)
            yield self._styled("link", self._introduction(frame.stream))
        yield self._line(frame)
        if frame.error:
            yield from self._explanation(frame, frame.error)

    def end(self, end: End) -> Iterator[str]:
        """Yield a line that names the peer that closed or reset a link; nothing if no frame of it was shown."""
        stream, tcp = end.stream, end.stream.tcp
        if stream.index not in self._links or stream.index in self._ended:
            return
        self._ended.add(stream.index)
        ending = tcp.ending(stream.client, stream.server, tcp.last_ns)
        trouble = tcp.trouble(stream.client, stream.server)
        text = (
            f"link {stream.index} ended at {self._time(end.time_ns)}: {'; '.join(filter(None, (ending, trouble)))}"
        )
        yield self._styled(Verdict.BAD if tcp.reset is not None else "minor", text)

    def _explanation(self, frame: DecodedFrame, error: str) -> Iterator[str]:
        """Yield the error of a frame; a missing key is reported once per link, since all later frames lack it."""
        style = Verdict.NO_KEY if frame.auth is Verdict.NO_KEY else Verdict.BAD
        if style is Verdict.NO_KEY:
            if (frame.stream.index, error) in self._missed:
                return
            self._missed.add((frame.stream.index, error))
        for part in wrap(_printable(error), self._width - len(_ERROR_INDENT)):
            yield _ERROR_INDENT + self._styled(style, part)

    def _heading(self) -> str:
        words = (
            name.rjust(width) if name in _RIGHT else name.ljust(width) for name, width in self._columns.items()
        )
        return " ".join(words).rstrip()

    def _introduction(self, stream: Stream) -> str:
        before = "" if stream.opening_seen else "  (opened before the capture began)"
        over = _over_rdma(stream.queue_pairs) if stream.queue_pairs else ""
        return f"link {stream.index}: {stream.client} {self._marks['to']} {stream.server}{over}{before}"

    def _time(self, time_ns: int) -> str:
        return utc(time_ns) if self._utc else f"{(time_ns - (self.began_ns or 0)) / _NANO:.6f}"

    def _line(self, frame: DecodedFrame) -> str:
        info = frame.message
        name = _printable(info.name if info else frame.tag)
        arrow = self._marks["to" if frame.direction is Direction.TO_SERVER else "from"]
        cells = {
            "frame": str(frame.frame),
            "time": self._time(frame.time_ns),
            "link": f"{frame.stream.index}{arrow}",
            "bytes": str(frame.length),
            "checks": " ".join(mark for mark, _ in self._checks(frame)),
            "frame or message": name,
        }
        used = 0
        words = []
        for heading, width in self._columns.items():
            cell = cells[heading]
            padding = " " * (width - len(cell))
            used += len(cell) + len(padding) + 1
            words.append(self._cell(heading, cell, padding, frame))
        room = self._width - used
        what = " ".join(_what(frame))
        if len(what) > room:
            what = what[: max(0, room - 1)] + self._marks["more"]
        return " ".join([*words, what]).rstrip()

    def _cell(self, heading: str, cell: str, padding: str, frame: DecodedFrame) -> str:
        if heading in _RIGHT:
            return padding + cell
        if heading == "checks":
            return " ".join(self._styled(verdict, mark) for mark, verdict in self._checks(frame)) + padding
        if heading == "frame or message":
            style: str | Verdict | None = "minor" if frame.tag in _MINOR_TAGS else None
            style = "message" if frame.message else style
            style = Verdict.BAD if Verdict.BAD in (frame.crc, frame.auth) else style
            return (self._styled(style, cell) if style else cell) + padding
        return cell + padding

    def _checks(self, frame: DecodedFrame) -> list[tuple[str, Verdict]]:
        """Return the label and verdict of each check: crc, and the GCM tag of secure mode or the v1 signature."""
        seal = "gcm" if frame.mode == "secure" or frame.tag == UNKNOWN else "sig"
        checks = (("crc", frame.crc), (seal, frame.auth))
        return [(name + self._marks[verdict], verdict) for name, verdict in checks if verdict is not Verdict.NONE]

    def _styled(self, style: str | Verdict, text: str) -> str:
        return _STYLES[style].render(text, color_system=self._colours) if self._colours else text


def _what(frame: DecodedFrame) -> Iterator[str]:
    """Yield the contents of a frame, most useful first: a narrow terminal cuts off the rest."""
    if frame.tag in (UNKNOWN, GAP):
        yield f"{frame.length:,} bytes"
    info, fields = frame.message, dict(frame.fields)
    if info is not None:
        yield f"seq {info.seq}"
        if info.tid:
            yield f"tid {info.tid}"
    yield from _shown_fields({name: fields.pop(name) for name in _NOTABLE if name in fields})
    if info is not None:
        yield from _sizes(info)
    if frame.compressed:
        yield "compressed"
    yield from _shown_fields(fields)


def _sizes(info: MessageInfo) -> Iterator[str]:
    if info.ack_seq:
        yield f"ack {info.ack_seq}"
    parts = (info.front, info.middle, info.data)
    yield f"{info.front} B" if not (info.middle or info.data) else f"{'+'.join(map(str, parts))} B"


def _shown_fields(fields: Mapping[str, object]) -> Iterator[str]:
    for name, value in list(fields.items())[:_MOST_VALUES]:
        yield f"{_printable(name)}={_short(value)}"


def _short(value: object) -> str:
    """Abbreviate a long value for display."""
    command = _COMMAND.match(value) if isinstance(value, str) else None
    if command:
        text = _short(command[1])
    elif isinstance(value, Mapping) and "code" in value:
        text = _short(value["code"])  # an operation: its arguments are only in the JSON record
    elif isinstance(value, Mapping):
        inner = ",".join(f"{_printable(str(key))}:{_short(part)}" for key, part in list(value.items())[:8])
        text = f"{{{inner}}}"
    elif isinstance(value, list | tuple):
        text = f"[{','.join(map(_short, value[:8]))}{',..' if len(value) > 8 else ''}]"
    else:
        text = _printable(str(value)) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 2]}.."


def _over_rdma(queue_pairs: tuple[int, int]) -> str:
    """Name the RDMA queue pairs of a link; ``unknown`` for one that the capture does not show."""
    client, server = (str(number) if number >= 0 else "unknown" for number in queue_pairs)
    return f" over RDMA, queue pairs {client} and {server}"


def _printable(text: str) -> str:
    """Quote a peer's text that could move the cursor or imitate our output."""
    return text if text.isascii() and text.isprintable() and text else json.dumps(text)


def _can_print(console: Console, marks: str) -> bool:
    encoding = getattr(console.file, "encoding", None) or sys.getdefaultencoding()
    try:
        marks.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
