"""The arguments that name the captures a sub-command reads, and the TCP ports of the links it decodes."""

import sys
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from messenger.errors import LocalError

if TYPE_CHECKING:
    from toolkit.capture.formats.source import CaptureFiles

STDIN = Path("-")

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Capture in pcap or pcapng, also compressed by gzip, zstd or lz4; - for standard input. Several "
        "files, such as those of a ring buffer, are merged by time; a quoted pattern names all files that match.",
    ),
]
Ports = Annotated[
    str | None,
    typer.Option(
        "--ports",
        metavar="PORTS",
        help="Only TCP connections with one of these ports, as in 3300,6800-7568; UDP to them may be VXLAN.",
    ),
]


def capture_files(files: Sequence[Path]) -> "CaptureFiles":
    """Return the captures that the arguments name; patterns are expanded, duplicates removed.

    Raises:
        LocalError: standard input is a terminal, or one of several files; or a pattern matches no file.
    """
    if STDIN in files:
        if len(files) > 1:
            raise LocalError("- (standard input) cannot be combined with other files")
        return standard_input()
    found: list[Path] = []
    for file in files:
        pattern = has_magic(file.name) and not file.exists()
        matching = sorted(file.parent.glob(file.name)) if pattern else [file]
        if not matching:
            raise LocalError(f"{file}: no file matches")
        found += matching
    return list(dict.fromkeys(found))


def standard_input() -> BinaryIO:
    """Return standard input, to be read as a capture.

    Raises:
        LocalError: standard input is a terminal.
    """
    if sys.stdin.isatty():
        raise LocalError("standard input is a terminal; pipe a capture into it, or name a file instead of -")
    return sys.stdin.buffer


def tcp_ports(text: str | None) -> frozenset[int] | None:
    """Return the set of ports that text like ``3300,6800-7568`` names; None stands for every port.

    Raises:
        LocalError: the text names no ports.
    """
    from toolkit.capture.ports import parse_ports

    ranges = () if text is None else parse_ports(text)
    return frozenset(port for each in ranges for port in each) or None
