"""The mutants that are listed, by area: drawn by rule, reviewed, and kept in ``listed/AREA.toml``."""

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path

from tests.mutations.drawing import candidates, rank
from tests.mutations.mutant import ROOT, Mutant, NotApplicable

FOLDER = Path(__file__).parent / "listed"
_PER_FUNCTION = 2
"""More mutants of one function say less than those of others."""
AREAS = {
    "session": ("session.*",),
    "core": ("*",),
    "shards": ("shards.*",),
    "v1": ("v1.*",),
    "v2": ("v2.*",),
    "cephx": ("cephx.*",),
    "encodings": ("denc.*", "messages.*"),
}
"""The modules of each area, below the package. What runs on sockets alone is left out: it has no other suite than
units and scenarios on real sockets."""
_LIVE = {"messenger", "options", "keylog"}
"""Modules outside packages that are the live face or tables of names."""


def listed(areas: Iterable[str] = AREAS) -> list[Mutant]:
    """The mutants of these areas, in the order in which they are listed."""
    return [mutant for area in areas for mutant in _read(area)]


def _read(area: str) -> Iterator[Mutant]:
    path = FOLDER / f"{area}.toml"
    if path.is_file():
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            yield Mutant(area, **row)


def write(area: str, mutants: Iterable[Mutant]) -> None:
    """List these mutants for an area."""
    rows = [f"# Drawn by `python -m tests.mutations {area} --draw COUNT`.\n"]
    for mutant in mutants:
        named = {field.name: getattr(mutant, field.name) for field in fields(mutant) if field.name != "area"}
        words = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in named.items() if value]
        rows.append("\n".join(["\n[[mutant]]", *words]) + "\n")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{area}.toml").write_text("".join(rows), encoding="utf-8")


def drawn(area: str, count: int) -> list[Mutant]:
    """The first mutants of an area in an order that means nothing: listed ones that apply first, then new ones."""
    kept = [mutant for mutant in listed([area]) if applies(mutant) is None]
    taken = {mutant.id for mutant in kept}
    found = sorted(
        (mutant for module in _modules(area) for mutant in candidates(area, module) if mutant.id not in taken),
        key=rank,
    )
    return [*kept, *islice(_spread(found, kept), max(0, count - len(kept)))]


def _spread(found: Iterable[Mutant], kept: Iterable[Mutant]) -> Iterator[Mutant]:
    """Those of functions that do not have their share yet."""
    counts: dict[str, int] = {}
    for mutant in kept:
        counts[mutant.where] = counts.get(mutant.where, 0) + 1
    for mutant in found:
        counts[mutant.where] = counts.get(mutant.where, 0) + 1
        if counts[mutant.where] <= _PER_FUNCTION:
            yield mutant


def _modules(area: str) -> Iterator[str]:
    package = ROOT / "messenger"
    for pattern in AREAS[area]:
        for path in sorted(package.glob(pattern.replace(".", "/") + ".py")):
            name = ".".join(path.relative_to(package).with_suffix("").parts)
            if path.name != "__init__.py" and name not in _LIVE:
                yield name


def applies(mutant: Mutant) -> str | None:
    """None if a mutant applies to the source as it is, else why not, in one line."""
    try:
        mutant.mutated()
    except NotApplicable as reason:
        return str(reason)
    return None
