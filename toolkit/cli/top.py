"""``msgrlab top``: a live table of the sessions of a capture target, or the sessions of a capture file."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.capture.ports import CEPH_PORTS
from toolkit.cli.key_options import KeyLogs, Keyrings
from toolkit.cli.streams import ended_by_signals

if TYPE_CHECKING:
    from toolkit.dissect.top import CaptureTop, LiveTop, Snapshot

_STDIN = "-"

Order = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="KEY",
        help="Sort by bytes, frames, latency, in-flight, reconnects, entity, peer, state, verdict or age.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Show only sessions with this text in a cell, or in a certain column, as in state=open; the names "
        "of columns are the keys of --json. Repeatable: all must match.",
    ),
]
Interval = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0.05,
        help="Time between snapshots; by default 1. A file gives a snapshot per interval of its time, by default "
        "only one at its end.",
    ),
]


def top(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Interface (lo, eth0, any); netns:NAME, docker:CONTAINER, pid:N or ssh:HOST, with /IFACE for one "
            "of its interfaces; or a capture file (pcap or pcapng), - for standard input.",
        ),
    ],
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    order: Order = "bytes",
    words: Words = None,
    interval: Interval = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after N snapshots.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per snapshot, one per line.")
    ] = False,
    ports: Annotated[
        str,
        typer.Option(
            metavar="PORTS", help="TCP ports to capture, of either end; `all` for every port. Not for files."
        ),
    ] = CEPH_PORTS,
) -> int:
    """Show live sessions: rates, messages in flight, latencies, reconnects, faults and verdicts.

    In a terminal it fills the screen: q quits, s sorts by the next key, arrows select a session
    and show its last events. Elsewhere it prints a table for each snapshot. Targets other than
    files need root.
    """
    from toolkit.dissect.top import CaptureTop, open_top
    from toolkit.dissect.top.snapshot import check_order, check_words

    check_order(order)
    check_words(words or ())
    view: CaptureTop | LiveTop
    if target == _STDIN:
        if sys.stdin.isatty():
            raise LocalError("standard input is a terminal; pipe a capture into it, or name a file instead of -")
        view = CaptureTop(sys.stdin.buffer, keyring or (), key_log or (), interval_s=interval)
    else:
        view = open_top(target, keyring or (), key_log or (), ports=ports, interval_s=interval)

    def shaped(snapshot: "Snapshot") -> "Snapshot":
        return snapshot.only(words or ()).sorted(order)

    if isinstance(view, CaptureTop):
        _print(view, shaped, count, as_json=as_json)
    elif as_json or not (sys.stdout.isatty() and sys.stdin.isatty()):
        with ended_by_signals(view.stop):
            _print(view, shaped, count, as_json=as_json)
    else:
        from toolkit.cli.top_screen import show

        with ended_by_signals(view.stop):
            show(view, order, words or (), count)
    if view.ended:
        print(f"the capture ended early: {view.ended}", file=sys.stderr)
    return 0


def _print(
    view: "CaptureTop | LiveTop", shaped: "Callable[[Snapshot], Snapshot]", count: int | None, *, as_json: bool
) -> None:
    """Print the snapshots: one JSON object per line, or tables separated by an empty line."""
    for made, snapshot in enumerate(view, 1):
        shown = shaped(snapshot)
        if as_json:
            print(json.dumps(shown.as_json()), flush=True)
        else:
            print(f"\n{shown}" if made > 1 else shown, flush=True)
        if made == count:
            return
