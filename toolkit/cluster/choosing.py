"""Which spec is meant: a file's, a ready-made one's, with some values changed.

What finds the file and its cluster's name costs next to nothing, so that a supervisor can be started early.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from messenger.files import read_text

if TYPE_CHECKING:
    from toolkit.cluster.spec import ClusterSpec

_READY_MADE = (Path(__file__).parent / "ready", Path(__file__).parents[2] / "clusters")
"""As :func:`toolkit.cluster.spec.ready_made` has them."""
_MOST_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"^name:[ \t]+([a-z][a-z0-9-]*)[ \t]*(?:#.*)?$", re.MULTILINE)


def spec_from(spec: "ClusterSpec | Path | str", settings: Sequence[str] = ()) -> "ClusterSpec":
    """A cluster's spec.

    Args:
        spec: one, its file, or the name of a ready-made one.
        settings: ``KEY=VALUE``, changes of it: ``speaks.mode=secure``.

    Raises:
        LocalError: there is no such spec, or something in it is wrong.
    """
    from toolkit.cluster.spec import read_spec  # noqa: PLC0415 - pydantic takes its time

    found = read_spec(spec) if isinstance(spec, Path | str) else spec
    return _changed(found, settings) if settings else found


def located(spec: str) -> tuple[Path, str]:
    """The file of a spec and the name of its cluster; ``spec`` is its path or the name of a ready-made one.

    Raises:
        LocalError: there is no such file, or it is no spec.
    """
    path = Path(spec)
    if path.name == spec and not path.suffix:
        ready = [directory / f"{spec}.yaml" for directory in _READY_MADE]
        path = next((each for each in ready if each.is_file()), path)
    try:
        names = _PLAIN_NAME.findall(read_text(path, _MOST_BYTES, "cluster spec"))
    except LocalError:
        names = []
    return path, names[0] if len(names) == 1 else spec_from(spec).name


def _changed(spec: "ClusterSpec", settings: Sequence[str]) -> "ClusterSpec":
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    from toolkit.cluster.spec.wording import mistakes_of  # noqa: PLC0415

    values = spec.as_json()
    for setting in settings:
        _set(values, setting)
    try:
        return type(spec).model_validate(values)
    except ValidationError as error:
        mistake = next(mistakes_of(error))
        place = ".".join(str(part) for part in mistake.place)
        raise LocalError(f"--set {' '.join(settings)}: {place}: {mistake.text}") from None


def _set(values: dict[str, Any], setting: str) -> None:
    from ruamel.yaml import YAML  # noqa: PLC0415 - as above
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    key, equals, text = setting.partition("=")
    *path, last = key.split(".")
    if not equals or not all((*path, last)):
        raise LocalError(f"--set {setting}: give KEY=VALUE, as in speaks.mode=secure")
    place: Any = values
    for word in path:
        place = place.setdefault(word, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise LocalError(f"--set {setting}: there is no place {key} in the spec")
    try:
        place[last] = YAML(typ="safe").load(text)
    except YAMLError:
        raise LocalError(f"--set {setting}: {text} is no value in YAML") from None
