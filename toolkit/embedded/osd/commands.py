"""Commands for an OSD: ``ceph tell osd.N``, ``ceph pg PGID query`` (docs/protocol.md §6.3)."""

import errno
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from messenger.messages.command import MCommand, MCommandReply
from messenger.messages.pg import PgId
from toolkit.embedded.osd.options import OptionError, OsdOptions
from toolkit.embedded.osd.requests import Requests
from toolkit.embedded.release import VERSION_VALUE
from toolkit.embedded.usage import parse_pgid

_PGID = {"name": "pgid", "type": "CephPgid"}
_OPTIONAL = {**_PGID, "req": False}
_OF_GROUPS = {"name": "cmd", "type": "CephChoices", "strings": "query|list_unfound"}


@dataclass(frozen=True, slots=True)
class State:
    """What commands show of an OSD."""

    number: int
    fsid: UUID
    epoch: int
    """Epoch of its map."""
    serves: Callable[[PgId], bool]
    """Returns True if the OSD is the primary of a placement group."""
    requests: Requests
    options: OsdOptions


def answer(request: MCommand, state: State) -> tuple[MCommandReply, bytes]:
    """Return the reply to a command, and its output."""
    try:
        arguments: Any = json.loads("".join(request.cmd))
        prefix = arguments["prefix"]
    except (ValueError, TypeError, KeyError):
        return MCommandReply(-errno.EINVAL, "the command is not a JSON object with a prefix"), b""
    if prefix == "get_command_descriptions":
        return MCommandReply(0), json.dumps(_DESCRIPTIONS).encode()
    if prefix == "pg":
        prefix = arguments.get("cmd")
    handler = _HANDLERS.get(prefix) if isinstance(prefix, str) else None
    if handler is None:
        known = ", ".join(sorted(_HANDLERS))
        return MCommandReply(-errno.EINVAL, f"command not known: {prefix!r}; an embedded OSD has: {known}"), b""
    if prefix in ("query", "list_unfound") and _group_of(arguments, state) is None:
        return MCommandReply(-errno.ENOENT, f"this OSD does not have pgid {arguments.get('pgid')}"), b""
    try:
        value = handler(state, arguments)
    except OptionError as error:
        return MCommandReply(-error.errno, str(error)), b""
    if prefix == "injectargs":
        return MCommandReply(0, value), b"{}\n"
    return MCommandReply(0), b"" if value is None else json.dumps(value, indent=4).encode() + b"\n"


def _group_of(arguments: dict[str, Any], state: State) -> PgId | None:
    """Return the placement group that a command names, if this OSD has it."""
    pgid = parse_pgid(str(arguments.get("pgid")))
    return pgid if pgid is not None and state.serves(pgid) else None


def _version(_state: State, _arguments: dict[str, Any]) -> dict[str, str]:
    return VERSION_VALUE


def _status(state: State, _arguments: dict[str, Any]) -> dict[str, Any]:
    about = {"cluster_fsid": str(state.fsid), "whoami": state.number, "state": "active"}
    return about | {"oldest_map": 1, "newest_map": state.epoch, "num_pgs": len(state.requests.store.groups)}


def _query(state: State, arguments: dict[str, Any]) -> dict[str, Any]:
    pgid = _group_of(arguments, state)
    assert pgid is not None
    group, osds = state.requests.store.groups.get(pgid), [state.number]
    version = f"{state.epoch}'{group.version}" if group is not None else "0'0"
    size_bytes = sum(len(each.data) for each in group.objects.values()) if group is not None else 0
    counts = {"num_bytes": size_bytes, "num_objects": len(group.objects) if group is not None else 0}
    info: dict[str, Any] = {"pgid": str(pgid), "last_update": version, "last_complete": version}
    info |= {"stats": {"state": "active+clean", "stat_sum": counts, "up": osds, "acting": osds}}
    return {"state": "active+clean", "epoch": state.epoch, "up": osds, "acting": osds, "info": info}


def _list_unfound(_state: State, _arguments: dict[str, Any]) -> dict[str, Any]:
    return {"num_missing": 0, "num_unfound": 0, "objects": [], "state": "Active", "more": False}


