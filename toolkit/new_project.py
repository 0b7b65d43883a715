"""Creates a project for a user's tests from the template."""

import re
from pathlib import Path

from messenger.errors import LocalError

_HOMES = tuple(each / "templates" / "tests" for each in (Path(__file__).parent, Path(__file__).parents[1]))
"""Folder of the template in an installed wheel, and in a checkout."""
_HIDDEN = {"gitignore": ".gitignore", "workflow.yml": ".github/workflows/tests.yml"}
"""Files of the template whose names differ in a project."""
_PLACEHOLDER = "PROJECT"
_ENDINGS = (".py", ".md", ".toml", ".yml", "gitignore")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def create(directory: Path) -> list[Path]:
    """Create a project of tests in a directory; returns its files.

    Args:
        directory: created if it does not exist; it must be empty.

    Raises:
        LocalError: the directory is not empty, or cannot be written.
    """
    name = _NOT_IN_NAMES.sub("-", directory.resolve().name).strip("-") or "tests"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise LocalError(f"{directory}: something is in it already, and nothing is overwritten; name another")
        return [_write(directory / place, text.replace(_PLACEHOLDER, name)) for place, text in _template()]
    except OSError as error:
        raise LocalError(f"{directory}: {error.strerror}; name a directory that can be made") from None


def _template() -> list[tuple[str, str]]:
    """The files of the template: their paths in a project, and their texts."""
    home = next((each for each in _HOMES if each.is_dir()), None)
    if home is None:
        raise LocalError(f"{_HOMES[0]}: no template there; install msgrlab again")
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and path.name.endswith(_ENDINGS)]
    places = [path.relative_to(home).as_posix() for path in files]
    return [
        (_HIDDEN.get(place, place), path.read_text(encoding="utf-8"))
        for place, path in zip(places, files, strict=True)
    ]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
