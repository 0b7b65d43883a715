"""A capture for people: one object that decodes it, answers questions, and shows itself in a notebook."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from messenger.errors import LocalError
from toolkit.capture.formats.source import CaptureFile, CaptureFiles
from toolkit.checks.audit.table import Audit, audit
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import check
from toolkit.checks.result import CheckResult
from toolkit.dissect.analysis import Analysis
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.timeline import timeline
from toolkit.dissect.decode import CaptureDecoder
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.extras import require
from toolkit.report.lanes import LaneChart
from toolkit.report.sequence import SequenceChart

if TYPE_CHECKING:
    from pandas import DataFrame

    from toolkit.dissect.explorer import FrameExplorer


class Capture:
    """A capture file and the keys to read it with. It is read at the first access.

    Args:
        path: of the file: pcap or pcapng, compressed by gzip, zstd, lz4 or not; of several files, which are read
            in order of time; or a file open for reading, which is read once.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; those inside the capture are used in any case.
        ports: look at connections only that have one of these at either end; None: at all.
        limits: how much of it is analysed; :attr:`problem` says where that ends ahead of the capture.

    Raises:
        LocalError: a keyring or key log that is none.
    """

    def __init__(
        self,
        path: CaptureFiles,
        keyrings: Sequence[str | Path] = (),
        key_logs: Sequence[str | Path] = (),
        *,
        ports: Collection[int] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._source = path
        first: CaptureFile = path[0] if isinstance(path, list | tuple) else path  # type: ignore[assignment]
        self.path = Path(first if isinstance(first, str | PathLike) else str(getattr(first, "name", "capture")))
        """Of the file, or the first of several."""
        self._limits = limits
        self._keyrings = [Path(keyring) for keyring in keyrings]
        self._key_logs = [Path(log) for log in key_logs]
        self._ports = ports
        self.note: str | None = None
        """What a reader of the result should know, though nothing is wrong: the file is unfinished. Set once it is
        read."""
        self._book()

    @classmethod
    def folder(cls, path: str | Path) -> Self:
        """One of the folders in ``captures/``: its capture, with its keyring if it has one.

        Raises:
            LocalError: the keyring is none.
        """
        folder = Path(path)
        keyring = folder / "keyring"
        return cls(folder / "capture.pcapng.gz", [keyring] if keyring.exists() else [])

    def _book(self) -> KeyBook:
        return KeyBook.read(self._keyrings, self._key_logs)

    def __iter__(self) -> Iterator[DecodedFrame]:
        """Decode it; the frames in the order in which packets completed them.

        Raises:
            LocalError: the file cannot be read, or is no capture.
        """
        with CaptureDecoder(self._source, self._book(), ports=self._ports) as decoding:
            yield from decoding

    @cached_property
    def frames(self) -> list[DecodedFrame]:
        """All frames, with their contents; for captures that fit into memory."""
        return list(self)

    def table(self, *, payloads: bool = False) -> "DataFrame":
        """A row for each frame, by the columnar decoder; for captures of any size.

        Args:
            payloads: with columns of what messages to and between OSDs are about, which takes longer.

        Its types are arrow's: what a frame has not is missing, and a tid of 64 bits is exact.
        """
        require("pandas")
        import pandas as pd  # noqa: PLC0415 - loaded when a table is asked for, as is pyarrow

        from toolkit.dissect.columns import frame_table  # noqa: PLC0415

        table = frame_table(self._source, self._book(), ports=self._ports, payloads=payloads)
        frames: DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
        return frames

    @cached_property
    def _read(self) -> tuple[Analysis, HistoryMaker, str | None]:
        analysis = Analysis(self._limits)
        maker = HistoryMaker(analysis, self._limits)
        with CaptureDecoder(self._source, self._book(), ports=self._ports) as decoding:
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
        """Sessions over their links, what became of each message, times."""
        return self._read[0]

    @property
    def problem(self) -> str | None:
        """What could not be decoded, or was not analysed, in one line; None if everything was."""
        return self._read[2]

    def explore(self, frame: int) -> "FrameExplorer":
        """A frame's bytes beside its fields; in a notebook it shows itself.

        Args:
            frame: its number, as in ``msgrlab decode`` and in :attr:`frames`.

        Raises:
            LocalError: there is no such frame.
        """
        if not 0 <= frame < len(self.frames):
            raise LocalError(f"no frame {frame} in {self.path.name}: it has {len(self.frames)}, counted from 0")
        return self.frames[frame].explore()

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

    def timeline_of(self, session: int) -> LaneChart:
        """The timeline of the links of one session.

        Raises:
            LocalError: there is no such session.
        """
        return timeline(self.analysis, session)

    def check(self) -> list[CheckResult]:
        """The invariants, as far as a capture can show them.

        Behind bytes that are missing or could not be decoded, the messages of a link are not judged.
        """
        return check(self.history())

    def audit(self) -> Audit:
        """Judge every frame by the rules of the wire."""
        return audit(Index(self.history()))

    def where(self, seq: int, session: int | None = None) -> str:
        """Where the messages with a seq went: see :meth:`Analysis.where`.

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