def _dump_watchers(state: State, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "namespace": key.nspace,
            "object": key.oid,
            "entity_name": {"type": watcher.name.type.label, "num": watcher.name.num},
            "entity_addr": str(watcher.addr),
            "cookie": watcher.cookie,
            "timeout": watcher.timeout_s,
        }
        for (_, key), watcher in state.requests.watches.all()
    ]


def _ops(_state: State, _arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ops": [], "num_ops": 0}


def _blocked_ops(_state: State, _arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ops": [], "complaint_time": 30, "num_blocked_ops": 0}


def _nothing(_state: State, _arguments: dict[str, Any]) -> None:
    """Requests are done at once, statistics are reported by themselves, maps are pushed."""


def _no_devices(_state: State, _arguments: dict[str, Any]) -> list[Any]:
    return []


def _variable(arguments: dict[str, Any]) -> str:
    return str(arguments.get("var", "")).replace("-", "_")


def _config_get(state: State, arguments: dict[str, Any]) -> dict[str, str]:
    return {_variable(arguments): state.options.get(_variable(arguments))}


def _config_set(state: State, arguments: dict[str, Any]) -> dict[str, str]:
    return {"success": state.options.set(_variable(arguments), " ".join(_words(arguments.get("val"))))}


def _config_show(state: State, _arguments: dict[str, Any]) -> dict[str, str]:
    return {"name": f"osd.{state.number}", **state.options.all()}


def _injectargs(state: State, arguments: dict[str, Any]) -> str:
    return state.options.inject(_words(arguments.get("injected_args")))


def _words(given: object) -> list[str]:
    """Return an argument that may be a text or several."""
    return [str(word) for word in given] if isinstance(given, list) else [] if given is None else [str(given)]


_Handler = Callable[[State, dict[str, Any]], Any]
_HANDLERS: dict[str, _Handler] = {
    "version": _version,
    "status": _status,
    "query": _query,
    "list_unfound": _list_unfound,
    "dump_watchers": _dump_watchers,
    "dump_ops_in_flight": _ops,
    "dump_blocked_ops": _blocked_ops,
    "flush_pg_stats": _nothing,
    "get_latest_osdmap": _nothing,
    "list_devices": _no_devices,
    "config get": _config_get,
    "config set": _config_set,
    "config show": _config_show,
    "injectargs": _injectargs,
}
_VARIABLE = {"name": "var", "type": "CephString"}
_PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "query": [_OPTIONAL],
    "list_unfound": [_OPTIONAL],
    "config get": [_VARIABLE],
    "config set": [_VARIABLE, {"name": "val", "type": "CephString", "n": "N"}],
    "injectargs": [{"name": "injected_args", "type": "CephString", "n": "N"}],
}
_HELP = {
    "version": "print the version of this OSD",
    "status": "print a summary of this OSD",
    "query": "print the state of a placement group",
    "list_unfound": "list the missing objects of a placement group",
    "dump_watchers": "list the watches of all objects",
    "dump_ops_in_flight": "list the requests in work",
    "dump_blocked_ops": "list the requests that wait",
    "flush_pg_stats": "report the sums of placement groups now",
    "get_latest_osdmap": "fetch the newest OSD map",
    "list_devices": "list the disks: there are none",
    "config get": "print an option of the messenger",
    "config set": "set an option of the messenger",
    "config show": "print the options of the messenger",
    "injectargs": "set options of the messenger",
}


def _described() -> dict[str, Any]:
    signatures: dict[str, list[Any]] = {name: [*name.split(), *_PARAMETERS.get(name, [])] for name in _HANDLERS}
    signatures["pg"] = ["pg", _PGID, _OF_GROUPS]
    return {
        f"cmd{number:03}": {
            "sig": signature,
            "help": _HELP.get(name, "print the state of a placement group"),
            "module": "osd",
            "perm": "r",
            "flags": 0,
        }
        for number, (name, signature) in enumerate(sorted(signatures.items()))
    }


_DESCRIPTIONS = _described()
