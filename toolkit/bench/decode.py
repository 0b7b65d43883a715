"""Measures decoders of captures, each in its own process, on generated captures or on the user's."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.bench.captures import FULL_BYTES, KEY_LOG, RECIPES, write_capture
from toolkit.bench.decode_task import Cost, Decoder, Task
from toolkit.bench.tshark import installed
from toolkit.capture.formats import PcapngWriter
from toolkit.machine.interpreters import PYTHON, environment

_LONG_S = 5.0
"""A decoder that takes longer than this is run only once."""
_LEAST_S = 1e-3
_MEGA = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A file to decode, and its keys."""

    name: str
    path: Path
    has_v1: bool
    """True if the capture has msgr v1, which tshark can decode."""
    keyrings: Sequence[Path] = ()
    key_logs: Sequence[Path] = ()

    def task(self, decoder: Decoder) -> Task:
        """Return the task for the child process that runs ``decoder``."""
        return Task(
            decoder=decoder,
            capture=str(self.path),
            keyrings=list(map(str, self.keyrings)),
            key_logs=list(map(str, self.key_logs)),
        )

    def decoders(self) -> list[Decoder]:
        """Return the installed decoders that can decode this capture."""
        peers = [Decoder.FIELDS, Decoder.JSON] if self.has_v1 and installed() else []
        return [Decoder.COLUMNS, Decoder.RECORDS, Decoder.SCAPY, *peers]


@dataclass(slots=True, kw_only=True)
class DecodeResult:
    """The best of several runs of one decoder on one capture, or on its first messages.

    The time that the decoder takes to start is not included.
    """

    capture: str
    decoder: Decoder
    size_bytes: int
    messages: int
    seconds: float
    cpu_s: float
    """User and system time of all processes."""
    peak_rss_mib: float
    columns: "DecodeResult | None" = None
    """Result of the decoder ``columns`` on the same capture; None if this is that result."""

    @property
    def _part(self) -> float:
        """Fraction of the capture's messages that were decoded."""
        if self.decoder is not Decoder.SCAPY or self.columns is None or not self.columns.messages:
            return 1.0
        return self.messages / self.columns.messages

    @property
    def mb_per_s(self) -> float:
        """Megabytes of the capture per second of CPU time."""
        return self.size_bytes * self._part / _MEGA / self.cpu_s

    @property
    def messages_per_s(self) -> float:
        """Messages per second of CPU time."""
        return self.messages / self.cpu_s

    @property
    def ratio(self) -> float:
        """CPU time divided by that of the decoder ``columns`` for the same messages."""
        return self.cpu_s / self._part / (self.columns or self).cpu_s

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON contract."""
        return {
            "capture": self.capture,
            "decoder": self.decoder.value,
            "size_bytes": self.size_bytes,
            "messages": self.messages,
            "seconds": round(self.seconds, 4),
            "cpu_s": round(self.cpu_s, 4),
            "mb_per_s": round(self.mb_per_s, 1),
            "messages_per_s": round(self.messages_per_s, 1),
            "times_columns": round(self.ratio, 2),
            "peak_rss_mib": round(self.peak_rss_mib, 1),
        }


@contextmanager
def made_captures(size_bytes: int) -> Iterator[list[Capture]]:
    """Generate captures, most of them of about ``size_bytes``, and remove them when the block ends."""
    with TemporaryDirectory(prefix="msgrlab-bench-") as folder:
        key_log = Path(folder, "keys")
        key_log.write_text(KEY_LOG, encoding="ascii")
        captures = []
        for recipe in RECIPES:
            path = Path(folder, recipe.name.replace(" ", "-") + ".pcapng")
            write_capture(recipe, path, recipe.scaled(size_bytes / FULL_BYTES))
            has_v1 = recipe.protocol is Protocol.V1
            captures.append(Capture(name=recipe.name, path=path, has_v1=has_v1, key_logs=[key_log]))
        yield captures


def measure_decoders(
    captures: Sequence[Capture], runs: int, finished: Callable[[DecodeResult], None]
) -> list[DecodeResult]:
    """Run every decoder on every capture that it can decode.

    Args:
        captures: the captures to decode.
        runs: runs of each decoder; a decoder that takes longer than 5 s is run once.
        finished: called with each result as soon as it is complete.

    Raises:
        LocalError: a decoder failed; the text names it and the capture.
    """
    start = _tshark_start(runs) if any(Decoder.FIELDS in capture.decoders() for capture in captures) else None
    results = []
    for capture in captures:
        columns = None
        for decoder in capture.decoders():
            result = _measure(capture, decoder, runs, start)
            result.columns = columns
            columns = columns or result
            results.append(result)
            finished(result)
    return results


def _measure(capture: Capture, decoder: Decoder, runs: int, tshark_start: Cost | None) -> DecodeResult:
    costs = _costs(capture.task(decoder), runs)
    best = min(costs, key=lambda cost: cost.cpu_s)
    is_tshark = decoder in {Decoder.FIELDS, Decoder.JSON}
    start_s, start_cpu_s = (tshark_start.seconds, tshark_start.cpu_s) if is_tshark and tshark_start else (0.0, 0.0)
    return DecodeResult(
        capture=capture.name,
        decoder=decoder,
        size_bytes=capture.path.stat().st_size,
        messages=best.messages,
        seconds=max(min(cost.seconds for cost in costs) - start_s, _LEAST_S),
        cpu_s=max(best.cpu_s - start_cpu_s, _LEAST_S),
        peak_rss_mib=max(cost.peak_rss_mib for cost in costs),
    )


def _tshark_start(runs: int) -> Cost:
    """Return the cost of tshark on a capture without packets, which is that of its start."""
    with TemporaryDirectory(prefix="msgrlab-bench-") as folder:
        path = Path(folder, "empty.pcapng")
        PcapngWriter(path).close()
        return min(_costs(Task(decoder=Decoder.FIELDS, capture=str(path)), runs), key=lambda cost: cost.cpu_s)


def _costs(task: Task, runs: int) -> list[Cost]:
    costs = [_run(task)]
    while costs[-1].seconds < _LONG_S and len(costs) < runs:
        costs.append(_run(task))
    return costs


def _run(task: Task) -> Cost:
    command = (*PYTHON, "-m", "toolkit.bench.decode_task", task.as_json())
    process = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if process.returncode:
        last_words = process.stderr.strip().rpartition("\n")[2]
        raise LocalError(f"{task.decoder} on {task.capture}: {last_words or f'exit code {process.returncode}'}")
    return Cost(**json.loads(process.stdout))
