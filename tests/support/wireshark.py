"""Captures of conversations whose bytes are known, and what tshark with our dissector makes of them."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from toolkit.capture.formats import LinkType, PcapngWriter
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.wireshark.dissector import dissector
from toolkit.dissect.wireshark.packets import Conversation
from toolkit.lab.sim.sim_lab import SimLab

Chunk = tuple[Direction, bytes]

CLIENT = "10.0.0.1:40000"
SERVER = "10.0.0.2:6800"
START_NS = 1_700_000_000_000_000_000
PACKET_NS = 1_000_000
SIZES = (0, 1, 2000, 70_000)
"""Of the messages of a recording: with no data, with little, with more than a packet takes."""

_LUA_ERROR = "_ws.lua.error"


def record(way: str, *, sizes: Iterable[int] = SIZES, **options: object) -> tuple[list[Chunk], KeyBook]:
    """Return the bytes of two nodes on one link, and the keys to decrypt them."""
    lab = SimLab(way, 3)
    chunks: list[Chunk] = []
    lab.node("a", "osd.1", "lossless_peer", **options)
    lab.node("b", "osd.2", "lossless_peer", **options)
    lab.start("a", "b")
    lab.network.on_bytes = lambda _wire, direction, chunk: chunks.append((direction, bytes(chunk)))
    lab.connect("a", "b")
    for size in sizes:
        lab.send("a", "b", count=1, size_bytes=size)
        lab.send("b", "a", count=1, size_bytes=size)
    lab.settle()
    return chunks, lab.keys


def chop(chunks: Sequence[Chunk], seed: int, longest: int) -> list[Chunk]:
    """The same bytes in the same order, in pieces that care for nothing."""
    rng, pieces = Random(seed), []
    for direction, chunk in chunks:
        at = 0
        while at < len(chunk):
            size = rng.randrange(1, longest)
            pieces.append((direction, chunk[at : at + size]))
            at += size
    return pieces


def pack(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The same bytes with as many of one direction in a piece as come in a row."""
    packed: list[Chunk] = []
    for direction, chunk in chunks:
        if packed and packed[-1][0] is direction:
            packed[-1] = (direction, packed[-1][1] + chunk)
        else:
            packed.append((direction, chunk))
    return packed


def write_capture(
    path: Path, *links: Sequence[Chunk], server: str = SERVER, client: str = CLIENT, opening: bool = True
) -> Path:
    """A capture of links that are there one after the other, each from its own port."""
    host, _, port = client.rpartition(":")
    time_ns = START_NS
    with PcapngWriter(path) as writer:
        writer.interface("test", LinkType.RAW)
        for number, chunks in enumerate(links):
            conversation = Conversation(f"{host}:{int(port) + number}", server, 1000, 2000)
            packets = conversation.open() if opening else []
            for direction, chunk in chunks:
                packets += conversation.data(direction, chunk)
            for packet in packets + conversation.close():
                writer.packet(time_ns, packet)
                time_ns += PACKET_NS
    return path


def tshark(path: Path, *arguments: str, ours: bool = True) -> str:
    """Return tshark's output for a capture; fails on any complaint about the script."""
    script = path.parent / "msgr2.lua"
    if ours and not script.exists():
        script.write_text(dissector(), encoding="utf-8")
    load = ["-X", f"lua_script:{script}"] if ours else []
    command = ["tshark", "-n", *load, "-r", str(path), *arguments]
    # without this user's plugins, which may have an installed dissector
    environment = {**os.environ, "HOME": str(path.parent)}
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment)
    assert "Lua" not in answer.stderr, answer.stderr
    assert "Lua Error" not in answer.stdout, answer.stdout
    return answer.stdout


def rows(path: Path, *fields: str, **options: Any) -> list[list[list[str]]]:
    """The values of some fields in each packet that has any of them, each field's in their order."""
    wanted = [word for field in (*fields, _LUA_ERROR) for word in ("-e", field)]
    text = tshark(path, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=;", *wanted, **options)
    table = [[cell.split(";") if cell else [] for cell in line.split("\t")] for line in text.splitlines()]
    errors = [row.pop() for row in table]
    assert not any(errors), errors
    return [row for row in table if any(row)]


def column(path: Path, field: str) -> list[str]:
    """Return all values of a field in the order of the capture."""
    return [value for row in rows(path, field) for value in row[0]]
