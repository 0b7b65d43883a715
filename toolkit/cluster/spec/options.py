"""Check names and values of options, for messengers of msgrlab and for Ceph daemons."""

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.errors import LocalError
from toolkit.cluster.spec.mistakes import Mistake, unknown

Value = bool | int | float | str
_OPTION = re.compile("[a-z][a-z0-9_]*")

_OF_EACH_DAEMON = frozenset(
    {"admin_socket", "cluster_addr", "log_file", "log_flush_on_exit", "pid_file", "public_addr"}
    | {f"{kind}_data" for kind in ("mon", "osd", "mgr", "mds")}
)
"""Options that the cluster sets in each daemon's own section, which overrides [global]."""


@cache
def _config_types() -> dict[str, Any]:
    return {option.name: option.type for option in fields(Config)}


def option_mistakes(options: Mapping[str, Value]) -> list[Mistake]:
    """Return what is wrong with the options of a messenger of msgrlab; each place is the option's name."""
    known = _config_types()
    found = []
    for name, value in options.items():
        if name not in known:
            found.append(Mistake((name,), unknown("option", name, list(known))))
        elif (wanted := _wanted(known[name], value)) is not None:
            found.append(Mistake((name,), f"give {wanted}, not {value!r}"))
        else:
            found += _value_mistakes(name, value)
    return found


def _value_mistakes(name: str, value: Value) -> list[Mistake]:
    try:
        Config.only_mode(ConMode.CRC, **{name: value})
    except (LocalError, ValueError, OverflowError) as error:
        return [Mistake((name,), str(error).removeprefix(f"{name} = {value!r}: "))]
    return []


def _wanted(kind: Any, value: Value) -> str | None:  # noqa: ANN401 - an annotation
    """Return what an option accepts, in words; None if it accepts the value."""
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    if kind is int:
        return None if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if kind is float:
        return None if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
    if choices := get_args(kind):
        return None if value in choices else f"one of {', '.join(map(str, choices))}"
    return None if isinstance(value, str) else "text"


def ceph_option_mistakes(options: Mapping[str, Value]) -> list[Mistake]:
    """Return the options that ceph.conf cannot hold. Whether a daemon has them depends on its release."""
    found = []
    for name, value in options.items():
        if not _OPTION.fullmatch(name):
            found.append(Mistake((name,), f"{name!r} is no option: give a-z 0-9 _, as in osd_pool_default_size"))
        elif isinstance(value, str) and not (value.isprintable() and value == value.strip()):
            found.append(Mistake((name,), f"ceph.conf cannot have {value!r}; give one line of text"))
    return found


def global_option_mistakes(options: Mapping[str, Value]) -> list[Mistake]:
    """Return the mistakes in options for [global], also those that would have no effect there."""
    found = ceph_option_mistakes(options)
    for name in options:
        if name in _OF_EACH_DAEMON:
            text = "the cluster sets it for each daemon; a node's own options may have it"
            found.append(Mistake((name,), text))
        elif name == "osd_objectstore":
            found.append(Mistake((name,), "give it as ceph.store"))
    return found
