"""A capture for people: one object that decodes it, answers questions, and shows itself in a notebook."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Self

from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.result import CheckResult
from toolkit.dissect.analysis import Analysis
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.timeline import timeline
from toolkit.dissect.decode import CaptureDecoder
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.report.lanes import LaneChart
from toolkit.report.sequence import SequenceChart

if TYPE_CHECKING:
    from pandas import DataFrame

_NEEDS_ALL = "acknowledged"

PathLike = str | Path


class Capture:
    """A capture file and the keys to read it with. Nothing is read before somebody asks.

    Args:
        path: of the file: pcap or pcapng, compressed by gzip or not.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; those inside the capture are used in any case.
        ports: look at connections only that have one of these at either end; None: at all.
        limits: how much of it is analysed; :attr:`problem` says where that ends ahead of the capture.

    Raises:
        LocalError: a keyring or key log that is none.
    """

    def __init__(
        self,
        path: PathLike,
        keyrings: Sequence[PathLike] = (),
        key_logs: Sequence[PathLike] = (),
        *,
        ports: Collection[int] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.path = Path(path)
        self._limits = limits
        self._keyrings = [Path(keyring) for keyring in keyrings]
        self._key_logs = [Path(log) for log in key_logs]
        self._ports = ports
        self._book()

    @classmethod
    def folder(cls, path: PathLike) -> Self:
        """One of the folders in ``captures/``: its capture, with its keyring.

        Raises:
            LocalError: the keyring is none.
        """
        folder = Path(path)
        return cls(folder / "capture.pcapng.gz", [folder / "keyring"])

    def _book(self) -> KeyBook:
        return KeyBook.read(self._keyrings, self._key_logs)

    def __iter__(self) -> Iterator[DecodedFrame]:
        """Decode it; the frames in the order in which packets completed them.

        Raises:
            LocalError: the file cannot be read, or is no capture.
        """
        with CaptureDecoder(self.path, self._book(), ports=self._ports) as decoding:
            yield from decoding

    @cached_property
    def frames(self) -> list[DecodedFrame]:
        """All frames, with their contents; for captures that fit into memory."""
        return list(self)

    def table(self) -> "DataFrame":
        """A row for each frame, by the columnar decoder; for captures of any size.

        Its types are arrow's: what a frame has not is missing, and a tid of 64 bits is exact.
        """
        import pandas as pd  # noqa: PLC0415 - loaded when somebody asks, as is pyarrow

        from toolkit.dissect.columns import frame_table  # noqa: PLC0415

        frames: DataFrame = frame_table(self.path, self._book(), ports=self._ports).to_pandas(
            types_mapper=pd.ArrowDtype
        )
        return frames

    @cached_property
    def _read(self) -> tuple[Analysis, HistoryMaker, str | None]:
        analysis = Analysis(self._limits)
        maker = HistoryMaker(analysis, self._limits)
        with CaptureDecoder(self.path, self._book(), ports=self._ports) as decoding:
            for frame in decoding:
                analysis.take(frame)
                maker.take(frame)
            problems = [decoding.problem, analysis.left_out, maker.left_out]
            return analysis, maker, "; ".join(problem for problem in problems if problem) or None

    @property
    def analysis(self) -> Analysis:
        """Sessions over their links, what became of each message, times."""
        return self._read[0]

    @property
    def problem(self) -> str | None:
        """What could not be decoded, or was not analysed, in one line; None if everything was."""
        return self._read[2]

    def history(self, session: int | None = None) -> History:
        """The capture as a history, or one session of it.

        Raises:
            LocalError: there is no such session.
        """
        analysis, maker, _ = self._read
        if session is None:
            return maker.history()
        return maker.history(link.stream.index for link in analysis.session(session).links)

    def chart(self, session: int | None = None) -> SequenceChart:
        """The sequence chart of the capture, or of one session.

        Raises:
            LocalError: there is no such session.
        """
        return SequenceChart(self.history(session))

    @property
    def timeline(self) -> LaneChart:
        """When each link was open, and how much passed on it."""
        return timeline(self.analysis)

    def check(self) -> list[CheckResult]:
        """The invariants, as far as a capture can tell.

        If not everything was decoded, the messages that acknowledgements cover may be missing: those are not
        judged, and a note says so.
        """
        results = check(self.history())
        if self.problem is None:
            return results
        return [
            replace(result, ok=True, violations=[], note=f"not judged: {self.problem}")
            if result.id == _NEEDS_ALL
            else result
            for result in results
        ]

    def where(self, seq: int, session: int | None = None) -> str:
        """Where the messages with a seq went: see :meth:`Analysis.where`.

        Raises:
            LocalError: there is no such session.
        """
        return "\n".join(self.analysis.where(seq, session)) or f"no message with seq {seq}"

    def __repr__(self) -> str:
        return f"<Capture {self.path}>"

    def _repr_html_(self) -> str:
        heading = f"<p><b>{escape(self.path.name)}</b>: {len(self.analysis.links)} links, "
        heading += f"{len(self.analysis.sessions)} sessions</p>"
        problem = f"<p>{escape(self.problem)}</p>" if self.problem else ""
        table = self.analysis.session_table()
        return heading + problem + table.to_html(index=False) + self.timeline._repr_html_()
