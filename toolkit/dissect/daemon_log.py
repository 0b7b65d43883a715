"""Parses the messages that Ceph's daemons and clients log with ``debug ms = 1``, to verify captures.

Each message sent is logged in one line with ``-->`` when it is queued, each message received in one with ``<==``
when it is dispatched. Nautilus to Tentacle write these lines alike, except that Tentacle has no message versions
and Nautilus no time zone.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import amount, open_file
from messenger.messages.types import MessageType, message_name

_NANO = 1_000_000_000
_LONGEST_BYTES = 1 << 20
"""Limit of a line, and of an entry."""
_MOST_BYTES = 1 << 30

_LINE = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)\.(?P<fraction>\d{1,9})(?P<zone>[+-]\d{4})?"
    r" +(?P<thread>[0-9a-f]+) +-?\d+ (?P<rest>.*)",
    re.DOTALL,
)
_SENT = re.compile(
    r"-- (?P<own>\S*) --> (?P<peer>\S+) -- (?P<text>.*?)(?: v(?P<version>\d+))?"
    r" -- (?:0x[0-9a-f]+|0) con (?P<con>0x[0-9a-f]+)",
    re.DOTALL,
)
_RECEIVED = re.compile(
    r"-- (?P<own>\S*) <== (?P<entity>\S+) (?P<peer>\S+) (?P<seq>\d+) ==== (?P<text>.*?)(?: v(?P<version>\d+))?"
    r" ==== (?P<front>\d+)\+(?P<middle>\d+)\+(?P<data>\d+) \((?P<mode>\w+) \d+ \d+ \d+\)"
    r" (?:0x[0-9a-f]+|0) con (?P<con>0x[0-9a-f]+)",
    re.DOTALL,
)
_ADDRESS = re.compile(
    r"(?<![0-9.])(?P<rest>(?:[0-9.]{1,15}|\[[0-9a-fA-F:.]{2,45}\]):[0-9]{1,5}/[0-9]{1,10})(?![0-9])"
)
"""Every repetition is bounded, because the text between two marks of a line may be of any length."""
_SPACED_NAME = "osd pg remove"
_LOG_ACK = "log(last "
"""How daemons print a log_ack; it begins like a log."""
_NAME = re.compile(r"[\w.-]+")
_RENAMED = {"slave_request": message_name(MessageType.MDS_PEER_REQUEST)}
"""Names that newer releases have changed: those of Nautilus come first."""

Address = frozenset[str]
"""A messenger, by its addresses with their nonces (``127.0.0.1:6800/4711``), whatever protocol each is for. Two
sets with a common member mean the same messenger."""


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """One message, as one side logged it."""

    time_ns: int
    """Unix time. Daemons use a coarse clock with a resolution of some 4 ms."""
    sent: bool
    own: Address
    """Address of the messenger that logged it; empty if the messenger did not know its address yet."""
    peer: Address
    peer_entity: str
    """The sender of a received message, as in ``client.4112`` or ``client.?``; empty for sent ones."""
    con: str
    """The connection object, which may be reused for another connection."""
    name: str
    """Name of the type, as in :func:`messenger.messages.types.message_name`."""
    text: str
    """The message as printed."""
    version: int | None
    """None if the release does not print it."""
    seq: int | None = None
    """None for sent messages, which have no seq when they are queued."""
    lengths: tuple[int, int, int] | None = None
    """Lengths of front, middle and data; None for sent messages."""
    mode: str = ""
    """``crc``, ``secure``, or ``unknown`` (on msgr v1, or if the connection is closed already); empty for sent
    messages."""


def read_log(path: Path) -> list[LoggedMessage]:
    """Return the messages of a log, in its order; the file may be compressed by gzip.

    Raises:
        LocalError: the file cannot be read, is longer than 1 GiB unpacked, or a line is longer than 1 MiB.
    """
    with open_file(path) as file:
        try:
            unpacked = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else io.BufferedReader(file)
            return parse_log(_lines(path, unpacked))
        except (OSError, EOFError, zlib.error) as error:
            raise LocalError(f"{path}: {error}") from None


def _lines(path: Path, file: "gzip.GzipFile | io.BufferedReader[io.FileIO]") -> Iterator[str]:
    number, left_bytes = 0, _MOST_BYTES
    while line := file.readline(_LONGEST_BYTES + 1):
        number += 1
        left_bytes -= len(line)
        if len(line) > _LONGEST_BYTES:
            raise LocalError(f"{path}:{number}: more than {amount(_LONGEST_BYTES)}, the limit for a line of a log")
        if left_bytes < 0:
            raise LocalError(f"{path}:{number}: more than {amount(_MOST_BYTES)}, the limit for a log")
        yield line.decode("utf-8", "replace")


def parse_log(lines: Iterable[str]) -> list[LoggedMessage]:
    """Return the messages in the lines of a log, in their order. Other lines are skipped."""
    messages = [message for line in entries(lines) if (message := parse_entry(line)) is not None]
    return list(_with_own_addresses(messages))


def entries(lines: Iterable[str]) -> Iterator[str]:
    """Yield the entries of a log, without line ends: a line and the following ones that continue it.

    An entry of more than 1 MiB is truncated.
    """
    entry = ""
    for line in lines:
        if _LINE.match(line) is None and entry:
            if len(entry) < _LONGEST_BYTES:
                entry += line
            continue
        if entry:
            yield entry.rstrip("\n")
        entry = line
    if entry:
        yield entry.rstrip("\n")


def entry_time_ns(entry: str) -> int | None:
    """Return the Unix time of an entry, None if it has none. A time without a zone counts as UTC."""
    line = _LINE.match(entry)
    return None if line is None else _time_ns(line)


def parse_entry(entry: str) -> LoggedMessage | None:
    """Return the message of an entry; None if the entry is about something else."""
    line = _LINE.match(entry)
    if line is None:
        return None
    found = _SENT.match(line["rest"])
    if found is not None:
        return _logged(_time_ns(line), found, sent=True)
    found = _RECEIVED.match(line["rest"])
    if found is None:
        return None
    return replace(
        _logged(_time_ns(line), found, sent=False),
        peer_entity=found["entity"],
        seq=int(found["seq"]),
        lengths=(int(found["front"]), int(found["middle"]), int(found["data"])),
        mode=found["mode"],
    )


def addresses(text: str) -> Address:
    """Return the messenger of an address, or of an address list, as Ceph prints them."""
    return frozenset(found["rest"] for found in _ADDRESS.finditer(text))


def _logged(time_ns: int, found: re.Match[str], *, sent: bool) -> LoggedMessage:
    text = found["text"]
    return LoggedMessage(
        time_ns=time_ns,
        sent=sent,
        own=addresses(found["own"]),
        peer=addresses(found["peer"]),
        peer_entity="",
        con=found["con"],
        name=printed_name(text),
        text=text,
        version=int(found["version"]) if found["version"] else None,
    )


def printed_name(text: str) -> str:
    """Return the name at the beginning of a printed message: ``osd_op`` of ``osd_op(client.4113.0:1 …``."""
    if text.startswith(_SPACED_NAME):
        return _SPACED_NAME
    if text.startswith(_LOG_ACK):
        return message_name(MessageType.LOGACK)
    name = _NAME.match(text)
    return _RENAMED.get(name[0], name[0]) if name else text


def _time_ns(line: re.Match[str]) -> int:
    zone = line["zone"] or "+0000"
    moment = datetime.strptime(f"{line['date']} {line['time']} {zone}", "%Y-%m-%d %H:%M:%S %z").astimezone(UTC)
    return int(moment.timestamp()) * _NANO + int(line["fraction"].ljust(9, "0"))


def _with_own_addresses(messages: list[LoggedMessage]) -> Iterator[LoggedMessage]:
    """Fill in own addresses of messages that a client logged before it knew them.

    The next line of the same connection object with the same peer has them.
    """
    known: dict[tuple[str, Address], Address] = {}
    filled = []
    for message in reversed(messages):
        place = (message.con, message.peer)
        if message.own:
            known[place] = message.own
        elif place in known:
            message = replace(message, own=known[place])  # noqa: PLW2901 - the same line, completed
        filled.append(message)
    return reversed(filled)
