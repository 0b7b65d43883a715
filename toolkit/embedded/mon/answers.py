"""Monitor commands: their signatures, their dispatch, and the format of their output."""

import errno
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from messenger.denc.address import AddrVec
from messenger.link import Protocol
from toolkit.embedded.mon.cluster import Cluster

Arguments = Mapping[str, Any]
INPUT = "<input>"
"""The argument with the bytes that were sent with a command; no parameter has such a name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a command: a value for JSON, readable text, or both; and a status line."""

    value: Any = None
    """Value for ``--format json``; None if there is only text."""
    text: str | None = None
    """Readable text; None to print the value as indented JSON."""
    status: str = ""
    data: bytes | None = None
    """Output that is the same in every format; None to use value and text."""

    def render(self, output_format: str) -> bytes:
        """Return the output in ``plain``, ``json`` or ``json-pretty``."""
        if self.data is not None:
            return self.data
        if self.value is None or (output_format not in _JSON and self.text is not None):
            return (self.text + "\n" * (not self.text.endswith("\n"))).encode() if self.text else b""
        if output_format == "json":
            return json.dumps(self.value, separators=(",", ":")).encode()
        return json.dumps(self.value, indent=4).encode() + b"\n"


class CommandError(Exception):
    """The monitor rejects a command. ``errno`` is the positive Linux error number."""

    def __init__(self, number: int, status: str, output: bytes = b"") -> None:
        super().__init__(status)
        self.errno = number
        self.output = output


Handler = Callable[[Cluster, Arguments], Answer]
"""Carries out a command; raises CommandError."""

_JSON = ("json", "json-pretty")
_UNSUPPORTED = ("xml", "xml-pretty", "html", "html-pretty", "table", "table-kv")
"""Ceph's other formats of output."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its words and parameters, as ``ceph`` parses them."""

    signature: str
    """Words, then parameters as ``name=pool,type=CephPoolname``."""
    help: str
    writes: bool
    handler: Handler

    @property
    def prefix(self) -> str:
        """The command's words, without parameters."""
        return " ".join(word for word in self.signature.split() if "=" not in word)

    def description(self) -> dict[str, Any]:
        """Return the entry for ``get_command_descriptions``."""
        return {
            "sig": [_parameter(word) if "=" in word else word for word in self.signature.split()],
            "help": self.help,
            "module": self.prefix.split()[0],
            "perm": "rw" if self.writes else "r",
            "flags": 0,
        }

    def check(self, arguments: Arguments) -> None:
        """Check that required parameters are present, and that values have the types of the signature.

        Raises:
            CommandError: EINVAL: one is missing, or has another type.
        """
        described = [_parameter(word) for word in self.signature.split() if "=" in word]
        missing = [each["name"] for each in described if each.get("req", True) and each["name"] not in arguments]
        if missing:
            raise CommandError(errno.EINVAL, f"{self.prefix}: missing {', '.join(missing)}")
        for each in described:
            name, kind, is_list = each["name"], each["type"], "n" in each
            if name not in arguments:
                continue
            value = arguments[name]
            values = value if is_list and isinstance(value, list) else [value]
            if is_list != isinstance(value, list) or not all(_fits(kind, one) for one in values):
                raise CommandError(errno.EINVAL, f"{self.prefix}: {name} is no {kind}{' list' * is_list}")


def _parameter(word: str) -> dict[str, Any]:
    fields: dict[str, Any] = dict(part.partition("=")[::2] for part in word.split(","))
    if "req" in fields:
        fields["req"] = fields["req"] != "false"
    return fields


def _fits(kind: str, value: object) -> bool:
    """True if a value can be a parameter of this type. Clients send numbers also as text."""
    if kind == "CephBool":
        return isinstance(value, bool | str)
    if kind == "CephOsdName" and isinstance(value, int):
        return True
    if kind in _NUMBERS and not isinstance(value, bool):
        return isinstance(value, str | int | float) and _NUMBERS[kind].fullmatch(str(value)) is not None
    return isinstance(value, str) and _is_encodable(value)


_NUMBERS = {"CephInt": re.compile("-?[0-9]{1,18}"), "CephFloat": re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")}
"""The numbers of each type: none that overflows, and no infinities."""


def _is_encodable(text: str) -> bool:
    """True if a text can be encoded for a map: JSON may contain halves of surrogate pairs."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


class Commands:
    """A table of commands; modules add theirs with :meth:`add`."""

    def __init__(self) -> None:
        self.by_prefix: dict[str, Command] = {}

    def add(self, signature: str, about: str, *, writes: bool = False) -> Callable[[Handler], Handler]:
        """Register a function as a command.

        Args:
            signature: see :class:`Command`.
            about: a line for ``ceph -h``.
            writes: True if the command changes the cluster.
        """

        def register(handler: Handler) -> Handler:
            command = Command(signature, about, writes, handler)
            self.by_prefix[command.prefix] = command
            return handler

        return register

    def run(self, cluster: Cluster, arguments: Arguments) -> Answer:
        """Run a command.

        Args:
            cluster: state of the cluster.
            arguments: the command's ``prefix`` and parameters, as JSON.

        Raises:
            CommandError: the command is unknown, a parameter is missing or has another type, or it fails;
                EOPNOTSUPP: its output is wanted as XML, or in another format that is not supported.
        """
        prefix = arguments.get("prefix")
        command = self.by_prefix.get(prefix) if isinstance(prefix, str) else None
        if command is None:
            raise CommandError(
                errno.EINVAL, f"command not known: {prefix!r}; an embedded monitor supports only some of them"
            )
        given = {name: value for name, value in arguments.items() if value is not None}
        command.check(given)
        if given.get("format") in _UNSUPPORTED:
            raise CommandError(errno.EOPNOTSUPP, f"an embedded cluster has no output in {given['format']}")
        return command.handler(cluster, given)

    def descriptions(self) -> dict[str, Any]:
        """Return the descriptions of all commands, which ``ceph`` requests first."""
        listed = sorted(self.by_prefix.values(), key=lambda command: command.signature)
        return {f"cmd{number:03}": command.description() for number, command in enumerate(listed)}


COMMANDS = Commands()
"""Every command of the embedded monitor."""


def addrs_value(addrs: AddrVec) -> dict[str, Any]:
    """Return addresses as JSON, as in ``ceph osd dump``."""
    listed = [
        {"type": Protocol.of(addr).value, "addr": f"{addr.host}:{addr.port}", "nonce": addr.nonce}
        for addr in addrs
    ]
    return {"addrvec": listed}


def legacy_text(addrs: AddrVec) -> str:
    """Return the address of clients older than Nautilus as text, as in ``ceph osd dump``."""
    addr = addrs.legacy_addr()
    return f"{addr.host}:{addr.port}/{addr.nonce}" if addrs else ":/0"


def size(size_bytes: int) -> str:
    """Format a size as Ceph prints it: ``1.5 MiB``."""
    value, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    digits = 0 if units[0] == "B" or value >= 100 else 1
    return f"{value:.{digits}f} {units[0]}"


def table(rows: list[list[str]], left: int = 1) -> str:
    """Format columns, two blanks apart; the first ``left`` columns are left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def age(since_s: float) -> str:
    """Format the time since a Unix time as ``ceph -s`` does: ``5m``."""
    age_s = max(0, int(time.time() - since_s))
    for unit, length_s in (("h", 3600), ("m", 60)):
        if age_s >= 2 * length_s:
            return f"{age_s // length_s}{unit}"
    return f"{age_s}s"
