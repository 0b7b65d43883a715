"""Trims a recording to whole connections, and logs to the entries of the same time."""

import gzip
import re
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from captures.chamber import run
from toolkit.capture.formats import LinkType, PcapngWriter, open_capture
from toolkit.dissect.daemon_log import entries, entry_time_ns, parse_entry

_SILENCE_NS = 40_000_000
"""A capture ends at the first pause of this length: ten times the resolution of the clock that logs use."""

_OPENING = "tcp[tcpflags] & (tcp-syn | tcp-ack) == tcp-syn"
_SOURCE_PORT = re.compile(r"IP \S+\.(\d+) > ")
_LINK_ENTRY = re.compile(r"\S+(?: \S+)? +[0-9a-f]+ +-?\d+ --[12]- ")
"""Log entries of the protocols about their links: connecting, faults, resets."""


def whole_connections(raw: Path, capture: Path, notes: Iterable[str], ended_ns: int) -> int:
    """Copy the connections whose first packet was captured; return the Unix time at which the copy ends.

    Args:
        raw: file that tcpdump wrote.
        capture: the pcapng file to write, compressed by gzip.
        notes: comments at the beginning of the file.
        ended_ns: Unix time after which the copy may end.
    """
    opened = _SOURCE_PORT.findall(run("tcpdump", "-nn", "-r", str(raw), _OPENING))
    wanted = " or ".join(f"port {port}" for port in sorted(set(opened)))
    trimmed = raw.with_suffix(".trimmed")
    run("tcpdump", "-r", str(raw), "-w", str(trimmed), f"tcp and ({wanted})")
    with open_capture(trimmed) as reader:
        packets = [(time_ns, bytes(data)) for batch in reader for _, time_ns, _, data in batch.packets()]
    end_ns = end_of(packets, ended_ns)
    content = BytesIO()
    with PcapngWriter(content) as writer:
        for note in notes:
            writer.note(note)
        interface = writer.interface("lo", LinkType.ETHERNET)
        for time_ns, data in packets:
            if time_ns < end_ns:
                writer.packet(time_ns, data, interface)
    compress(content.getvalue(), capture)
    return end_ns


def end_of(packets: Iterable[tuple[int, bytes]], ended_ns: int) -> int:
    """Return the middle of the first pause after the workload, when no message is in flight."""
    last_ns = ended_ns
    for time_ns, _ in packets:
        if time_ns - last_ns > _SILENCE_NS:
            break
        last_ns = max(last_ns, time_ns)
    return last_ns + _SILENCE_NS // 2


def compress(data: bytes, path: Path) -> None:
    """Write a file with gzip; the same data make the same file."""
    path.write_bytes(gzip.compress(data, mtime=0))


def log_of(path: Path, began_ns: int, end_ns: int) -> tuple[str, bool]:
    """Return a log's entries about messages and links in that time, and True if one is about a message."""
    with path.open(errors="replace") as lines:
        kept = [entry for entry in entries(lines) if _belongs(entry, began_ns, end_ns)]
    return "".join(f"{entry}\n" for entry in kept), _any_message(kept)


def _belongs(entry: str, began_ns: int, end_ns: int) -> bool:
    time_ns = entry_time_ns(entry)
    if time_ns is None or not began_ns <= time_ns < end_ns:
        return False
    return parse_entry(entry) is not None or _LINK_ENTRY.match(entry) is not None


def _any_message(kept: Iterable[str]) -> bool:
    return any(parse_entry(entry) is not None for entry in kept)
