"""The full-screen view of ``msgrlab top``, redrawn after each interval and each key."""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live as Display
from rich.table import Table
from rich.text import Text

from toolkit.dissect.frames import utc
from toolkit.dissect.top import ORDERS, LiveTop, Row, Snapshot
from toolkit.dissect.top.text import NUMBERS, TITLES, cells
from toolkit.report.terminal import shown_line

_LOOK_S = 0.2
"""Longest wait for a key: after it, the loop checks whether a signal ended the view."""
_EVENT_LINES = 8
_OTHER_LINES = 4
"""Heading, column titles, the line of keys, and one empty line."""
_KEYS = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"k": "up",
    b"j": "down",
    b"s": "sort",
    b"q": "quit",
    b"\x03": "quit",
    b"\x1b": "none",
}
_STYLES = {"open": "green", "opening": "yellow", "down": "red", "sealed": "cyan", "unread": "cyan"}


def keys_of(data: bytes) -> list[str]:
    """Return the names of the keys typed: ``up``, ``down``, ``sort``, ``quit``, ``none`` (Esc); ignore others."""
    found = []
    while data:
        key = next((key for key in sorted(_KEYS, key=len, reverse=True) if data.startswith(key)), data[:1])
        found += [_KEYS[key]] if key in _KEYS else []
        data = data[len(key) :]
    return found


@dataclass
class Screen:
    """The contents of the screen: the last snapshot, its order and filter, and the selected session."""

    order: str
    words: Sequence[str] = ()
    chosen: int | None = None
    """Number of the selected session, whose events are shown; None if none is selected."""
    snapshot: Snapshot | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Replace the snapshot shown."""
        self.snapshot = snapshot.only(self.words).sorted(self.order)

    def press(self, key: str) -> None:
        """Apply a key; see :func:`keys_of` for the names."""
        if key == "sort":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
            if self.snapshot is not None:
                self.snapshot = self.snapshot.sorted(self.order)
        elif key == "none":
            self.chosen = None
        elif key in {"up", "down"} and self.snapshot is not None and self.snapshot.rows:
            numbers = [row.session for row in self.snapshot.rows]
            step = 1 if key == "down" else -1
            place = numbers.index(self.chosen) + step if self.chosen in numbers else 0
            self.chosen = numbers[min(max(place, 0), len(numbers) - 1)]

    def drawn(self, height: int) -> Group:
        """Draw the screen for a terminal of ``height`` lines."""
        snapshot = self.snapshot
        if snapshot is None:
            return Group(Text("listening"))
        rows = snapshot.rows
        place = next((place for place, row in enumerate(rows) if row.session == self.chosen), None)
        events = [] if place is None else _events(rows[place])
        room = max(height - _OTHER_LINES - len(events) - bool(snapshot.problem), 1)
        first = 0 if place is None else max(0, min(place - room // 2, len(rows) - room))
        parts: list[Text | Table] = [Text(snapshot.heading, no_wrap=True, overflow="ellipsis")]
        parts.append(_table(rows[first : first + room], self.chosen))
        parts += [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in events]
        if snapshot.problem:
            parts.append(Text(shown_line(snapshot.problem), style="yellow", no_wrap=True, overflow="ellipsis"))
        keys = f"q quit   s sort (now by {self.order})   ↑ ↓ select a session   Esc deselect"
        return Group(*parts, Text(keys, style="reverse", no_wrap=True, overflow="ellipsis"))


def _table(rows: Sequence[Row], chosen: int | None) -> Table:
    table = Table(box=None, pad_edge=False, expand=False)
    for title in TITLES:
        right = title in NUMBERS
        table.add_column(title, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        texts = (
            Text(text, style=_STYLES.get(row.state, "") if title == "state" else "") for title, text in cells(row)
        )
        table.add_row(*texts, style="reverse" if row.session == chosen else None)
    return table


def _events(row: Row) -> list[str]:
    head = f"{row.title}: {row.address} to {row.peer_address}, {row.frames:,} frames, {row.bytes:,} bytes"
    last = row.events[-_EVENT_LINES:]
    return [shown_line(line) for line in (head, *(f"  {utc(e.time_ns)[11:23]}  {e.text}" for e in last))]


def show(view: LiveTop, order: str, words: Sequence[str], count: int | None) -> None:
    """Show a view until q, a signal, the end of the target or ``count`` snapshots.

    Raises:
        LocalError: the interface does not exist.
        Unsupported: this process may not capture packets.
    """
    console = Console(highlight=False)
    screen = Screen(order, words)
    descriptor = sys.stdin.fileno()
    with view.running() as live, _keys_at_once(descriptor):
        with Display(console=console, screen=True, auto_refresh=False) as display:
            made, due_s = 0, time.monotonic() + min(view.interval_s, _LOOK_S)
            while not live.over.is_set() and made != count:
                ready, _, _ = select.select([descriptor], [], [], min(max(due_s - time.monotonic(), 0), _LOOK_S))
                pressed = _pressed(descriptor) if ready else []
                for key in pressed:
                    screen.press(key)
                if "quit" in pressed:
                    break
                if is_due := time.monotonic() >= due_s:
                    screen.take(live.snapshot())
                    due_s, made = time.monotonic() + view.interval_s, made + 1
                if pressed or is_due:
                    display.update(screen.drawn(console.size.height), refresh=True)
        last = live.snapshot()
    console.print(last.heading, soft_wrap=True, markup=False)


def _pressed(descriptor: int) -> list[str]:
    """Read the keys that were pressed; a terminal that has gone is readable for ever, and quits."""
    try:
        data = os.read(descriptor, 64)
    except OSError:
        data = b""
    return keys_of(data) if data else ["quit"]


@contextlib.contextmanager
def _keys_at_once(descriptor: int) -> Iterator[None]:
    """Within the block, the terminal delivers each key when it is pressed, and does not echo it.

    The changes do not wait for output: a terminal after Ctrl-S takes none.
    """
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSANOW)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
