"""A capture as one object that decodes and analyses it, and displays itself in a notebook."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from messenger.errors import LocalError
from toolkit.capture.formats.source import CaptureFile, CaptureFiles
from toolkit.checks.audit.table import Audit
from toolkit.checks.history import History
from toolkit.checks.parts import audit_parts, check_parts
from toolkit.checks.result import CheckResult
from toolkit.dissect.analysis import Analysis
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.timeline import timeline
from toolkit.dissect.decode import CaptureDecoder
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.extras import require
from toolkit.machine.garbage import rarely_collecting
from toolkit.report.chart_data import MOST_ROWS
from toolkit.report.lanes import LaneChart
from toolkit.report.sequence import SequenceChart

if TYPE_CHECKING:
    from pandas import DataFrame

    from toolkit.dissect.explorer import FrameExplorer

_PART_FRAMES = 1 << 16
"""Frames that are judged at a time, in about 100 MB."""


class Capture:
    """A capture file with the keys to decode it. The file is read at the first access.

    Args:
        path: path of a pcap or pcapng file, plain or compressed by gzip, zstd or lz4; a list of several, which are
            read in order of time; or a file open for reading, which can be read once only.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; key logs inside the capture are always used.
        ports: decode only connections with one of these ports at either end; None decodes all.
        limits: limits of the analysis; :attr:`problem` says where it stopped.
        each_request: as for :class:`Analysis`.

    Raises:
        LocalError: a keyring or key log cannot be read or is malformed.
    """

    def __init__(
        self,
        path: CaptureFiles,
        keyrings: Sequence[str | Path] = (),
        key_logs: Sequence[str | Path] = (),
        *,
        ports: Collection[int] | None = None,
        limits: Limits | None = None,
        each_request: bool = True,
    ) -> None:
        self._each_request = each_request
        self._source = path
        first: CaptureFile = path[0] if isinstance(path, list | tuple) else path  # type: ignore[assignment]
        self.path = Path(first if isinstance(first, str | PathLike) else str(getattr(first, "name", "capture")))
        """Path of the file, or of the first of several."""
        self._limits = limits
        self._keyrings = [Path(keyring) for keyring in keyrings]
        self._key_logs = [Path(log) for log in key_logs]
        self._ports = ports
        self.note: str | None = None
        """Set once the capture is read: what a reader should know although nothing is wrong, for example that
        the file is unfinished. None if there is nothing."""
        self._book()

    @classmethod
    def folder(
        cls, path: str | Path, keyrings: Sequence[str | Path] = (), key_logs: Sequence[str | Path] = ()
    ) -> Self:
        """Open a folder of ``captures/``: its capture, with its keyring if it has one.

        Args:
            path: path of the folder.
            keyrings: further keyrings.
            key_logs: key logs.

        Raises:
            LocalError: a keyring or key log cannot be read or is malformed.
        """
        folder = Path(path)
        own = folder / "keyring"
        found = [own, *keyrings] if own.exists() else keyrings
        return cls(folder / "capture.pcapng.gz", found, key_logs)

    def _book(self) -> KeyBook:
        return KeyBook.read(self._keyrings, self._key_logs)

    def __iter__(self) -> Iterator[DecodedFrame]:
        """Decode the capture; yields the frames in the order in which packets completed them.

        Raises:
            LocalError: the file cannot be read, or is no capture.
        """
        with CaptureDecoder(self._source, self._book(), ports=self._ports) as decoding:
            yield from decoding

    @cached_property
    def frames(self) -> list[DecodedFrame]:
        """All frames with their contents; only for captures that fit into memory."""
        return list(self)

    def table(self, *, payloads: bool = False) -> "DataFrame":
        """Return a table with one row per frame, made by the columnar decoder; for captures of any size.

        Args:
            payloads: add columns with the subjects of messages to and between OSDs, which takes longer.

        The column types are Arrow's: values that a frame lacks are missing, and 64-bit tids are exact.
        """
        require("pandas")
        import pandas as pd  # noqa: PLC0415 - loaded when a table is asked for, as is pyarrow

        from toolkit.dissect.columns import frame_table  # noqa: PLC0415

        table = frame_table(self._source, self._book(), ports=self._ports, payloads=payloads)
        frames: DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
        return frames

    @cached_property
    def _read(self) -> tuple[Analysis, HistoryMaker, str | None]:
        analysis = Analysis(self._limits, each_request=self._each_request)
        maker = HistoryMaker(analysis, self._limits)
        with rarely_collecting(), CaptureDecoder(self._source, self._book(), ports=self._ports) as decoding:
            for frame in decoding:
                if analysis.began_ns is None:
                    analysis.began_ns = decoding.reader.began_ns
                analysis.take(frame)
                maker.take(frame)
            analysis.capture_ended_ns = decoding.reader.ended_ns
            analysis.streams = decoding.decoder.streams
            notes = [decoding.reader.unfinished, decoding.decoder.skipped]
            self.note = "; ".join(filter(None, notes)) or None
            problems = [decoding.problem, analysis.left_out, maker.left_out]
            return analysis, maker, "; ".join(problem for problem in problems if problem) or None

    @property
    def analysis(self) -> Analysis:
        """The sessions over their links, the fate of each message, and times."""
        return self._read[0]

    @property
    def problem(self) -> str | None:
        """What could not be decoded or was not analysed, in one line; None if nothing is wrong."""
        return self._read[2]

    def explore(self, frame: int) -> "FrameExplorer":
        """Return the bytes of a frame beside its fields; displays itself in a notebook.

        Args:
            frame: number of the frame, as in ``msgrlab decode`` and in :attr:`frames`.

        Raises:
            LocalError: there is no such frame.
        """
        if not 0 <= frame < len(self.frames):
            raise LocalError(f"no frame {frame} in {self.path.name}: it has {len(self.frames)}, counted from 0")
        return self.frames[frame].explore()

    def history(self, session: int | None = None, *, most_frames: int | None = None) -> History:
        """Return the capture, or one session of it, as a history.

        Args:
            session: number of the session; None takes all.
            most_frames: most frames of the history; the first third and the last two are taken. None takes all.

        Raises:
            LocalError: there is no such session.
        """
        analysis, maker, _ = self._read
        streams = None if session is None else [link.stream.index for link in analysis.session(session).links]
        with rarely_collecting():
            return maker.history(streams, most_frames=most_frames)

    def histories(self) -> Iterator[History]:
        """Yield the capture as histories that fit into memory one after the other.

        A session of several begins in each but the first with the records that stand for its earlier frames.
        """
        return self._read[1].parts(_PART_FRAMES, unbroken=False)

    def drawn(self, session: int | None = None) -> History:
        """Return the history that charts draw: of a long capture, as many frames as a chart has rows.

        Raises:
            LocalError: there is no such session.
        """
        return self.history(session, most_frames=MOST_ROWS)

    def chart(self, session: int | None = None) -> SequenceChart:
        """Return the sequence chart of the capture, or of one session.

        Raises:
            LocalError: there is no such session.
        """
        return SequenceChart(self.drawn(session))

    @property
    def timeline(self) -> LaneChart:
        """When each link was open, and how much traffic it carried."""
        return timeline(self.analysis)

    def timeline_of(self, session: int) -> LaneChart:
        """Return the timeline of the links of one session.

        Raises:
            LocalError: there is no such session.
        """
        return timeline(self.analysis, session)

    def check(self) -> list[CheckResult]:
        """Check the invariants, as far as a capture can show them.

        A link is not judged after bytes that are missing or could not be decoded. A capture of more than 65,536
        frames is judged in parts.
        """
        return list(self._checked)

    @cached_property
    def _checked(self) -> list[CheckResult]:
        with rarely_collecting():
            return check_parts(self._read[1].parts(_PART_FRAMES))

    def audit(self) -> Audit:
        """Judge every frame by the wire rules, in the same parts as :meth:`check`."""
        with rarely_collecting():
            return audit_parts(self._read[1].parts(_PART_FRAMES))

    def where(self, seq: int, session: int | None = None) -> str:
        """Return the path of the messages with a seq, in lines: see :meth:`Analysis.where`.

        Raises:
            LocalError: there is no such session.
        """
        return "\n".join(self.analysis.where(seq, session)) or f"no message with seq {seq}"

    def __repr__(self) -> str:
        return f"<Capture {self.path.parent.name}/{self.path.name}>"

    def _repr_html_(self) -> str:
        heading = f"<p><b>{escape(self.path.name)}</b>: {len(self.analysis.links)} links, "
        heading += f"{len(self.analysis.sessions)} sessions</p>"
        problem = f"<p>{escape(self.problem)}</p>" if self.problem else ""
        table = self.analysis.session_table()
        return heading + problem + table.to_html(index=False)
