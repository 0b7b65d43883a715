"""The state of a cluster as HTML for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_GREEN, _AMBER, _RED, _BLUE, _GREY = (
    "background:#dff4e7;color:#14653a",
    "background:#fff3d6;color:#7c5200",
    "background:#fde7e5;color:#a5231c",
    "background:#e5ecf7;color:#33507f",
    "background:#e9ebef;color:#4c5565",
)
_COLOURS = {
    "up": _GREEN,
    "READY": _GREEN,
    "hurt": _RED,
    "dead": _RED,
    "lost": _RED,
    "down": _RED,
    "frozen": _BLUE,
    "STANDBY": _BLUE,
    "starting": _AMBER,
    "CONNECTING": _AMBER,
    "WAIT": _AMBER,
}
"""Colours by state of a cluster, node or session; text and background are set, so that dark themes work."""
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
_SHOWN_VIOLATIONS = 5
_SESSION_NUMBERS = ("connect_seq", "in_seq", "out_seq", "queued", "sent")
_NODE_TITLES = ("node", "is", "state", "address", "session with", "", *_SESSION_NUMBERS)
_NOWHERE = "0.0.0.0:0/"
"""Prefix of the address of a node that does not listen."""


def html_of(about: dict[str, Any]) -> str:
    """Render ``Cluster.status()``: nodes, faults and verdicts of the invariants."""
    since = f"ready in {about['ready_s']:.2f} s, up for {about['up_s']:.1f} s"
    where = f"<b>{escape(about['name'])}</b> on {escape(about['backend'])}"
    nodes = about["nodes"].items()
    parts = [
        f"<p style='margin:0 0 6px'>{where} {_chip(about['state'])} {since}</p>",
        _table(_NODE_TITLES, _node_rows(about["nodes"])),
        *(
            _line(f"last words of {name}", [node["last_words"]], _GREY)
            for name, node in nodes
            if node["last_words"]
        ),
        _line("lost", lost_words(about), _RED),
        _line("virtual machines", guest_words(about), _GREY),
        _line("links", [f"{one['from']} → {one['to']}: {link_words(one)}" for one in about["links"]], _AMBER),
        _line("faults in force", about["faults"], _RED),
        _line("proxies", [one.replace(" ", " → ") for one in about["proxies"]], _GREY),
        _line("history", full_words(about), _AMBER),
        _line("captures", [f"{node}: {path}" for node, path in about["captures"].items()], _GREY),
        _nemesis(about["nemesis"]),
        _checks(about["checks"]),
        _events(about["events"]),
    ]
    return "<div>" + "".join(parts) + "</div>"


def _node_rows(nodes: dict[str, dict[str, Any]]) -> Iterable[Sequence[str]]:
    """Yield a row per session; the first row of a node also describes the node."""
    for name, node in nodes.items():
        kind = node["kind"] if node["kind"] != "messenger" else node.get("entity", "messenger")
        listens = node["address"] and not node["address"].startswith(_NOWHERE)
        address = f"<code>{escape(node['address'])}</code>" if listens else "<i>does not listen</i>"
        head = [f"<b>{escape(name)}</b>", escape(kind), _chip(node["state"]), address]
        sessions = node.get("sessions") or []
        if not sessions:
            yield [*head, *[""] * (len(_NODE_TITLES) - len(head))]
        for session in sessions:
            numbers = (session.get(number) for number in _SESSION_NUMBERS)
            cells = ["" if number is None else f"{number:,}" for number in numbers]
            yield [*head, escape(session["peer"]), _chip(session["state"]), *cells]
            head = [""] * len(head)


def link_words(link: dict[str, Any]) -> str:
    """Return the impairment of a link in a cluster's status, as text."""
    values = {key: value for key, value in link.items() if key not in {"from", "to", "blocked"}}
    words = ["nothing passes"] if link.get("blocked") else []
    if values:
        from toolkit.network.state import LinkState  # noqa: PLC0415 - the half of what status costs, for few links

        words.append(str(LinkState(**values)))
    return "; ".join(words)


def lost_words(about: dict[str, Any]) -> list[str]:
    """Return a line for each machine that does not answer, with the nodes on it."""
    return [f"{machine} does not answer: {', '.join(names)}" for machine, names in about["lost"].items()]


def guest_words(about: dict[str, Any]) -> list[str]:
    """Return a line for each virtual machine on a network of the cluster."""
    return [f"{name}: {guest['address']} on {guest['network']}" for name, guest in about["guests"].items()]


def full_words(about: dict[str, Any]) -> list[str]:
    """Return remarks on a history that is long or has ended; none for others."""
    words = []
    if about["judged_until_s"] is not None:
        places = f"{about['on_disk']:,} on disk, {about['in_memory']:,} in memory"
        words.append(f"judged up to {about['judged_until_s']:.1f} s, {about['records']:,} records, {places}")
    if why := about["not_judged_why"]:
        words.append(f"not judged since {about['judged_until_s'] or 0:.1f} s: {why}")
    if about["unwritten_s"] is not None:
        words.append(f"not on disk since {about['unwritten_s']:.1f} s: the file has its disk_bytes")
    if about["full_s"] is None:
        return words
    if why := about.get("full_why"):
        return [*words, f"{why}: nothing since {about['full_s']:.1f} s is recorded or judged"]
    return [*words, f"full with {about['records']:,} records: nothing since {about['full_s']:.1f} s is in it"]


def _nemesis(nemesis: dict[str, Any] | None) -> str:
    if nemesis is None:
        return ""
    seed = f", seed {nemesis['seed']}" if nemesis["seed"] is not None else ""
    words = [f"{len(nemesis['done'])} of {nemesis['steps']} steps{seed}"]
    if nemesis["next"]:
        words.append(f"next {nemesis['next'].strip()}")
    return _line("nemesis", words, _GREY) + _line("", nemesis["violations"] + nemesis["problems"], _RED)


def _checks(checks: dict[str, Any]) -> str:
    if not checks["judged"]:
        return _line("invariants", [checks["note"]], _GREY)
    failed = checks["failed"]
    parts = [_line("invariants", [f"{checks['passed']} hold"], _GREEN)]
    if skipped := checks["not_judged"]:
        parts.append(_line("", [f"{len(skipped)} not judged: {', '.join(skipped)}"], _GREY))
    for one in failed:
        texts = [f"{one['id']}: {text}" for text in one["violations"][:_SHOWN_VIOLATIONS]]
        parts.append(_line("does not hold", texts or [one["id"]], _RED))
    return "".join(parts)


def _events(events: Sequence[dict[str, Any]]) -> str:
    if not events:
        return ""
    rows = [(f"{one['time_s']:.3f} s", escape(one["node"]), escape(one["what"])) for one in events]
    return f"<details><summary>last events</summary>{_table(('time', 'node', 'what'), rows)}</details>"


def _line(title: str, words: Sequence[str], colours: str) -> str:
    """Return a title with labels; empty if there are no labels."""
    if not words:
        return ""
    chips = " ".join(_chip(word, colours) for word in words)
    return f"<div style='margin:4px 0'>{escape(title)} {chips}</div>"


def _chip(text: str, colours: str = "") -> str:
    style = f"{colours or _COLOURS.get(text, _GREY)};border-radius:4px;padding:1px 6px"
    return f"<span style='{style}'>{escape(text)}</span>"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th style='{_CELL}'>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
