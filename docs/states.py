"""Draws docs/states.md, the handshakes' state diagrams, from their tables: ``python docs/states.py``."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from messenger.link import Row
from messenger.v1.acceptor import ACCEPTOR as V1_ACCEPTOR
from messenger.v1.connector import CONNECTOR as V1_CONNECTOR
from messenger.v1.link import OPENING as V1_OPENING
from messenger.v2.acceptor import ACCEPTOR as V2_ACCEPTOR
from messenger.v2.connector import CONNECTOR as V2_CONNECTOR
from messenger.v2.link import OPENING as V2_OPENING
from messenger.v2.states import LinkState as V2State

Step = tuple[StrEnum, str, StrEnum]
"""State, what arrives, next state."""

HEAD = """# States of a handshake

Drawn by `python docs/states.py` from the tables that the messenger runs on. Every state may also end in `CLOSED`,
by a fault; a frame without an arrow in a state is one.
"""


def steps(opening: tuple[Step, ...], table: Mapping[tuple[StrEnum, StrEnum], Row]) -> list[Step]:
    """Every step of a table whose states are reached from those of ``opening``."""
    rows = [(state, tag.name, target) for (state, tag), row in table.items() for target in row.leads_to]
    return [*opening, *rows]


def diagram(title: str, opening: tuple[Step, ...], table: Mapping[tuple[StrEnum, StrEnum], Row]) -> str:
    """A Mermaid diagram; frames that lead the same way share an arrow."""
    arrows: dict[tuple[StrEnum, StrEnum], list[str]] = {}
    for state, what, target in steps(opening, table):
        arrows.setdefault((state, target), []).append(what)
    lines = [f"    [*] --> {opening[0][0]}"]
    lines += [f"    {state} --> {target}: {', '.join(what)}" for (state, target), what in arrows.items()]
    ends = [tag.name for (_, tag), row in table.items() if not row.leads_to]
    note = (
        f"\nAlways a fault in the end: {', '.join(f'`{name}`' for name in dict.fromkeys(ends))}.\n" if ends else ""
    )
    return f"\n## {title}\n\n```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + f"\n```\n{note}"


def page() -> str:
    """The whole page."""
    connecting = tuple(step for step in V2_OPENING if step[0] is not V2State.BANNER_ACCEPTING)
    accepting = tuple(step for step in V2_OPENING if step[0] is V2State.BANNER_ACCEPTING)
    return (
        HEAD
        + diagram("msgr v2, the connector", connecting, V2_CONNECTOR)
        + diagram("msgr v2, the acceptor", accepting, V2_ACCEPTOR)
        + diagram("msgr v1, the connector", V1_OPENING[:2], V1_CONNECTOR)
        + diagram("msgr v1, the acceptor", V1_OPENING[2:], V1_ACCEPTOR)
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
