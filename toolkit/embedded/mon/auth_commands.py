"""Commands about entities and their keys."""

import errno
import time
from typing import Any

from messenger.cephx.key_server import Principal
from messenger.cephx.keyring import Keyring, KeyringEntry
from messenger.denc.entity import AuthName
from messenger.errors import LocalError
from toolkit.embedded.mon.answers import COMMANDS, INPUT, Answer, Arguments, CommandError
from toolkit.embedded.mon.capabilities import mistake
from toolkit.embedded.mon.cluster import Cluster

_CAPS = "name=caps,type=CephString,n=N,req=false"


def _named(arguments: Arguments) -> AuthName:
    try:
        return AuthName.parse(str(arguments["entity"]))
    except LocalError as error:
        raise CommandError(errno.EINVAL, f"bad entity name: {error}") from None


def _known(cluster: Cluster, arguments: Arguments) -> tuple[AuthName, Principal]:
    name = _named(arguments)
    principal = cluster.keys.principals.get(name)
    if principal is None:
        raise CommandError(errno.ENOENT, f"failed to find {name} in keyring")
    return name, principal


def _caps_in(arguments: Arguments) -> dict[str, str]:
    """Parse capabilities from the command line: service, text, service, text."""
    words = list(arguments.get("caps", ()))
    if len(words) % 2:
        raise CommandError(errno.EINVAL, "bad capabilities request; give SERVICE and CAPS, one after the other")
    caps = dict(zip(words[::2], words[1::2], strict=True))
    for service, text in caps.items():
        if wrong := mistake(service, text):
            raise CommandError(errno.EINVAL, wrong)
    return caps


def _value(name: AuthName, principal: Principal) -> dict[str, Any]:
    return {"entity": str(name), "key": principal.key.to_base64(), "caps": dict(sorted(principal.caps.items()))}


def _shown(name: AuthName, principal: Principal, status: str = "") -> Answer:
    text = KeyringEntry(principal.key, principal.caps).format(name)
    return Answer([_value(name, principal)], text, status)


