"""The output of ``msgrlab proxy``: frames and the actions of rules as they happen, and the grid."""

import json
import threading
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from messenger.compat import override
from toolkit.cli.frame_lines import FrameLines
from toolkit.dissect.frames import DecodedFrame
from toolkit.faults.grid import ACTIONS, Cell
from toolkit.faults.live import Events, Hit, ProxiedLink, Proxy

CHECK_FAILED = 1


class ProxyOutput(Events):
    """Prints the events of a proxy, as text or JSON.

    Args:
        over: event that this class sets to end the proxy.
        once: True to end the proxy when its first link closes.
        quiet: True to print no frames.
        as_json: True to print one JSON object per line.
    """

    def __init__(self, over: threading.Event, *, once: bool, quiet: bool, as_json: bool) -> None:
        self._over = over
        self._once = once
        self._quiet = quiet
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._lines = FrameLines(self._console)
        self._lock = threading.Lock()

    def show(self, record: dict[str, Any], text: str, style: str = "") -> None:
        """Print ``record`` as a line of JSON, or else ``text``."""
        try:
            with self._lock:
                if self._as_json:
                    print(json.dumps(record), flush=True)
                else:
                    self._console.print(text, style=style or None, markup=False)
        except BrokenPipeError:  # an exception here would break the proxied links; end the proxy instead
            self._over.set()

    @override
    def opened(self, link: ProxiedLink) -> None:
        if self._quiet or self._as_json:  # otherwise the line of the first frame introduces the link
            self.show({"link": link.number, "opened": link.source}, f"link {link.number}: {link.source} connected")

    @override
    def closed(self, link: ProxiedLink) -> None:
        self.show({"link": link.number, "closed": link.why}, f"link {link.number}: {link.why}", "dim")
        if self._once:
            self._over.set()

    @override
    def blind(self, link: ProxiedLink) -> None:
        text = f"link {link.number}: frames can no longer be decoded: {link.blind}"
        self.show({"link": link.number, "blind": link.blind}, text, "yellow")

    @override
    def frame(self, frame: DecodedFrame) -> None:
        if self._quiet:
            return
        try:
            with self._lock:
                for line in [json.dumps(frame.as_json())] if self._as_json else self._lines.lines(frame):
                    print(line, flush=True)
        except BrokenPipeError:
            self._over.set()

    @override
    def hit(self, hit: Hit) -> None:
        self.show({"hit": asdict(hit)}, f"* {hit}", "yellow" if hit.problem else "bold magenta")

    def summary(self, running: Proxy) -> None:
        """Print the number of links and hits, and the counters."""
        counters = dict(sorted(running.counters.items()))
        lines = [f"{running.link_count} links, {running.hit_count} hits of rules"]
        lines += [f"  {name:28} {number:>12,}" for name, number in counters.items()]
        record = {"links": running.link_count, "hits": running.hit_count, "counters": counters}
        self.show(record, "\n".join(lines))


def print_grid(cells: Iterable[Cell], *, as_json: bool) -> int:
    """Print the cells as they finish (JSON) or as a table at the end; return 1 if a cell is wrong."""
    found = []
    for cell in cells:
        found.append(cell)
        if as_json:
            print(json.dumps(cell.as_json()), flush=True)
    if not as_json:
        Console().print(_grid_table(found))
    return CHECK_FAILED if any(not cell.right for cell in found) else 0


def _in_order(cell: Cell) -> tuple[str, int]:
    return cell.protocol, cell.number


def _grid_table(cells: list[Cell]) -> Table:
    actions = [action for action in ACTIONS if any(cell.action == action for cell in cells)]
    rows = dict.fromkeys((cell.protocol, cell.direction, cell.tag) for cell in sorted(cells, key=_in_order))
    outcomes = {(cell.protocol, cell.direction, cell.tag, cell.action): cell for cell in cells}
    table = Table("frame", *actions, box=None, pad_edge=False)
    for protocol, direction, tag in rows:
        line = [f"{protocol} {direction} {tag}"]
        for action in actions:
            cell = outcomes.get((protocol, direction, tag, action))
            text = "" if cell is None else str(cell)
            line.append(text if cell is None or cell.right else f"[bold red]{text}[/]")
        table.add_row(*line)
    return table
