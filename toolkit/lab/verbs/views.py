"""What a lab shows of itself in a notebook: sessions, charts, results of checks."""

from typing import TYPE_CHECKING, Self

from toolkit.checks.history import History
from toolkit.checks.merge import in_order
from toolkit.checks.records import TIME_DIGITS
from toolkit.lab.core import LabCore

if TYPE_CHECKING:
    from pandas import DataFrame

    from toolkit.checks.result import CheckResult
    from toolkit.report.rates import RateChart
    from toolkit.report.sequence import SequenceChart

_SESSION_COLUMNS = ("state", "connect_seq", "in_seq", "out_seq", "sent", "queued")


class Views(LabCore):
    """The part of a lab that notebooks use: it stays open over several cells, and each cell can show its state."""

    @property
    def now_s(self) -> float:
        """Seconds since the run began, of virtual time in simulation, of real time otherwise."""
        return round(self._now(), TIME_DIGITS)  # as records have it

    def sessions(self) -> "DataFrame":
        """The present sessions of the running nodes, one row each.

        Columns: ``node``, ``peer``, ``state``, ``connect_seq``, ``in_seq`` (seq of the last message received),
        ``out_seq`` (seq of the last message numbered), ``sent`` (messages kept for replay) and ``queued``
        (messages without a seq).
        """
        from pandas import DataFrame  # noqa: PLC0415 - only notebooks pay for it

        rows = [
            {"node": name, "peer": session["peer"], **{column: session[column] for column in _SESSION_COLUMNS}}
            for name in self._specs
            if self._running(name)
            for session in self._command(name, "sessions")["sessions"]
        ]
        return DataFrame(rows, columns=["node", "peer", *_SESSION_COLUMNS])

    def chart(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "SequenceChart":
        """The sequence chart of the frames between the nodes, between two times in seconds since the run began."""
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - as above

        return SequenceChart(History(in_order(self.history)), tuple(self._specs), between=(begin_s, end_s))

    def rates(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "RateChart":
        """Messages and bytes per second and latencies between two times, with bands for faults."""
        from toolkit.report.rates import RateChart  # noqa: PLC0415 - as above

        return RateChart.of(History(in_order(self.history)), between=(begin_s, end_s))

    def check(self) -> "list[CheckResult]":
        """The verdict of every invariant on the history so far.

        Invariants about the state at rest (nothing queued, no link too many) are judged if :meth:`settle` was
        called, and then also on what happened after it: call it again before this.
        """
        from toolkit.checks.invariants import check  # noqa: PLC0415 - as above

        return check(History(in_order(self.history)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name}{'' if self._running(name) else ' (down)'}" for name in self._specs)
        return f"<Lab {self.backend}, {self.way}, seed {self.seed}, {self.now_s:.3f} s: {nodes or 'no nodes'}>"
