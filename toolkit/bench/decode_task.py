"""Child process of the decoder benchmark: decodes one capture once and prints the cost as a line of JSON.

It is a separate process, so that its peak memory is that of this decoder alone. The time to start and to import
libraries is not counted; :mod:`toolkit.bench.decode` subtracts the start-up time of tshark.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any, Protocol

from toolkit.bench.memory import peak_rss_mib
from toolkit.bench.tshark import MESSAGE_TAG, count_in_fields, fields_command, json_rows

SCAPY_MESSAGES = 2000
"""Number of messages decoded into Scapy layers: more would take minutes, with the same rate."""


class Decoder(StrEnum):
    """The decoders that are compared."""

    COLUMNS = "columns"
    """msgrlab, into an Arrow table."""
    RECORDS = "records"
    """msgrlab, into one object per frame."""
    SCAPY = "scapy"
    """msgrlab, into Scapy layers; only the first messages."""
    FIELDS = "tshark fields"
    """``tshark -T fields``, into a file."""
    JSON = "tshark json"
    """``tshark -T json``, loaded into a pandas table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The decoder and the capture of a child process."""

    decoder: Decoder
    capture: str
    keyrings: Sequence[str] = ()
    key_logs: Sequence[str] = ()

    def as_json(self) -> str:
        """Return the command-line argument that :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """Return the task in a command-line argument."""
        values = json.loads(text)
        return cls(**{**values, "decoder": Decoder(values["decoder"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one run."""

    messages: int
    """Number of messages found."""
    seconds: float
    cpu_s: float
    """User and system time, including tshark's."""
    peak_rss_mib: float
    """Peak memory; of the larger process, if tshark ran as well."""


class _Runner(Protocol):
    """Runs one decoder on one capture."""

    def run(self) -> None:
        """Decode the capture once (the timed part of the benchmark)."""

    def messages(self) -> int:
        """Return the number of messages found."""


def _keys(task: Task) -> Any:  # noqa: ANN401 - a KeyBook
    from toolkit.dissect.keys import KeyBook  # noqa: PLC0415 - tshark needs none

    return KeyBook.read(list(map(Path, task.keyrings)), list(map(Path, task.key_logs)))


class _Columns:
    def __init__(self, task: Task) -> None:
        from toolkit.dissect.columns import frame_table  # noqa: PLC0415 - slow to import

        self._decode = partial(frame_table, Path(task.capture), _keys(task))

    def run(self) -> None:
        self._table = self._decode()

    def messages(self) -> int:
        return len(self._table) - int(self._table["type"].null_count)


class _Records:
    def __init__(self, task: Task) -> None:
        from toolkit.dissect.decode import decode_capture  # noqa: PLC0415 - slow to import

        self._decode = partial(decode_capture, Path(task.capture), _keys(task))

    def run(self) -> None:
        self._messages = sum(frame.message is not None for frame in self._decode())

    def messages(self) -> int:
        return self._messages


class _Scapy:
    def __init__(self, task: Task) -> None:
        from toolkit.dissect.decode import CaptureDecoder  # noqa: PLC0415 - slow to import
        from toolkit.dissect.layers import packet_of  # noqa: PLC0415 - a second

        self._decoding = CaptureDecoder(Path(task.capture), _keys(task))
        self._packet_of = packet_of
        self._messages = 0

    def run(self) -> None:
        with self._decoding as frames:
            for frame in frames:
                self._packet_of(frame)
                self._messages += frame.message is not None
                if self._messages == SCAPY_MESSAGES:
                    break

    def messages(self) -> int:
        return self._messages


class _TsharkFields:
    def __init__(self, task: Task) -> None:
        self._command = fields_command(Path(task.capture))
        self._lines = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the process

    def run(self) -> None:
        subprocess.run(self._command, stdout=self._lines, stderr=subprocess.DEVNULL, check=True)

    def messages(self) -> int:
        self._lines.seek(0)
        return count_in_fields(self._lines)


class _TsharkJson:
    def __init__(self, task: Task) -> None:
        from pandas import DataFrame  # noqa: PLC0415 - slow to import

        self._frame = DataFrame
        self._capture = Path(task.capture)

    def run(self) -> None:
        self._table = self._frame(json_rows(self._capture))

    def messages(self) -> int:
        return int((self._table["tag"] == MESSAGE_TAG).sum()) if len(self._table) else 0


_RUNNERS: Mapping[Decoder, Callable[[Task], _Runner]] = {
    Decoder.COLUMNS: _Columns,
    Decoder.RECORDS: _Records,
    Decoder.SCAPY: _Scapy,
    Decoder.FIELDS: _TsharkFields,
    Decoder.JSON: _TsharkJson,
}


def main() -> None:
    """Run the task in the only command-line argument."""
    task = Task.from_json(sys.argv[1])
    runner = _RUNNERS[task.decoder](task)
    started_s, cpu_s = perf_counter(), _cpu_s()
    runner.run()
    seconds, cpu_s = perf_counter() - started_s, _cpu_s() - cpu_s
    cost = Cost(messages=runner.messages(), seconds=seconds, cpu_s=cpu_s, peak_rss_mib=_peak_rss_mib())
    print(json.dumps(asdict(cost)))


def _cpu_s() -> float:
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_rss_mib() -> float:
    return max(peak_rss_mib(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
