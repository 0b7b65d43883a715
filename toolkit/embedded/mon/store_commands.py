"""Commands about values that the monitor keeps for others: ``ceph config-key``."""

import errno

from toolkit.embedded.mon.answers import COMMANDS, INPUT, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster

_KEY = "name=key,type=CephString"

_VALUE_BYTES = 1 << 16
"""Longest name or value, ``mon_config_key_max_entry_size``."""
_KEPT_BYTES = 64 << 20
"""Most bytes of all names and values together."""


def check_room(cluster: Cluster, *texts: str) -> None:
    """Check that the monitor can keep a name and its value; raises CommandError: EFBIG, ENOSPC."""
    if any(len(text) > _VALUE_BYTES for text in texts):
        raise CommandError(errno.EFBIG, f"error: entry size limited to {_VALUE_BYTES} bytes")
    kept = [*cluster.keys_kept.items(), *((option, setting) for (_, option), setting in cluster.options.items())]
    if sum(len(name) + len(value) for name, value in kept) + sum(map(len, texts)) > _KEPT_BYTES:
        raise CommandError(errno.ENOSPC, f"this monitor keeps {_KEPT_BYTES} bytes at most")


@COMMANDS.add(f"config-key set {_KEY} name=val,type=CephString,req=false", "keep a value under a key", writes=True)
@COMMANDS.add(f"config-key put {_KEY} name=val,type=CephString,req=false", "keep a value under a key", writes=True)
def key_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config-key set KEY VALUE``, ``ceph config-key set KEY -i FILE``."""
    key, given = str(arguments["key"]), arguments.get(INPUT, b"").decode("utf-8", "surrogateescape")
    value = str(arguments["val"]) if "val" in arguments else given
    check_room(cluster, key, value)
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
