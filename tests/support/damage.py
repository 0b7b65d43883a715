"""Captures of real daemons after damage that a network or a capturing host may do to their packets.

None of the captures in ``captures/`` has a violation. One that appears after packets were lost, cut off, repeated
or reordered is therefore a false verdict. ``python -m tests.support.damage --count N --seed S`` looks for them.
"""

import argparse
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

from toolkit.capture.formats import open_capture
from toolkit.dissect.capture import Capture

FOLDER = Path(__file__).parents[2] / "captures"
NAMES = sorted(keyring.parent.name for keyring in FOLDER.glob("*/keyring"))
"""The captures of daemons, by folder."""
_NANO = 1_000_000_000
_MAGIC_NS = 0xA1B23C4D
_LARGEST_PACKET = 1 << 18
_QUEUED_NS = 10_000_000
"""Packets farther apart in time do not overtake each other: no queue holds one for so long."""


class Packet(NamedTuple):
    """A packet of a capture file."""

    time_ns: int
    link_type: int
    data: bytes
    size_bytes: int
    """Its length on the wire, of which ``data`` may be the first part."""


Packets = list[Packet]


@cache
def packets_of(name: str) -> tuple[Packet, ...]:
    """Return the packets of one of ``captures/``."""
    with open_capture(FOLDER / name / "capture.pcapng.gz") as reader:
        return tuple(
            Packet(time_ns, link_type, bytes(data), len(data))
            for batch in reader
            for _, time_ns, link_type, data in batch.packets()
        )


def _beginning(packets: Packets, rng: Random) -> Packets:
    return packets[rng.randrange(len(packets)) :]


def _end(packets: Packets, rng: Random) -> Packets:
    return packets[: rng.randrange(1, len(packets) + 1)]


def _dropped(packets: Packets, rng: Random) -> Packets:
    share = rng.choice((0.002, 0.02, 0.2))
    return [packet for packet in packets if rng.random() >= share]


def _duplicated(packets: Packets, rng: Random) -> Packets:
    """Repeat packets at once or a little later, as a capture on several interfaces has them."""
    out = list(packets)
    for _ in range(rng.randrange(1, 40)):
        at = rng.randrange(len(out))
        out.insert(min(len(out), at + rng.choice((1, 1, 2, 5, 30))), out[at])
    return _in_time(out, packets)


def _reordered(packets: Packets, rng: Random) -> Packets:
    """Move packets by a few places, within and across directions, but not across pauses of the traffic."""
    reach = rng.choice((1, 3, 10))
    pauses = [later.time_ns - earlier.time_ns > _QUEUED_NS for earlier, later in pairwise(packets)]
    bursts = list(accumulate(pauses, initial=0))
    places = sorted(range(len(packets)), key=lambda place: (bursts[place], place + rng.random() * reach))
    return _in_time([packets[place] for place in places], packets)


def _flipped(packets: Packets, rng: Random) -> Packets:
    """Flip bits, but not in banners, which no crc protects."""
    out = list(packets)
    for _ in range(rng.randrange(1, 12)):
        at = rng.randrange(len(out))
        if b"ceph v" in out[at].data:
            continue
        raw = bytearray(out[at].data)
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        out[at] = out[at]._replace(data=bytes(raw))
    return out


def _snapped(packets: Packets, rng: Random) -> Packets:
    snap_bytes = rng.choice((60, 96, 128, 256, 1000))
    return [packet._replace(data=packet.data[:snap_bytes]) for packet in packets]


def _burst(packets: Packets, rng: Random) -> Packets:
    """Drop consecutive packets, as a capturing host does whose buffer is full."""
    out = list(packets)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out))
        del out[at : at + rng.choice((3, 20, 100))]
        if not out:
            return list(packets[:1])
    return out


