"""Monitor commands: their signatures, their dispatch, and the format of their output."""

import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from messenger.denc.address import AddrVec
from messenger.link import Protocol
from toolkit.embedded.mon.cluster import Cluster

Arguments = Mapping[str, Any]


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
            return b"\n" + json.dumps(self.value, separators=(",", ":")).encode()
        return b"\n" + json.dumps(self.value, indent=4).encode() + b"\n"


class CommandError(Exception):
    """The monitor rejects a command. ``errno`` is the positive Linux error number."""

    def __init__(self, number: int, status: str) -> None:
        super().__init__(status)
        self.errno = number


Handler = Callable[[Cluster, Arguments], Answer]
"""Carries out a command; raises CommandError."""

_JSON = ("json", "json-pretty")


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

    def parameters(self) -> list[str]:
        """Return the names of the parameters."""
        return [_parameter(word)["name"] for word in self.signature.split() if "=" in word]

    def required(self) -> list[str]:
        """Return the names of the required parameters."""
        described = [_parameter(word) for word in self.signature.split() if "=" in word]
        return [each["name"] for each in described if each.get("req", True)]


def _parameter(word: str) -> dict[str, Any]:
    fields: dict[str, Any] = dict(part.partition("=")[::2] for part in word.split(","))
    if "req" in fields:
        fields["req"] = fields["req"] != "false"
    return fields


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
            CommandError: the command is unknown, lacks a parameter, or fails.
        """
        prefix = arguments.get("prefix")
        command = self.by_prefix.get(prefix) if isinstance(prefix, str) else None
        if command is None:
            raise CommandError(
                errno.EINVAL, f"command not known: {prefix!r}; an embedded monitor supports only some of them"
            )
        missing = [name for name in command.required() if name not in arguments]
        if missing:
            raise CommandError(errno.EINVAL, f"{prefix}: missing {', '.join(missing)}")
        return command.handler(cluster, arguments)

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
