"""Commands about what the monitor keeps for others: options of clients, and keys with values."""

import errno

from messenger.denc.entity import AuthName, EntityType
from toolkit.embedded.mon.answers import COMMANDS, INPUT, Answer, Arguments, CommandError, table
from toolkit.embedded.mon.cluster import Cluster

_KEY = "name=key,type=CephString"
_OPTION = "name=who,type=CephString name=name,type=CephString"

_VALUE_BYTES = 1 << 16
"""Longest name or value, ``mon_config_key_max_entry_size``."""
_KEPT_BYTES = 64 << 20
"""Most bytes of all names and values together."""


def options_for(cluster: Cluster, name: AuthName) -> dict[str, str]:
    """Return the options of an entity: those of all, of its type and of itself; the most specific one wins."""
    return _merged(cluster, str(name))


def _merged(cluster: Cluster, who: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for section in ("global", who.partition(".")[0], who):
        found |= {option: value for (owner, option), value in cluster.options.items() if owner == section}
    return found


def _owner(arguments: Arguments) -> str:
    """Return the section that a command names; raises CommandError, EINVAL."""
    who = str(arguments["who"])
    if who != "global" and who.partition(".")[0] not in {each.label for each in EntityType}:
        raise CommandError(errno.EINVAL, f"unrecognized config target '{who}'")
    return who


def _option(arguments: Arguments, parameter: str = "name") -> str:
    """Return the option that a command names, in any of the spellings that Ceph takes."""
    return str(arguments[parameter]).replace(" ", "_").replace("-", "_")


def _check_room(cluster: Cluster, *texts: str) -> None:
    """Check that the monitor can keep a name and its value; raises CommandError: EFBIG, ENOSPC."""
    if any(len(text) > _VALUE_BYTES for text in texts):
        raise CommandError(errno.EFBIG, f"error: entry size limited to {_VALUE_BYTES} bytes")
    kept = [*cluster.keys_kept.items(), *((option, setting) for (_, option), setting in cluster.options.items())]
    if sum(len(name) + len(value) for name, value in kept) + sum(map(len, texts)) > _KEPT_BYTES:
        raise CommandError(errno.ENOSPC, f"this monitor keeps {_KEPT_BYTES} bytes at most")


@COMMANDS.add("config dump", "print the options that the monitors keep")
def config_dump(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph config dump``."""
    rows = [["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]]
    value = []
    for (who, option), setting in sorted(cluster.options.items()):
        rows.append([who, "", "advanced", option, setting, ""])
        about = {"section": who, "name": option, "value": setting, "level": "advanced"}
        value.append({**about, "can_update_at_runtime": True, "mask": ""})
    return Answer(value, table(rows, left=6))


@COMMANDS.add(
    f"config set {_OPTION} name=value,type=CephString name=force,type=CephBool,req=false",
    "set an option for daemons or clients",
    writes=True,
)
def config_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config set WHO OPTION VALUE``; clients receive it, embedded daemons have no such options."""
    who, option, value = _owner(arguments), _option(arguments), str(arguments["value"])
    _check_room(cluster, who, option, value)
    cluster.options[who, option] = value
    cluster.options_version += 1
    return Answer()


@COMMANDS.add(f"config rm {_OPTION}", "remove an option of daemons or clients", writes=True)
def config_rm(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config rm WHO OPTION``."""
    cluster.options.pop((_owner(arguments), _option(arguments)), None)
    cluster.options_version += 1
    return Answer()


@COMMANDS.add(
    "config get name=who,type=CephString name=key,type=CephString,req=false",
    "print the options of a daemon or client",
)
def config_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config get WHO [OPTION]``: options that are set; ENOENT: the option is not."""
    who = _owner(arguments)
    found = _merged(cluster, who)
    if "key" not in arguments:
        rows = [["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]]
        rows += [[who, "", "advanced", option, setting, ""] for option, setting in sorted(found.items())]
        return Answer(found, table(rows, left=6))
    if (option := _option(arguments, "key")) not in found:
        raise CommandError(errno.ENOENT, f"'{option}' is not set; embedded monitors know no defaults")
    return Answer(found[option], found[option])


@COMMANDS.add(f"config-key set {_KEY} name=val,type=CephString,req=false", "keep a value under a key", writes=True)
@COMMANDS.add(f"config-key put {_KEY} name=val,type=CephString,req=false", "keep a value under a key", writes=True)
def key_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config-key set KEY VALUE``, ``ceph config-key set KEY -i FILE``."""
    key, given = str(arguments["key"]), arguments.get(INPUT, b"").decode("utf-8", "surrogateescape")
    value = str(arguments["val"]) if "val" in arguments else given
    _check_room(cluster, key, value)
    cluster.keys_kept[key] = value
    return Answer(status=f"set {arguments['key']}")


@COMMANDS.add(f"config-key get {_KEY}", "print the value of a key")
def key_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config-key get KEY``."""
    if arguments["key"] not in cluster.keys_kept:
        raise CommandError(errno.ENOENT, "")
    return Answer(
        data=cluster.keys_kept[arguments["key"]].encode("utf-8", "surrogateescape"),
        status=f"obtained '{arguments['key']}'",
    )


@COMMANDS.add(f"config-key exists {_KEY}", "check if there is a value under a key")
def key_exists(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config-key exists KEY``."""
    if arguments["key"] not in cluster.keys_kept:
        raise CommandError(errno.ENOENT, f"key '{arguments['key']}' doesn't exist")
    return Answer(status=f"key '{arguments['key']}' exists")


@COMMANDS.add(f"config-key rm {_KEY}", "remove a key and its value", writes=True)
@COMMANDS.add(f"config-key del {_KEY}", "remove a key and its value", writes=True)
def key_rm(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config-key rm KEY``."""
    if cluster.keys_kept.pop(str(arguments["key"]), None) is None:
        return Answer(status=f"no such key '{arguments['key']}'")
    return Answer(status="key deleted")


@COMMANDS.add("config-key ls", "print the keys of all kept values")
@COMMANDS.add("config-key list", "print the keys of all kept values")
def key_ls(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph config-key ls``."""
    return Answer(sorted(cluster.keys_kept))


@COMMANDS.add(f"config-key dump {_KEY},req=false", "print all keys with their values")
def key_dump(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config-key dump [PREFIX]``."""
    prefix = str(arguments.get("key", ""))
    return Answer({key: value for key, value in sorted(cluster.keys_kept.items()) if key.startswith(prefix)})
