"""Draws docs/states.md and its pictures, the states of handshakes and sessions, from their tables.

``PYTHONPATH=. python docs/states.py``.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from docs.state_picture import Arrow, States
from messenger.link import Row
from messenger.session.states import TRANSITIONS, Change, SessionState
from messenger.v1.acceptor import ACCEPTOR as V1_ACCEPTOR
from messenger.v1.connector import CONNECTOR as V1_CONNECTOR
from messenger.v1.link import OPENING as V1_OPENING
from messenger.v2.acceptor import ACCEPTOR as V2_ACCEPTOR
from messenger.v2.connector import CONNECTOR as V2_CONNECTOR
from messenger.v2.link import OPENING as V2_OPENING
from messenger.v2.states import LinkState as V2State

Table = Mapping[tuple[StrEnum, StrEnum], Row]
Step = tuple[StrEnum, str, StrEnum]
"""State, event, next state."""

HEAD = """# States of handshakes and sessions

Drawn by `python docs/states.py` from the tables that the messenger executes.
[core.md](core.md#a-link-and-a-session) explains the states of a session. From every state there is also a
transition to `CLOSED`, which the pictures omit: a link is closed by a fault, and a session when it ends. On a
link, a frame without an arrow is a fault. A session refuses a change without an arrow.
"""


def _link(title: str, opening: tuple[Step, ...], table: Table) -> States:
    """Return the states of a handshake; frames with the same effect share an arrow."""
    rows = [(state, tag.name, target) for (state, tag), row in table.items() for target in row.leads_to]
    arrows: dict[tuple[str, str], list[str]] = {}
    for state, what, target in [*opening, *rows]:
        arrows.setdefault((str(state), str(target)), []).append(what)
    drawn = [Arrow(source, ", ".join(what), target) for (source, target), what in arrows.items()]
    return States(title, [("", str(opening[0][0]))], drawn)


def _session() -> States:
    starts = [
        ("the application connects", str(SessionState.CONNECTING)),
        ("the peer dials", str(SessionState.ESTABLISHING)),
    ]
    arrows = [
        Arrow(str(state), change.value, str(target))
        for (state, change), target in TRANSITIONS.items()
        if change is not Change.CLOSE
    ]
    return States("A session", starts, arrows)


_CONNECTING = tuple(step for step in V2_OPENING if step[0] is not V2State.BANNER_ACCEPTING)
_ACCEPTING = tuple(step for step in V2_OPENING if step[0] is V2State.BANNER_ACCEPTING)
_LINKS: dict[str, tuple[str, tuple[Step, ...], Table]] = {
    "v2-connector": ("msgr v2, the connector", _CONNECTING, V2_CONNECTOR),
    "v2-acceptor": ("msgr v2, the acceptor", _ACCEPTING, V2_ACCEPTOR),
    "v1-connector": ("msgr v1, the connector", V1_OPENING[:2], V1_CONNECTOR),
    "v1-acceptor": ("msgr v1, the acceptor", V1_OPENING[2:], V1_ACCEPTOR),
}


def _section(name: str, states: States, table: Table | None = None) -> str:
    """Return a picture, and its arrows as a table."""
    lines = [f"\n## {states.title}\n", f"![{states.title}](states/{name}.svg)\n"]
    lines += ["| state | event | next state |", "|---|---|---|"]
    lines += [f"| `{arrow.source}` | {arrow.words} | `{arrow.target}` |" for arrow in states.arrows]
    ends = dict.fromkeys(tag.name for (_, tag), row in (table or {}).items() if not row.leads_to)
    note = f"\nThese frames always end in a fault: {', '.join(f'`{name}`' for name in ends)}.\n" if ends else ""
    return "\n".join(lines) + f"\n{note}"


def files() -> dict[str, str]:
    """Return the page and its pictures, by their paths in docs/."""
    session = _session()
    pages, pictures = [HEAD, _section("session", session)], {"states/session.svg": session.svg()}
    for name, (title, opening, table) in _LINKS.items():
        states = _link(title, opening, table)
        pages.append(_section(name, states, table))
        pictures[f"states/{name}.svg"] = states.svg()
    return {"states.md": "".join(pages), **pictures}


if __name__ == "__main__":
    for name, content in files().items():
        file = Path(__file__).parent / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, encoding="utf-8")
