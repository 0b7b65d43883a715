"""The options of Ceph that embedded daemons know, and the form in which they keep and show values."""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.errors import LocalError

SPECIAL = frozenset(
    (
        "chdir",
        "client_use_faked_inos",
        "daemonize",
        "fsid",
        "fuse_debug",
        "host",
        "key",
        "keyfile",
        "keyring",
        "lockdep",
        "mds_data",
        "mempool_debug",
        "mgr_data",
        "mgr_initial_modules",
        "mon_cache_target_full_warn_ratio",
        "mon_data",
        "mon_host",
        "mon_host_override",
        "mon_initial_members",
        "mon_osd_backfillfull_ratio",
        "mon_osd_full_ratio",
        "mon_osd_initial_require_min_compat_client",
        "mon_osd_nearfull_ratio",
        "monmap",
        "no_config_file",
        "osd_data",
        "osd_journal",
        "rgw_data",
    )
)
"""Options that monitors do not keep: a program needs them before it has asked one, or a map has their values."""

_MODULE_OPTION = re.compile(r"mgr/[^/]+/.+")
"""An option of a module of the manager. Modules define their own; here there are none, so any is taken as text."""
THOUSANDS = {unit: 1000**power for power, unit in enumerate(["", "K", "M", "G", "T", "P", "E"])}
KIBI = {"": 1, "B": 1} | {
    f"{unit}{end}": 1024**power for power, unit in enumerate("KMGTPE", 1) for end in ("", "B", "i")
}
"""The units of numbers, and those of sizes in bytes."""
_NUMBER = re.compile(r"\+?([0-9]{1,19})([A-Za-z]*)")
_LEVEL = re.compile("([0-9]{1,2})(?:/([0-9]{1,2}))?")
"""How much of a part of Ceph is logged, and how much is kept in memory."""
_LARGEST = (1 << 63) - 1
_SPANS_S = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "wk", "week", "weeks"), 7 * 86400),
    **dict.fromkeys(("mo", "month", "months"), 30 * 86400),
    **dict.fromkeys(("y", "yr", "year", "years"), 365 * 86400),
}
_SPAN = re.compile(r"\s*([0-9]{1,12})\s*([a-z]*)")