def _mixed(packets: Packets, rng: Random) -> Packets:
    """Do two or three kinds of damage, one after the other."""
    others = [kind for name, kind in KINDS.items() if name != "mixed"]
    for damage in rng.sample(others, rng.choice((2, 3))):
        packets = damage(packets, rng)
    return packets


def _in_time(packets: Packets, as_before: Packets) -> Packets:
    """Give packets ascending times, those of the capture as it was."""
    times = [packet.time_ns for packet in as_before]
    return [packet._replace(time_ns=times[min(place, len(times) - 1)]) for place, packet in enumerate(packets)]


KINDS: Mapping[str, Callable[[Packets, Random], Packets]] = {
    "beginning": _beginning,
    "end": _end,
    "dropped": _dropped,
    "duplicated": _duplicated,
    "reordered": _reordered,
    "flipped": _flipped,
    "snapped": _snapped,
    "burst": _burst,
    "mixed": _mixed,
}
"""What may happen to the packets of a capture: the beginning or the end is missing, and so on."""
FILE = "file"
"""Kind of damage to the bytes of the file: headers of packets may be wrong, too."""
_FLIPS = frozenset({"flipped", "mixed", FILE})


def _spoilt(raw: bytes, rng: Random) -> bytes:
    """Flip bits behind the header of the file, except in banners, or cut the file off."""
    out = bytearray(raw)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(24, len(out))
        if b"ceph v" not in out[max(at - 32, 0) : at + 32]:
            out[at] ^= 1 << rng.randrange(8)
    return bytes(out[: rng.randrange(24, len(out))] if rng.random() < 0.3 else out)


def damaged(name: str, kind: str, seed: int) -> bytes:
    """Return one of ``captures/`` after damage of a kind, as a pcap file. The same seed does the same damage."""
    rng = Random(f"{name} {kind} {seed}")
    packets = list(packets_of(name)) if kind == FILE else KINDS[kind](list(packets_of(name)), rng)
    link_type = packets[0].link_type if packets else 1
    out = [struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _LARGEST_PACKET, link_type)]
    for packet in packets:
        seconds, rest_ns = divmod(packet.time_ns, _NANO)
        out.append(struct.pack("<IIII", seconds, rest_ns, len(packet.data), packet.size_bytes))
        out.append(packet.data)
    raw = b"".join(out)
    return _spoilt(raw, rng) if kind == FILE else raw


def false_verdicts(folder: Path, name: str, kind: str, seed: int) -> list[str]:
    """Return the violations that the invariants and the wire rules find in a damaged capture."""
    path = folder / "damaged.pcap"
    path.write_bytes(damaged(name, kind, seed))
    capture = Capture(path, [FOLDER / name / "keyring"])
    return [f"{result.id}: {each.text}" for result in capture.check() for each in result.violations]


def cases(count: int, seed: int) -> Iterator[tuple[str, str, int]]:
    """Yield name, kind and seed of as many damaged captures.

    Bits of v1 are not flipped: no crc protects its handshake and its keepalives.
    """
    rng = Random(seed)
    for number in range(count):
        kind = [*KINDS, FILE][number % (len(KINDS) + 1)]
        names = [name for name in NAMES if kind not in _FLIPS or not name.endswith("-v1")]
        yield rng.choice(names), kind, rng.randrange(1 << 32)


def main() -> int:
    """Print the false verdicts on damaged captures; 1 if there are any."""
    parser = argparse.ArgumentParser(description="Look for false verdicts on damaged captures.")
    parser.add_argument("--count", type=int, default=100, help="number of damaged captures")
    parser.add_argument("--seed", type=int, default=1, help="seed that chooses them")
    options = parser.parse_args()
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, seed in cases(options.count, options.seed):
            for verdict in false_verdicts(Path(folder), name, kind, seed):
                found += 1
                print(f"{name} {kind} {seed}: {verdict}", flush=True)  # noqa: T201
    print(f"{found} false verdicts in {options.count} damaged captures")  # noqa: T201
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
