"""Find the spec that a user means, a file or a ready-made one, and apply ``KEY=VALUE`` settings to it.

:func:`located` imports little, so that the command line can start a supervisor before it parses the spec.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError, check_kind
from messenger.files import read_text

if TYPE_CHECKING:
    from toolkit.cluster.spec import ClusterSpec

_READY_MADE = (Path(__file__).parent / "ready", Path(__file__).parents[2] / "clusters")
"""Directories of ready-made specs, as in :func:`toolkit.cluster.spec.ready_made`."""
_MOST_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"^name:[ \t]+([a-z][a-z0-9-]*)[ \t]*(?:#.*)?$", re.MULTILINE)


def spec_from(spec: "ClusterSpec | Path | str", settings: Sequence[str] = ()) -> "ClusterSpec":
    """Return a cluster's spec with settings applied.

    Args:
        spec: a spec, the path of its file, or the name of a ready-made one.
        settings: changes of the spec as ``KEY=VALUE``, for example ``speaks.mode=secure``.

    Raises:
        LocalError: there is no such spec, or a value is wrong.
    """
    from toolkit.cluster.spec.files import read_spec, read_values  # noqa: PLC0415 - pydantic takes its time

    if not isinstance(spec, Path | str):
        from toolkit.cluster.spec import ClusterSpec  # noqa: PLC0415 - as above

        check_kind("spec", spec, ClusterSpec, "a ClusterSpec, a path, or the name of a ready-made spec")
        return _changed(spec.as_json(), settings) if settings else spec
    found = read_spec(spec)
    if not settings:
        return found
    # apply settings to the file's values if they have the nodes: only the expanded spec has the nodes of a count
    values, whole = read_values(spec), found.as_json()
    written = all(_node_of(setting) in {"", *values["nodes"]} for setting in settings)
    return _changed(values if written else whole, settings)


def located(spec: str) -> tuple[Path, str]:
    """Return the file of a spec and the name of its cluster.

    Args:
        spec: path of the file, or name of a ready-made spec.

    Raises:
        LocalError: there is no such file, or it is not a valid spec.
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


def ready_names() -> list[str]:
    """Return the names of the ready-made specs."""
    return sorted({path.stem for directory in _READY_MADE for path in directory.glob("*.yaml")})


def values_of(settings: Sequence[str], what: str) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` settings; ``options.ms_max_backoff=2`` gives ``{"options": {"ms_max_backoff": 2}}``.

    Args:
        settings: the settings; values are YAML.
        what: what the settings are for, in errors.

    Raises:
        LocalError: a setting has no valid key or value.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        _put(values, setting, f"{what}: {setting}")
    return values


def _changed(values: dict[str, Any], settings: Sequence[str]) -> "ClusterSpec":
    from toolkit.cluster.spec.files import checked  # noqa: PLC0415 - as above

    for setting in settings:
        _set(values, setting)
    try:
        return checked(values)
    except LocalError as error:
        raise LocalError(f"--set {' '.join(settings)}: {error}") from None


def _node_of(setting: str) -> str:
    """Return the node whose field a setting changes; empty if it changes something else."""
    first, *path = setting.partition("=")[0].split(".")
    return path[0] if first == "nodes" and len(path) > 1 else ""


def _set(values: dict[str, Any], setting: str) -> None:
    node = _node_of(setting)
    if node and node not in values["nodes"]:
        raise LocalError(f"--set {setting}: no node {node!r}; there are {', '.join(values['nodes'])}")
    _put(values, setting, f"--set {setting}")


def _put(values: dict[str, Any], setting: str, where: str) -> None:
    from ruamel.yaml import YAML  # noqa: PLC0415 - as above
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    key, equals, text = setting.partition("=")
    *path, last = key.split(".")
    if not equals or not all((*path, last)):
        raise LocalError(f"{where}: give KEY=VALUE, as in speaks.mode=secure")
    place: Any = values
    for word in path:
        place = place.setdefault(word, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise LocalError(f"{where}: the spec has no field {key}")
    try:
        place[last] = YAML(typ="safe").load(text)
    except YAMLError:
        raise LocalError(f"{where}: {text} is not valid YAML") from None