@functools.cache
def known_options() -> Mapping[str, str]:
    """Return the types of all options, by name."""
    found, kind = dict[str, str](), ""
    for line in Path(__file__).with_name("options.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif not line.startswith("#"):
            found |= dict.fromkeys(line.split(), kind)
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Limits:
    """What an option permits beyond its type, and how it is described."""

    least: str = ""
    """Minimum in the form in which monitors keep values; empty: there is none."""
    most: str = ""
    """Maximum; empty: there is none."""
    permitted: tuple[str, ...] = ()
    """The only texts that are permitted; empty: all are."""
    level: str = "advanced"
    """``basic``, ``advanced`` or ``dev``."""
    at_runtime: bool = True
    """False if daemons read the option when they start, and not again."""

    def check(self, value: str, kind: str) -> None:
        """Check a value in the form in which monitors keep it.

        Args:
            value: the value.
            kind: type of the option.

        Raises:
            ValueError: the value is beyond a limit, or not permitted; the text is that of Ceph's monitors.
        """
        if self.permitted and value not in self.permitted:
            listed = ", ".join(filter(None, self.permitted))
            raise ValueError(f"'{value}' is not one of the permitted values: {listed}")
        number: Callable[[str], float] = float if kind == "float" else int
        if self.least and number(value) < number(self.least):
            raise ValueError(f"Value '{value}' is below minimum {self.least}")
        if self.most and number(value) > number(self.most):
            raise ValueError(f"Value '{value}' exceeds maximum {self.most}")


@functools.cache
def _limits() -> Mapping[str, Limits]:
    """Return what options permit, by name; those without limits, of level advanced, are missing."""
    found: dict[str, Limits] = {}
    section = ""
    for line in Path(__file__).with_name("option_limits.txt").read_text(encoding="ascii").splitlines():
        words = line.split()
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith("#"):
            continue
        elif section == "limits":
            form = _float if known_options()[words[0]] == "float" else str
            least, most = ("" if word == "-" else form(word) for word in words[1:])
            found[words[0]] = replace(found.get(words[0], Limits()), least=least, most=most)
        elif section == "values":
            permitted = tuple(word.replace('""', "") for word in words[1:])
            found[words[0]] = replace(found.get(words[0], Limits()), permitted=permitted)
        else:
            for option in words:
                known = found.get(option, Limits())
                is_startup = section == "startup"
                found[option] = replace(known, at_runtime=False) if is_startup else replace(known, level=section)
    return found


def limits_of(option: str) -> Limits:
    """Return what an option permits beyond its type."""
    return _limits().get(option, Limits())


@functools.cache
def _defaults() -> Mapping[str, Mapping[str, str]]:
    """Return the values of options that are not set, if there are any, for clients and for daemons."""
    found: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("option_defaults.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            section = found[line.strip("[]")] = {}
        elif not line.startswith("#"):
            option, _, value = line.partition(" ")
            section[option] = value
    return {"clients": found["clients"], "daemons": found["clients"] | found["daemons"]}


def default(option: str, *, of_daemon: bool) -> str:
    """Return the value of an option that is not set."""
    return _defaults()["daemons" if of_daemon else "clients"].get(option, "")


def type_of(option: str) -> str | None:
    """Return the type of an option; None if there is no such option."""
    return "str" if _MODULE_OPTION.fullmatch(option) else known_options().get(option)


def canonical(option: str, value: str, otherwise: str = "str") -> str:
    """Return a value in the form in which monitors keep it: ``4294967296`` for ``4G`` if the option is a size.

    Args:
        option: name of the option.
        value: what a user gave.
        otherwise: the type if there is no such option.

    Raises:
        ValueError: the option's values have another form, or the value is beyond a limit of the option or not
            one of its permitted texts; the message says which.
    """
    kind = type_of(option) or otherwise
    if kind == "str" and option.startswith("debug_"):
        kind = "level"
    form, described = _FORMS.get(kind, (str, ""))
    try:
        kept = form(value)
    except (ValueError, LocalError):
        raise ValueError(f"'{value}' is no {kind}: {option} takes {described}") from None
    limits_of(option).check(kept, kind)
    return kept


def _boolean(value: str) -> str:
    if value.lower() in ("true", "false"):
        return value.lower()
    if not re.fullmatch("[+-]?[0-9]{1,19}", value):
        raise ValueError(value)
    return "true" if int(value) else "false"


def parse_count(value: str, units: Mapping[str, int]) -> int:
    """Parse a number, which may have one of these units; raises ValueError."""
    match = _NUMBER.fullmatch(value)
    if match is None or match[2] not in units or (number := int(match[1]) * units[match[2]]) > _LARGEST:
        raise ValueError(value)
    return number


def _count(value: str, units: Mapping[str, int]) -> str:
    return str(parse_count(value, units))


def _signed(value: str) -> str:
    sign = -1 if value.startswith("-") else 1
    return str(sign * parse_count(value.removeprefix("-"), THOUSANDS))


def _level(value: str) -> str:
    match = _LEVEL.fullmatch(value)
    if match is None:
        raise ValueError(value)
    return f"{match[1]}/{match[2] or match[1]}"


def _float(value: str) -> str:
    if "_" in value:  # Python's separator of digits
        raise ValueError(value)
    return f"{float(value):.6f}"


def parse_span(value: str) -> int:
    """Parse a time, as ``1h30m``, into seconds; raises ValueError."""
    parts = _SPAN.findall(value)
    if _SPAN.sub("", value).strip() or not all(unit in _SPANS_S for _, unit in parts):
        raise ValueError(value)
    return sum(int(number) * _SPANS_S[unit] for number, unit in parts)


_UNITS = "also with K, M, G, T, P or E for thousands, millions and so on"
_FORMS: dict[str, tuple[Callable[[str], str], str]] = {
    "bool": (_boolean, "true or false"),
    "int": (_signed, f"a whole number, {_UNITS}"),
    "uint": (lambda value: _count(value, THOUSANDS), f"a number that is not negative, {_UNITS}"),
    "millisecs": (lambda value: _count(value, {"": 1}), "a number of milliseconds"),
    "size": (lambda value: _count(value, KIBI), "a number of bytes, or one with K, M, G, T, P or E"),
    "float": (_float, "a number"),
    "level": (_level, "N or N/M, from 0 to 99"),
    "secs": (lambda value: str(parse_span(value)), "a number of seconds, or times with units, as 1h30m"),
    "uuid": (lambda value: str(UUID(value)), "a UUID"),
    "addr": (lambda value: str(AddrVec.parse(value)), "an address, as v2:10.1.2.3:3300"),
    "addrvec": (lambda value: str(AddrVec.parse(value)), "addresses, as [v2:10.1.2.3:3300,v1:10.1.2.3:6789]"),
}
"""What returns the kept form of a value of each type, and what such values are."""
