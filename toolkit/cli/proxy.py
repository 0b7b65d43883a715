"""``msgrlab proxy``: a proxy between any two peers, which shows their frames and applies rules to them."""

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import party
from toolkit.cli.key_options import Keyrings
from toolkit.machine.attention import wait_for_event

if TYPE_CHECKING:
    from toolkit.cli.proxy_output import ProxyOutput
    from toolkit.faults.live import Proxy

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TYPED_HELP = "type a rule, or: release NAME, rules, cut, quit"


def proxy(
    listen: Annotated[
        str,
        typer.Argument(metavar="LISTEN", help="HOST:PORT to listen on, or PORT on loopback; 0: any free port."),
    ] = "",
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="HOST:PORT to connect to; or CLUSTER/NODE, a node of a running cluster, with its keyring.",
        ),
    ] = "",
    keyring: Keyrings = None,
    script: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File with rules, one per line (docs/proxy.md). Repeatable."),
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Rule as WHERE: WHAT. Repeatable.")
    ] = None,
    key_log: Annotated[Path | None, typer.Option(metavar="FILE", help="Append link keys to this file.")] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the frames as a history, for msgrlab chart.")
    ] = None,
    pretend: Annotated[
        bool,
        typer.Option("--pretend", help="Rewrite addresses in frames; Ceph's own daemons and clients need this."),
    ] = False,
    blind: Annotated[
        bool, typer.Option("--blind", help="Decode no frames; rules see only new connections.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Exit when the first link ends.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print the actions of rules, but not every frame.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    grid: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Disturb a monitor at every frame instead, and print the outcomes."),
    ] = None,
) -> int:
    """Relay connections from LISTEN to TARGET, show their frames, and apply rules to them."""
    from toolkit.cli.proxy_output import ProxyOutput
    from toolkit.faults.live import Proxy
    from toolkit.faults.script import Rule, read_script
    from toolkit.machine.descriptors import raise_limit

    behind, keyrings = party(grid or target, keyring or ())
    if grid is not None:
        return _grid(behind, keyrings, as_json=as_json)
    if not listen or not behind:
        raise LocalError("LISTEN and TARGET are needed, as in: msgrlab proxy 127.0.0.1:3301 10.0.0.1:3300")
    rules: list[str | Rule] = [one for path in script or () for one in read_script(path)]
    rules += [Rule.parse(text) for text in rule or ()]
    _check_history(history, is_blind=blind)
    raise_limit()
    over = threading.Event()
    output = ProxyOutput(over, once=once, quiet=quiet, as_json=as_json)
    running = Proxy(
        behind, rules, keyrings, listen=listen, key_log=key_log, pretend=pretend, events=output, blind=blind
    )
    _end_on_signals(over)
    with running:
        output.show({"proxy": running.address, "target": target}, f"{running.address} relays to {target}")
        threading.Thread(target=_take_orders, args=(running, output, over), daemon=True).start()
        wait_for_event(over)
    if history is not None:
        running.history().save(history)
    output.summary(running)
    return 0


def _end_on_signals(over: threading.Event) -> None:
    for number in _SIGNALS:
        signal.signal(number, lambda *_: over.set())


def _check_history(history: Path | None, *, is_blind: bool) -> None:
    if history is not None and history.exists():
        raise LocalError(f"--history {history} exists already, and nothing is overwritten")
    if history is not None and is_blind:
        raise LocalError("--blind excludes --history: a blind proxy decodes no frames")


def _take_orders(running: "Proxy", output: "ProxyOutput", over: threading.Event) -> None:
    """Read rules and orders from standard input, one per line; the proxy outlives the end of the input."""
    for line in sys.stdin:
        text = line.strip()
        try:
            if text in {"quit", "exit"}:
                over.set()
            elif text == "rules":
                for known in running.rules:
                    output.show({"rule": known}, known)
            elif text == "cut":
                count = running.cut()
                output.show({"cut": count}, f"{count} links cut")
            elif text.startswith("release "):
                name = text.removeprefix("release ").strip()
                count = running.release(name)
                output.show({"released": name, "count": count}, f"{count} released")
            elif text and not text.startswith("#"):
                for added in running.add(text):
                    output.show({"added": str(added)}, f"added {added}")
        except LocalError as error:
            output.show({"error": str(error)}, f"{error}; {_TYPED_HELP}")


def _grid(target: str, keyrings: list[Path], *, as_json: bool) -> int:
    """Run the grid against a monitor; return 1 if a peer did not recover although it should have."""
    from toolkit.cli.proxy_output import print_grid
    from toolkit.faults.grid import Grid

    if len(keyrings) != 1:
        raise LocalError("--grid needs exactly one --keyring, that of client.admin")
    return print_grid(Grid(target, keyrings[0]).run(), as_json=as_json)
