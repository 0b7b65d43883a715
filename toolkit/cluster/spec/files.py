"""Find, read and validate specs in files; each mistake is reported with its line."""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from messenger.errors import LocalError
from messenger.files import read_text
from toolkit.cluster.spec.document import MAX_CHARS, BadDocument, Document, parse_document
from toolkit.cluster.spec.mistakes import Mistake
from toolkit.cluster.spec.model import ClusterSpec
from toolkit.cluster.spec.validation_errors import mistakes_of, shown

SUFFIX = ".yaml"
MAX_BYTES = 4 * MAX_CHARS
"""Most bytes of a spec's file: those of the longest text in UTF-8."""
_INSTALLED = Path(__file__).parents[1] / "ready"
"""Directory of the ready-made specs in an installed wheel."""
_CHECKED_OUT = Path(__file__).parents[3] / "clusters"
_MAX_LINES = 10
_EXAMPLE = "nodes: {a: {entity: osd.1}, b: {entity: osd.2}}"
_NOT_IN_NAMES = re.compile("[^a-z0-9-]+")


def ready_made() -> dict[str, Path]:
    """Return the files of the specs that come with msgrlab, by name."""
    directory = _INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT
    return {path.stem: path for path in sorted(directory.glob(f"*{SUFFIX}"))}


def read_spec(path: str | Path) -> ClusterSpec:
    """Read a cluster spec from a file.

    Args:
        path: the file, or the name of a ready-made spec, without directory and suffix.

    Raises:
        LocalError: there is no such file, or it has mistakes: a line each, as ``FILE:LINE: WHERE: WHAT``.
    """
    found = _find(str(path))
    return parse_spec(read_text(found, MAX_BYTES, "cluster spec"), str(found))


def read_values(path: str | Path) -> dict[str, Any]:
    """Return the raw values of a file that :func:`read_spec` accepts; ``name`` is set, ``count`` not expanded."""
    found = _find(str(path))
    values = dict(parse_document(read_text(found, MAX_BYTES, "cluster spec")).value)
    return values | {"name": values.get("name", _default_name(str(found)))}


def _find(text: str) -> Path:
    path = Path(text)
    if path.suffix or path.name != text or text in ("", "."):
        if not path.exists():
            raise LocalError(f"{text}: no such file{_hint(path.stem)}")
        return path
    ready = ready_made()
    if text in ready:
        return ready[text]
    if path.is_file():
        return path
    raise LocalError(f"no cluster {text!r}: neither a file nor a ready-made one{_hint(text)}")


def _hint(name: str) -> str:
    ready = ready_made()
    near = get_close_matches(name, ready, n=1)
    return f"; did you mean {near[0]}?" if near else f"; ready-made: {', '.join(ready)}"


def parse_spec(text: str, name: str) -> ClusterSpec:
    """Parse a cluster spec.

    Args:
        text: YAML.
        name: name of the file, for errors; its stem is the cluster's name unless the text has one.

    Raises:
        LocalError: the text has mistakes: a line each, ten at most, as ``NAME:LINE: WHERE: WHAT``.
    """
    try:
        document = parse_document(text)
    except BadDocument as error:
        raise LocalError(_line(name, error.line, error.text)) from None
    values = document.value
    if values is None:
        raise LocalError(_line(name, document.line_of(()), f"nothing in it; the smallest spec is {_EXAMPLE}"))
    if not isinstance(values, dict):
        what = f"a spec is a mapping, as in {_EXAMPLE}; this is {shown(values)}"
        raise LocalError(_line(name, document.line_of(()), what))
    return _validate(document, values | {"name": values.get("name", _default_name(name))}, name)


def checked(values: Mapping[str, Any]) -> ClusterSpec:
    """Validate JSON values, as :meth:`ClusterSpec.as_json` returns them.

    Raises:
        LocalError: the first mistake in them, as ``WHERE: WHAT``.
    """
    try:
        return ClusterSpec.model_validate(values)
    except ValidationError as error:
        raise LocalError(_described(next(mistakes_of(error)))) from None


def _default_name(file: str) -> str:
    return _NOT_IN_NAMES.sub("-", Path(file).stem.lower()).strip("-")


def _validate(document: Document, values: dict[str, Any], name: str) -> ClusterSpec:
    mistakes = list(document.mistakes)
    try:
        spec = ClusterSpec.model_validate_json(json.dumps(values), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        mistakes += mistakes_of(error)
    if mistakes:
        raise LocalError(_lines(document, mistakes, name))
    return spec


def _lines(document: Document, mistakes: Iterable[Mistake], name: str) -> str:
    placed = sorted(((document.line_of(mistake.place), mistake) for mistake in mistakes), key=lambda both: both[0])
    lines = [_line(name, line, _described(mistake)) for line, mistake in placed]
    if len(lines) > _MAX_LINES:
        hidden = len(lines) - _MAX_LINES + 1
        lines[_MAX_LINES - 1 :] = [_line(name, placed[_MAX_LINES - 1][0], f"from here on {hidden} more mistakes")]
    return "\n".join(lines)


def _described(mistake: Mistake) -> str:
    where = ".".join(str(part) for part in mistake.place)
    return f"{where}: {mistake.text}" if where else mistake.text


def _line(name: str, line: int, text: str) -> str:
    whole = f"{name}:{line}: {text}"
    return whole if whole.isprintable() else "".join(map(_printable, whole))


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
