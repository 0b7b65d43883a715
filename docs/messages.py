"""Writes docs/messages.md, the table of message types, from messenger/messages.

Run ``python docs/messages.py`` after a payload has been added or changed.
"""

import re
from inspect import getdoc
from pathlib import Path

from docs.citations import linked
from messenger.messages.message import Payload
from messenger.messages.registry import PAYLOADS
from messenger.messages.types import MessageType, message_name

HEAD = """# Message types

Written by `python docs/messages.py`. These types are decoded and encoded, in the messenger as in captures:
`version` is the header version that is sent, `oldest` the lowest that is read.

| type | name | class | version | oldest | meaning |
|---|---|---|---|---|---|
"""
OTHERS = """
## As bytes

The payload of the other types stays bytes: """
ROLE = re.compile(r":\w+:`[~.]*([^`]+)`")


def row(payload: type[Payload]) -> str:
    """Return the line of a type in the table."""
    oldest = getattr(payload, "OLDEST", 0) or ""
    link = f"[`{payload.__name__}`](../{payload.__module__.replace('.', '/')}.py)"
    cells = [payload.TYPE, message_name(payload.TYPE), link, payload.VERSION, oldest, meaning(payload)]
    return f"| {' | '.join(map(str, cells))} |"


def meaning(payload: type[Payload]) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    first = " ".join((getdoc(payload) or "").split("\n\n")[0].split())
    return ROLE.sub(r"`\1`", first).replace("``", "`").replace("|", "\\|")


def page() -> str:
    """Return the whole page."""
    rows = [row(PAYLOADS[number]) for number in sorted(PAYLOADS)]
    others = [f"{number} `{message_name(number)}`" for number in sorted({*map(int, MessageType)} - {*PAYLOADS})]
    return linked(HEAD + "\n".join(rows) + "\n" + OTHERS + ", ".join(others) + ".\n")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
