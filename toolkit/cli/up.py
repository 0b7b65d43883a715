"""``msgrlab up``: start a cluster, which runs until ``msgrlab down``."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import complete_specs
from toolkit.cli.progress import Steps, progress
from toolkit.cli.report_files import Html, Junit, ReportFiles
from toolkit.report.terminal import shown_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from toolkit.cluster.supervisor.client import Starting
    from toolkit.cluster.supervisor.program import Program

_REFRESH_PER_S = 20
_START_TIME = 19
"""Index of ``starttime`` (ticks since boot) among the fields of /proc/self/stat that follow the process name."""
_STAGES = {"host": "host created", "started": "started", "ready": "ready"}


def up(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC", autocompletion=complete_specs, help="YAML file, or the name of a ready-made spec."
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the cluster; by default the name in the spec.")] = "",
    backend: Annotated[
        str, typer.Option(help="Where nodes run: process, netns, docker, swarm or vm; by default as in the spec.")
    ] = "",
    context: Annotated[
        str, typer.Option(metavar="NAME", help="Docker context, by default the current one (`docker context ls`).")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set a value of the spec: speaks.mode=secure. Repeatable."
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Keep running; the cluster ends with this command (Ctrl-C).")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a cluster that fails to come up.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object once all is ready.")] = False,
    html: Html = None,
    junit: Junit = None,
) -> None:
    """Start a cluster: hosts, a network in which faults can be injected, and nodes that connect to each other.

    If it does not come up, its logs are kept and the lines that show the cause are printed.
    """
    if keep and foreground:
        raise LocalError("--keep and --foreground exclude each other")
    began_s = _typed_s()
    from toolkit.cluster.spec_lookup import located
    from toolkit.cluster.supervisor.client import Starting
    from toolkit.machine.docker_engine import choose_context
    from toolkit.machine.leases import Lease

    files = ReportFiles(html, junit)
    if files and not foreground:
        raise LocalError("--html and --junit need --foreground; without it, use: msgrlab down NAME --html FILE")
    choose_context(context)
    file, own_name = located(spec)
    lease = Lease.take(name or own_name)
    try:
        program = _programs.pop() if _programs else None
        starting = Starting(lease, file, backend, settings or [], program, foreground=foreground, keep=keep)
    except BaseException:
        lease.journal.undo()
        raise
    ready = _watched(starting, began_s, quiet=as_json)
    ready["seconds"] = round(time.monotonic() - began_s, 3)
    if as_json:
        print(json.dumps(ready, indent=2))
    else:
        _print_ready(ready)
    sys.stdout.flush()
    if not foreground:
        starting.leave()
        return
    try:
        starting.wait()
    finally:
        if files and lease.directory.exists():
            from toolkit.cluster.report_page import cluster_report

            files.write([cluster_report(lease, files.folder)], f"Cluster {lease.label.name}")
        starting.end()


_programs: "list[Program]" = []
"""The supervisor's program, if it has started already and has no cluster yet."""


@contextlib.contextmanager
def started_ahead() -> "Iterator[None]":
    """Start the supervisor's program, and end it at the end of the ``with`` block if no cluster was started."""
    from toolkit.cluster.supervisor.program import Program

    _programs.append(Program())
    try:
        yield
    finally:
        while _programs:
            _programs.pop().discard()


def _typed_s() -> float:
    """Return the monotonic time at which the kernel started this process, so that its start-up counts, too."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s


def _watched(starting: "Starting", began_s: float, *, quiet: bool) -> dict[str, Any]:
    """Follow a supervisor until its cluster is ready, and return the description of the ready cluster.

    A terminal shows a table of the nodes meanwhile. Announcements are printed even if ``quiet``: they name
    software that is downloaded and run although the user did not name it.
    """
    events = starting.events()
    if quiet or not sys.stderr.isatty():
        events = _announced(events, lambda words: print(words, file=sys.stderr, flush=True))
        with progress("up") as steps:
            return _ready_of(_logged(events, steps))
    from rich.console import Console
    from rich.live import Live

    board = _Board(began_s)
    with Live(
        console=Console(stderr=True), get_renderable=board.table, refresh_per_second=_REFRESH_PER_S, transient=True
    ) as live:
        return _ready_of(board.seeing(_announced(events, lambda words: live.console.print(words, markup=False))))


def _announced(
    events: "Iterator[dict[str, Any]]", announce: "Callable[[str], None]"
) -> "Iterator[dict[str, Any]]":
    for event in events:
        if "announce" in event:
            announce(shown_line(event["announce"]))
        yield event


def _logged(events: "Iterator[dict[str, Any]]", steps: Steps) -> "Iterator[dict[str, Any]]":
    for event in events:
        stage = event.get("stage")
        if words := event.get("say") or (stage and f"{event['node']} {_STAGES.get(stage, stage)}"):
            steps.show(words)
        yield event


def _ready_of(events: "Iterator[dict[str, Any]]") -> dict[str, Any]:
    ready: dict[str, Any] = {}
    for event in events:
        ready = event.get("ready", {})
    return ready


class _Board:
    """The table of nodes that ``up`` shows on a terminal, with the stage that each has reached."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._stages: dict[str, tuple[str, float]] = {}
        self._words = "reading the spec"

    def seeing(self, events: "Iterator[dict[str, Any]]") -> "Iterator[dict[str, Any]]":
        """Yield the same events, after recording them in the table."""
        for event in events:
            now_s = time.monotonic() - self._began_s
            for name in event.get("nodes", ()):
                self._stages.setdefault(name, ("waiting", now_s))
            if "stage" in event:
                self._stages[event["node"]] = (_STAGES.get(event["stage"], event["stage"]), now_s)
            self._words = shown_line(event.get("say", "" if "stage" in event else self._words))
            yield event

    def table(self) -> "Table":
        """Build the table as it stands now."""
        from rich.table import Table

        table = Table(box=None, show_header=False, pad_edge=False)
        for name, (stage, at_s) in self._stages.items():
            table.add_row(name, stage, f"{at_s:.2f} s")
        table.add_row("", self._words, f"{time.monotonic() - self._began_s:.1f} s")
        return table


def _files(directory: Path) -> "Iterator[tuple[str, Path]]":
    """Yield kind and path of each file of a cluster that other commands read, such as captures and keyrings."""
    patterns = {"history": "*.ndjson", "capture": "*.pcapng", "keyring": "*keyring*", "key log": "*.keys"}
    for what, pattern in patterns.items():
        for path in sorted(directory.glob(pattern)):
            yield what, path


def _print_ready(ready: dict[str, Any]) -> None:
    name = ready["name"]
    print(f"cluster {name} is up: {len(ready['nodes'])} nodes in {ready['seconds']:.2f} s")
    width = max((len(node) for node in ready["nodes"]), default=0)
    for node, about in ready["nodes"].items():
        print(f"  {node:{width}}  {about['kind']:9}  {about['address']}")
    for what, path in _files(Path(ready["directory"])):
        print(f"{what}: {path}")
    first = next(iter(ready["nodes"]), "NODE")
    conf = ready.get("ceph_conf")
    if conf is not None:
        print(f"ceph: configuration {conf}, keyring {Path(conf).parent / 'keyring'}")
        print(f"      ceph -c {conf} -s")
    print(f"next: msgrlab status {name}")
    print(f"      msgrlab exec --name {name} {first} -- CMD")
    print(f"      msgrlab fault --name {name} kill {first}")
    print(f"      msgrlab down {name}")
