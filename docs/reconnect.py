"""Draws docs/reconnect.svg, the picture of the README: ``python docs/reconnect.py``."""

from pathlib import Path

from toolkit.checks.history import History
from toolkit.faults.tap import Breakpoint
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.report.sequence import SequenceChart

LEFT_OUT = ("AUTH_", "BANNER", "COMPRESSION_", "HELLO")


def main() -> None:
    """Cut a lossless session in the middle of a message, and draw the records of the session."""
    lab = SimLab("v2-secure", 3)
    lab.node("client", "client.1", "lossless_client", listens=False)
    lab.node("server", "osd.2", "stateful_server")
    lab.start("client", "server")
    lab.connect("client", "server")
    lab.cut_at("client", "server", Breakpoint("client", "MESSAGE", nth=3, byte=20))
    lab.send("client", "server", count=5)
    lab.expect_delivered("client", "server", 5)
    lab.settle()
    shown = History(
        record
        for record in lab.history
        if record.kind in {"cut", "event", "state", "fault", "link", "process"}
        or (record.kind == "frame" and not record["tag"].startswith(LEFT_OUT))
    )
    chart = SequenceChart(shown, ["client", "server"]).svg()
    Path(__file__).with_suffix(".svg").write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    main()
