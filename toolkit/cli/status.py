"""``msgrlab status``: the state of running clusters."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, ClusterPlace, one_name
from toolkit.cli.report_files import Html, Junit, ReportFiles
from toolkit.report.terminal import shown_line, shown_values

if TYPE_CHECKING:
    from rich.console import Console

CHECK_FAILED = 1
_SHOWN_VIOLATIONS = 3
_PIPED_WIDTH = 160
_FOLLOWED_S = 1.0
"""Seconds that a supervisor waits for new records before it answers with an empty list."""


def status(
    cluster: ClusterPlace = "",
    name: ClusterName = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Print events as they happen, until the cluster goes down (or Ctrl-C)."),
    ] = False,
    html: Html = None,
    junit: Junit = None,
) -> int:
    """Show the nodes, sessions, injected faults and invariants of a cluster, or of all clusters.

    Exit 1 if an invariant is violated.
    """
    from toolkit.machine.leases import Lease, clusters, damaged

    name = one_name(cluster, name)
    files = ReportFiles(html, junit)
    if follow:
        if files:
            raise LocalError("--follow excludes --html and --junit")
        return _follow(name, as_json=as_json)

    asked = [Lease.find(name)] if name else clusters()
    if files:
        from toolkit.cluster.report_page import cluster_report

        files.write([cluster_report(lease, files.folder) for lease in asked], "Clusters")
    found = [_status(lease) if name else _status_or_silence(lease) for lease in asked]
    found += [{"name": each.name, "state": "damaged", "about": str(each)} for each in damaged() if not name]
    if as_json:
        print(json.dumps({"clusters": found}, indent=2))
    elif not found:
        print("no cluster is up: msgrlab up two-peers")
    else:
        from rich.console import Console

        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = _PIPED_WIDTH
        for each in found:
            _show(console, shown_values(each))
    return CHECK_FAILED if any(each.get("checks", {}).get("failed") for each in found) else 0


def _follow(name: str, *, as_json: bool) -> int:
    """Print events as they happen, one line each; with ``as_json`` one JSON object each."""
    from toolkit.cluster.supervisor.client import NotKept, ask, chosen

    lease = chosen(name)
    after = -1
    while True:
        try:
            page = ask(lease, "history", after=after, wait_s=_FOLLOWED_S)
        except NotKept:
            return 0
        after = page["next"]
        for event in page["records"]:
            print(json.dumps(event) if as_json else shown_line(_line(event)), flush=True)


def _line(event: dict[str, Any]) -> str:
    return f"{event['time_s']:10.3f}  {event['node']:8}  {event['what']}"


def _status(lease: Any) -> dict[str, Any]:  # noqa: ANN401 - a Lease
    from toolkit.cluster.supervisor.client import NotKept, ask

    try:
        found: dict[str, Any] = ask(lease, "status")
    except NotKept as error:
        return {"name": lease.label.name, "state": "left behind", "about": str(error)}
    return found


def _status_or_silence(lease: Any) -> dict[str, Any]:  # noqa: ANN401 - a Lease
    """Return the status of one of several clusters; a cluster that does not answer is "silent", not an error."""
    try:
        return _status(lease)
    except LocalError as error:
        return {"name": lease.label.name, "state": "silent", "about": str(error)}


def _show(console: "Console", about: dict[str, Any]) -> None:
    if "nodes" not in about:
        console.print(f"{about['name']}: {about['state']}: {about['about']}", markup=False)
        return
    since = f"up for {about['up_s']:.0f} s, ready in {about['ready_s']:.2f} s"
    console.print(f"[bold]{about['name']}[/bold] on {about['backend']}: {about['state']}, {since}")
    _show_nodes(console, about["nodes"])
    from toolkit.cluster.status_html import full_words, guest_words, link_words, lost_words

    for words in lost_words(about):
        console.print(f"lost: {words}", markup=False, soft_wrap=True)
    for guest in guest_words(about):
        console.print(f"guest {guest}", markup=False)
    for link in about["links"]:
        console.print(f"link {link['from']} → {link['to']}: {link_words(link)}", markup=False)
    if nemesis := about["nemesis"]:
        seed = f", seed {nemesis['seed']}" if nemesis["seed"] is not None else ""
        coming = f", next {nemesis['next'].strip()}" if nemesis["next"] else ""
        console.print(f"nemesis: {len(nemesis['done'])} of {nemesis['steps']} steps{seed}{coming}", markup=False)
        for text in nemesis["violations"]:
            console.print(f"  {text}", markup=False)
    for fault in about["faults"]:
        console.print(f"fault: {fault}", markup=False)
    for node, path in about["captures"].items():
        console.print(f"capture of {node}: {path}", markup=False)
    for words in full_words(about):
        console.print(f"history: {words}", markup=False, soft_wrap=True)
    for event in about["events"]:
        console.print(_line(event), markup=False)
    _show_checks(console, about["checks"])


def _show_nodes(console: "Console", nodes: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("node", "kind", "state", "pid", "address", "faults", "sessions"):
        table.add_column(title, no_wrap=title != "sessions")
    for name, node in nodes.items():
        sessions = [
            f"{one['peer']} {one['state']} connect_seq={one['connect_seq']} in_seq={one['in_seq']}"
            for one in node.get("sessions", ())
        ]
        words = "\n".join(sessions) or node["last_words"]
        pid, faults = str(node["pid"] or ""), str(node["faults"] or "")
        cells = (name, node["kind"], node["state"], pid, node["address"], faults, words)
        table.add_row(*map(Text, cells))
    console.print(table)


def _show_checks(console: "Console", checks: dict[str, Any]) -> None:
    if not checks["judged"]:
        console.print(f"checks: {checks['note']}")
        return
    failed = checks["failed"]
    counts = {"failed": len(failed), "not checked": len(checks["not_judged"])}
    others = "".join(f", {count} {words}" for words, count in counts.items() if count)
    console.print(f"checks: {checks['passed']} passed{others}")
    for one in failed:
        console.print(f"  {one['id']} {one['name']}", markup=False)
        for text in one["violations"][:_SHOWN_VIOLATIONS]:
            console.print(f"    {text}", markup=False)
