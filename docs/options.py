"""Writes docs/options.md, a table of every option, from messenger/config.py, rules.py and options.py.

Run ``python docs/options.py`` after an option has changed.
"""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from docs.citations import linked
from messenger.config import Config

HEAD = """# Options

Written by `python docs/options.py`. This page lists the options of a messenger. Where Ceph has the option, name
and default are Ceph's. Times are in seconds and sizes in bytes. An option is an argument of `Config`, or a key
of `options` in a [cluster spec](clusters.md#nodes). `Endpoint.configure` changes those that may change while a
messenger runs. [disputes.md](disputes.md) explains the rules on which implementations disagree.
"""
TITLES = {
    "Config": "Links, modes, compression and limits",
    "RuleOptions": "Rules on which implementations disagree",
    "ServiceOptions": "Addresses, throttles, dispatching, keepalives and shutdown",
    "TransportOptions": "TCP and RDMA",
    "InjectionOptions": "Faults that a messenger injects into itself",
}
TABLE_HEAD = ("| option | default | meaning |", "|---|---|---|")
MASKS = frozenset({"features_supported"})
"""Options whose defaults are shown in hexadecimal."""


def documented(owner: type) -> Iterator[tuple[list[str], str]]:
    """Return the options that a class defines, grouped where they share the text below them."""
    tree = ast.parse(inspect.getsource(owner))
    assert isinstance(tree.body[0], ast.ClassDef)
    names: list[str] = []
    for statement in tree.body[0].body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.append(statement.target.id)
        elif names and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            text = " ".join(str(statement.value.value).replace("``", "`").split())
            yield names, text
            names = []


def shown(name: str, value: object) -> str:
    """Return a default value as a user would write it."""
    if name in MASKS:
        return f"{value:#x}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= 1 << 10 and value % (1 << 10) == 0:
        kib = value >> 10
        return f"{kib >> 10} MiB" if kib % (1 << 10) == 0 else f"{kib} KiB"
    return f"`{value}`" if value != "" else "(empty)"


def page() -> str:
    """Return the whole page."""
    defaults = {field.name: getattr(Config(), field.name) for field in fields(Config)}
    blocks = []
    for owner in Config.__mro__:
        if owner is object:
            continue
        rows = [
            f"| `{name}` | {shown(name, defaults[name])} | {text} |"
            for names, text in documented(owner)
            for name in names
        ]
        blocks.append(
            f"\n## {TITLES[owner.__name__]}\n\n| option | default | meaning |\n|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return linked(HEAD + "".join(blocks))


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
