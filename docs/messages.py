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

Written by `python docs/messages.py`. This page lists the message types whose payload msgrlab decodes and
encodes, in the messenger and in captures. `version` is the header version that the messenger sends, `oldest` the
lowest version that it decodes.

| type | name | class | version | oldest | meaning |
|---|---|---|---|---|---|
"""
OTHERS = """
## Types that are not decoded

Ceph has numbers for these types, but no release from Nautilus to Tentacle sends or decodes such a message; their
payload is sent, received and shown as bytes: """
ROLE = re.compile(r":\w+:`[~.]*([^`]+)`")


def row(payload: type[Payload]) -> str:
    """A type's line of the table."""
    oldest = getattr(payload, "OLDEST", 0) or ""
    link = f"[`{payload.__name__}`](../{payload.__module__.replace('.', '/')}.py)"
    cells = [payload.TYPE, message_name(payload.TYPE), link, payload.VERSION, oldest, meaning(payload)]
    return f"| {' | '.join(map(str, cells))} |"


def meaning(payload: type[Payload]) -> str:
    """The first paragraph of a class's docstring, on one line."""
    first = " ".join((getdoc(payload) or "").split("\n\n")[0].split())
    return ROLE.sub(r"`\1`", first).replace("``", "`").replace("|", "\\|")


def page() -> str:
    """The whole page."""
    rows = [row(PAYLOADS[number]) for number in sorted(PAYLOADS)]
    others = [f"{number} `{message_name(number)}`" for number in sorted({*map(int, MessageType)} - {*PAYLOADS})]
    return linked(HEAD + "\n".join(rows) + "\n" + OTHERS + ", ".join(others) + ".\n")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
