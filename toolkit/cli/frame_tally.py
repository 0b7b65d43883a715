"""The summary line of a decoded capture: frames, links, and the frames that could not be decoded."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit.dissect.frames import CAPTURE_ENDS, UNKNOWN, DecodedFrame, Verdict

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN_REASONS = 3
_LONGEST_REASON = 160


class Tally:
    """Counts frames, and the reasons why some were not decoded or not authenticated."""

    def __init__(self) -> None:
        self.frames = 0
        self.undecoded: Counter[str] = Counter()
        """Damaged frames, and byte ranges that are missing, encrypted or not frames, by reason."""
        self.unproven: Counter[str] = Counter()
        """Frames that were decoded but whose signature could not be checked, because the key is missing."""
        self._links: set[int] = set()
        self._places: dict[str, int] = {}

    def add(self, frame: DecodedFrame) -> None:
        """Count a frame."""
        self.frames += 1
        self._links.add(frame.stream.index)
        self._judge(frame)

    def _judge(self, frame: DecodedFrame) -> None:
        if frame.error is not None or Verdict.BAD in (frame.crc, frame.auth) or frame.auth is Verdict.NO_KEY:
            self._blame(frame.frame, frame.tag, frame.crc.value, frame.auth.value, frame.error)

    def add_all(self, frames: Sequence[DecodedFrame]) -> None:
        """Count frames."""
        good = Verdict.OK, Verdict.NONE
        self.frames += len(frames)
        self._links.update({frame.stream.index for frame in frames})
        for frame in frames:
            if frame.error is not None or frame.crc not in good or frame.auth not in good:
                self._judge(frame)

    def add_batch(self, batch: "pa.RecordBatch") -> None:
        """Count the rows of a batch of columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.frames += batch.num_rows
        self._links.update(pc.unique(batch["stream"]).to_pylist())
        odd = pa.array([Verdict.BAD.value, Verdict.NO_KEY.value])
        checked = [pc.is_in(batch[name].cast("string"), odd) for name in ("crc", "auth")]
        wrong = pc.or_(pc.is_valid(batch["error"]), pc.or_(*checked))
        for row in batch.filter(wrong).select(["frame", "tag", "crc", "auth", "error"]).to_pylist():
            self._blame(**row)

    def _blame(self, frame: int, tag: str, crc: str, auth: str, error: str | None) -> None:
        unproven = auth == Verdict.NO_KEY and tag != UNKNOWN
        what = "crc" if crc == Verdict.BAD else "authentication"
        reason = error or (f"the key for its {what} is missing" if unproven else f"bad {what}")
        (self.unproven if unproven else self.undecoded)[reason] += 1
        self._places.setdefault(reason, frame)

    def forgive_end(self) -> None:
        """Drop the count of frames cut off by the end of the capture: the file is still being written."""
        for reason in [reason for reason in self.undecoded if reason.startswith(CAPTURE_ENDS)]:
            del self.undecoded[reason]

    def text(self) -> str:
        """Return the summary: frames, links, and the commonest reasons why frames were not decoded."""
        parts = [f"{_counted(self.frames, 'frame')} on {_counted(len(self._links), 'link')}"]
        for reasons, what in ((self.undecoded, "not decoded"), (self.unproven, "not authenticated")):
            if reasons:
                parts.append(f"{reasons.total():,} {what}: {self._reasons_text(reasons)}")
        return "; ".join(parts)

    def _reasons_text(self, reasons: Counter[str]) -> str:
        shown = []
        for reason, count in reasons.most_common(_SHOWN_REASONS):
            short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 2]}.."
            times = f"{count:,} x " if len(reasons) > 1 else ""
            shown.append(f"{times}{short} ({'from ' if count > 1 else ''}frame {self._places[reason]})")
        if len(reasons) > len(shown):
            shown.append(_counted(len(reasons) - len(shown), "other reason"))
        return ", ".join(shown)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