@COMMANDS.add("auth ls", "print all entities with their keys and capabilities")
@COMMANDS.add("auth list", "list authentication state (deprecated)")
def auth_ls(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth ls``: all entities except the monitors."""
    listed = [(name, principal) for name, principal in sorted(cluster.keys.principals.items()) if name.id]
    lines = []
    for name, principal in listed:
        lines += [str(name), f"\tkey: {principal.key.to_base64()}"]
        lines += [f"\tcaps: [{service}] {text}" for service, text in sorted(principal.caps.items())]
    value = {"auth_dump": [_value(name, principal) for name, principal in listed]}
    in_json = str(arguments.get("format", "")).startswith("json")
    return Answer(value, "\n".join(lines) + "\n", "" if in_json else "installed auth entries:\n")


@COMMANDS.add("auth get name=entity,type=CephString", "print an entity as a keyring")
def auth_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth get ENTITY``."""
    name, principal = _known(cluster, arguments)
    return _shown(name, principal, f"exported keyring for {name}")


@COMMANDS.add(
    "auth export name=entity,type=CephString,req=false",
    "print one entity, or all, as a keyring",
)
def auth_export(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth export [ENTITY]``."""
    if "entity" not in arguments:
        listed = sorted((name, one) for name, one in cluster.keys.principals.items() if name.id)
        texts = [KeyringEntry(one.key, one.caps).format(name) for name, one in listed]
        return Answer(data="".join(texts).encode())
    name, principal = _known(cluster, arguments)
    return _shown(name, principal, f"export auth(key={principal.key.to_base64()})")


@COMMANDS.add("auth get-key name=entity,type=CephString", "print the key of an entity")
@COMMANDS.add("auth print_key name=entity,type=CephString", "print the key of an entity")
@COMMANDS.add("auth print-key name=entity,type=CephString", "print the key of an entity")
def auth_get_key(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth get-key ENTITY``."""
    _, principal = _known(cluster, arguments)
    key = principal.key.to_base64()
    in_json = str(arguments.get("format", "")).startswith("json")
    return Answer({"key": key}) if in_json else Answer(data=key.encode())  # scripts expect no newline


@COMMANDS.add(f"auth get-or-create name=entity,type=CephString {_CAPS}", "add auth info if needed", writes=True)
def auth_get_or_create(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth get-or-create ENTITY SERVICE CAPS...``."""
    name, caps = _named(arguments), _caps_in(arguments)
    principal = cluster.keys.principals.get(name)
    if principal is None:
        cluster.keys.add(name, caps, time.time())
        principal = cluster.keys.principals[name]
    elif caps and caps != dict(principal.caps):
        known = principal.caps
        differs = next(service for service in (*caps, *known) if caps.get(service) != known.get(service))
        raise CommandError(errno.EINVAL, f"key for {name} exists but cap {differs} does not match")
    value, text = [_value(name, principal)], f"[{name}]\n\tkey = {principal.key.to_base64()}\n"
    return Answer(value, text)


@COMMANDS.add(
    f"auth get-or-create-key name=entity,type=CephString {_CAPS}",
    "print the key of an entity, which is made if it does not exist",
    writes=True,
)
def auth_get_or_create_key(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth get-or-create-key ENTITY SERVICE CAPS...``."""
    auth_get_or_create(cluster, arguments)
    key = _known(cluster, arguments)[1].key.to_base64()
    return Answer({"key": key}, key)


@COMMANDS.add(f"auth add name=entity,type=CephString {_CAPS}", "make an entity with a new key", writes=True)
def auth_add(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth add ENTITY SERVICE CAPS...``."""
    name, caps = _named(arguments), _caps_in(arguments)
    known = cluster.keys.principals.get(name)
    if known is not None and caps != dict(known.caps):
        raise CommandError(errno.EINVAL, f"entity {name} exists but caps do not match")
    if known is None:
        cluster.keys.add(name, caps, time.time())
    return Answer(status=f"added key for {name}")


@COMMANDS.add(
    "auth caps name=entity,type=CephString name=caps,type=CephString,n=N",
    "replace the capabilities of an entity",
    writes=True,
)
def auth_caps(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth caps ENTITY SERVICE CAPS...``."""
    name, principal = _known(cluster, arguments)
    cluster.keys.principals[name] = Principal(principal.key, _caps_in(arguments), principal.pending_key)
    return Answer(status=f"updated caps for {name}")


@COMMANDS.add("auth rm name=entity,type=CephString", "remove an entity", writes=True)
@COMMANDS.add("auth del name=entity,type=CephString", "remove an entity", writes=True)
def auth_rm(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth rm ENTITY``."""
    name = _named(arguments)
    if cluster.keys.principals.pop(name, None) is None:
        return Answer(status=f"entity {name} does not exist")
    return Answer(status="updated")


@COMMANDS.add("auth import", "take the entities of the keyring in -i FILE", writes=True)
def auth_import(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph auth import -i FILE``: entities with their keys and capabilities; EINVAL: it is not a keyring."""
    text = arguments.get(INPUT, b"")
    if not text:
        raise CommandError(errno.EINVAL, "auth import: no data supplied")
    try:
        keyring = Keyring.parse(text.decode(errors="replace"), "the input")
    except LocalError as error:
        raise CommandError(errno.EINVAL, f"error decoding keyring: {error}") from None
    if not keyring.entries:
        raise CommandError(errno.EINVAL, "error decoding keyring: no entity")
    if not all(entry.caps for entry in keyring.entries.values()):
        raise CommandError(errno.EINVAL, "auth import: no caps supplied")
    for name, entry in keyring.entries.items():
        cluster.keys.principals[name] = Principal(entry.key, dict(entry.caps))
    return Answer()
