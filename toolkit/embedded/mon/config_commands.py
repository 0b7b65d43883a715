"""Commands about options that the monitor keeps: ``ceph config``. Clients receive theirs, daemons have others."""

import errno

from messenger.denc.entity import AuthName, EntityType
from toolkit.embedded.known_options import SPECIAL, canonical, default, known_options, limits_of, type_of
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, table
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.config_history import change_options
from toolkit.embedded.mon.store_commands import check_room

_OPTION = "name=who,type=CephString name=name,type=CephString"
_TYPES = ("mon", "mgr", "osd", "mds", "client")
"""The types of entities in the order of ``ceph config dump``."""
_HEADING = ["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]


def options_for(cluster: Cluster, name: AuthName) -> dict[str, str]:
    """Return the options of an entity: those of all, of its type and of itself; the most specific one wins."""
    return {option: value for option, (_, value) in _merged(cluster, str(name)).items()}


def _merged(cluster: Cluster, who: str) -> dict[str, tuple[str, str]]:
    """Return the section and the value of each option of an entity. Masks name daemons, never clients."""
    found: dict[str, tuple[str, str]] = {}
    for section in ("global", who.partition(".")[0], who):
        kept = cluster.options.items()
        found |= {option: (section, value) for (owner, option), value in kept if owner == section}
    return dict(sorted(found.items()))


_SECTIONS = {"global", *(each.label for each in EntityType)}


def _is_section(who: str) -> bool:
    kind, dot, _ = who.partition(".")
    return kind in _SECTIONS and not (kind == "global" and dot)


def _owner(arguments: Arguments) -> str:
    """Return the section that a command names, with its masks in Ceph's order: ``osd/host:a/class:ssd``.

    Raises:
        CommandError: EINVAL: it names no entity, type or mask.
    """
    who, masks = "global", dict[str, str]()
    for part in str(arguments["who"]).split("/"):
        place, colon, name = part.partition(":")
        if colon:
            masks["class" if place == "class" else "place"] = f"{place}:{name}"
        elif _is_section(part):
            who = part
        else:
            raise CommandError(errno.EINVAL, f"unrecognized config target '{arguments['who']}'")
    return "/".join([who, *(masks[kind] for kind in ("place", "class") if kind in masks)])


def _option(arguments: Arguments, parameter: str = "name") -> str:
    """Return the option that a command names, in any of the spellings that Ceph takes."""
    name = str(arguments[parameter])
    return name if "/" in name else name.replace(" ", "_").replace("-", "_")


def _check(option: str, value: str) -> str:
    """Return the value as it is kept; raises CommandError, EINVAL: it is not one for the option."""
    if type_of(option) is None:
        raise CommandError(errno.EINVAL, f"unrecognized config option '{option}'")
    try:
        value = canonical(option, value)
    except ValueError as error:
        raise CommandError(errno.EINVAL, f"error parsing value: {error}") from None
    _check_special(option)
    return value


def _check_special(option: str) -> None:
    if option in SPECIAL:
        raise CommandError(errno.EINVAL, f"{option} is special and cannot be stored by the mon")


def _level(option: str) -> str:
    return "unknown" if type_of(option) is None else limits_of(option).level


def _read_only(option: str) -> str:
    """Return the mark of an option that daemons read only when they start."""
    return "" if limits_of(option).at_runtime else "*"


def _place(owner: str) -> tuple[int, str, str]:
    """Return the place of a section in a list: all entities, then each type with its entities."""
    who, _, mask = owner.partition("/")
    kind = who.partition(".")[0]
    return _TYPES.index(kind) if kind in _TYPES else -1, who, mask


@COMMANDS.add("config dump", "print the options that the monitors keep")
def config_dump(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph config dump``."""
    rows, value = [_HEADING], []
    for owner, option in sorted(cluster.options, key=lambda each: (_place(each[0]), each[1])):
        setting, level = cluster.options[owner, option], _level(option)
        who, _, mask = owner.partition("/")
        indent = 0 if who == "global" else 2 + 2 * ("." in who)
        rows.append([" " * indent + who, mask, level, option, setting, _read_only(option)])
        about = {"section": who, "name": option, "value": setting, "level": level}
        value.append({**about, "can_update_at_runtime": limits_of(option).at_runtime, "mask": mask})
    return Answer(value, table(rows, left=6))


@COMMANDS.add(
    f"config set {_OPTION} name=value,type=CephString name=force,type=CephBool,req=false",
    "set an option for daemons or clients",
    writes=True,
)
def config_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config set WHO OPTION VALUE``; ``--force`` keeps what is no option or no value of it, too."""
    who, option, value = _owner(arguments), _option(arguments), str(arguments["value"])
    if str(arguments.get("force", "false")).lower() not in ("true", "1", "--force"):
        value = _check(option, value)
    check_room(cluster, who, option, value)
    change_options(cluster, {(who, option): value})
    return Answer()


@COMMANDS.add(f"config rm {_OPTION}", "remove an option of daemons or clients", writes=True)
def config_rm(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config rm WHO OPTION``."""
    change_options(cluster, {(_owner(arguments), _option(arguments)): None})
    return Answer()


@COMMANDS.add(
    "config get name=who,type=CephString name=key,type=CephString,req=false",
    "print the options of a daemon or client",
)
def config_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config get WHO [OPTION]``: all options that are set, or the value of one; ENOENT: there is none."""
    who = str(arguments["who"])
    if who == "global" or not _is_section(who):
        raise CommandError(errno.EINVAL, f"unrecognized entity '{who}'")
    found = _merged(cluster, who)
    if "key" not in arguments:
        rows, value = [_HEADING], dict[str, dict[str, object]]()
        for option, (section, setting) in found.items():
            rows.append([section, "", _level(option), option, setting, _read_only(option)])
            value[option] = {"value": setting, "section": section, "mask": {}}
            value[option] |= {"can_update_at_runtime": limits_of(option).at_runtime}
        return Answer(value, table(rows, left=6))
    option = _option(arguments, "key")
    if option not in known_options() and option not in found:
        raise CommandError(errno.ENOENT, f"unrecognized key '{option}'")
    if option == "fsid":
        return Answer(data=f"{cluster.maps.fsid}\n".encode())
    _check_special(option)
    setting = found[option][1] if option in found else default(option, of_daemon=not who.startswith("client"))
    return Answer(data=(setting + "\n").encode("utf-8", "surrogateescape"))


@COMMANDS.add("config ls", "print the names of all options")
def config_ls(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph config ls``."""
    names = list(known_options())
    return Answer(names, "\n".join(names))


@COMMANDS.add("config help name=key,type=CephString", "print type, default and limits of an option")
def config_help(_cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config help OPTION``: its type, default and limits; embedded monitors have no descriptions."""
    option = _option(arguments, "key")
    if (kind := type_of(option)) is None:
        raise CommandError(errno.ENOENT, f"unrecognized key '{option}'")
    is_special, limits = option in SPECIAL, limits_of(option)
    client, daemon = (default(option, of_daemon=of_daemon) for of_daemon in (False, True))
    lines = [f"{option} - an option of type {kind}" + ", which monitors do not keep" * is_special]
    lines.append(f"({kind}, {limits.level})")
    lines += (
        [f"Default: {client}"]
        if daemon == client
        else [f"Default (non-daemon): {client}", f"Default (daemon): {daemon}"]
    )
    lines += [f"Minimum: {limits.least}", f"Maximum: {limits.most}"] if limits.least or limits.most else []
    lines += [f"Possible values: {' '.join(limits.permitted)}"] if limits.permitted else []
    lines.append(f"Can update at runtime: {str(limits.at_runtime).lower()}")
    about = {"name": option, "type": kind, "level": limits.level}
    about |= {"default": client, "daemon_default": daemon if daemon != client else ""}
    about |= {"min": limits.least, "max": limits.most}
    values = {"enum_values": list(limits.permitted)} if limits.permitted else {}
    flags = {"can_update_at_runtime": limits.at_runtime, "flags": ["no_mon_update"] * is_special}
    return Answer({**about, **values, **flags}, "\n  ".join(lines))
