"""The corpus: one text file per target, one input a line in base64, shortest first.

Thousands of files of a few bytes would weigh more in the tree than what is in them, and lines merge.
"""

import base64
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.target import Target

FOLDER = Path(__file__).parent / "corpus"
LIMIT_BYTES = 400 * 1024
"""Most that all files together may have."""
_TARGET_LIMIT_BYTES = 24 * 1024


def path_of(name: str) -> Path:
    """Return the directory of a target's inputs."""
    return FOLDER / f"{name}.txt"


def load(name: str) -> list[bytes]:
    """The stored inputs of a target."""
    path = path_of(name)
    if not path.exists():
        return []
    return [base64.b64decode(line, validate=True) for line in path.read_text("ascii").splitlines()]


def save(name: str, inputs: Iterable[bytes]) -> None:
    """Store inputs as a target's corpus, as many as fit into its share."""
    size, lines = 0, []
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        line = base64.b64encode(data).decode("ascii") + "\n"
        size += len(line)
        if size > _TARGET_LIMIT_BYTES:
            break
        lines.append(line)
    FOLDER.mkdir(exist_ok=True)
    path_of(name).write_text("".join(lines), encoding="ascii")


def inputs(target: Target) -> list[bytes]:
    """Return the first inputs of a fuzzing run: a target's seeds as they are built today, and the stored ones."""
    return list(dict.fromkeys([*target.seeds(), *load(target.name)]))
