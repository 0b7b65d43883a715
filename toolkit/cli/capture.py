"""``msgrlab capture``: capture packets into a file, and show their frames on the terminal."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.capture.ports import ALL, CEPH_PORTS

if TYPE_CHECKING:
    from toolkit.capture.key_log import GrowingKeyLog
    from toolkit.capture.recorder import Recorder, Taken
    from toolkit.capture.sources import Packet

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def capture(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Interface (lo, eth0, any), or netns:NAME, docker:CONTAINER, pid:N or ssh:HOST, with /IFACE for "
            "one of its interfaces.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="pcapng file to write; - for standard output."),
    ] = None,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, help="Stop after this time.")] = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after N packets.")] = None,
    ports: Annotated[
        str, typer.Option(metavar="PORTS", help="TCP ports to capture, of either end; `all` for every port.")
    ] = CEPH_PORTS,
    key_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Key log of a messenger or proxy; its lines are copied into the capture as they are written, so "
            "that it can be decrypted.",
        ),
    ] = None,
    keyring: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Keys for --decode; never copied into the capture. Repeatable."),
    ] = None,
    note: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Comment to add to the capture. Repeatable.")
    ] = None,
    decode: Annotated[bool, typer.Option("--decode", help="Print frames as they pass.")] = False,
    expression: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="With --decode: print only frames for which this is true."),
    ] = None,
) -> int:
    """Capture packets of TARGET until Ctrl-C, --duration or --count. Needs root.

    Existing files are not overwritten. `msgrlab decode FILE` reads the capture.
    """
    from toolkit.capture.key_log import GrowingKeyLog
    from toolkit.capture.ports import parse_ports
    from toolkit.capture.recorder import Recorder, Taken, new_capture
    from toolkit.capture.sources import open_source
    from toolkit.capture.target import Target

    if out is None and not decode:
        raise LocalError("give -o FILE, or --decode to print frames without writing a file")
    if (keyring or expression is not None) and not decode:
        raise LocalError(f"{'--keyring' if keyring else '--filter'} needs --decode; the file gets all packets")
    wanted, there = parse_ports(ports), Target.parse(target)
    log = None if key_log is None else GrowingKeyLog(key_log)
    taken = Taken(out, target)
    with contextlib.ExitStack() as stack:
        printer = _printer(keyring or (), expression, out) if decode else None
        source = stack.enter_context(open_source(there, wanted))
        writer = stack.enter_context(new_capture(out, list(map(_clean, note or ())))) if out else None
        watch = printer or stack.enter_context(_counting(taken))
        recorder = Recorder(
            source, taken, writer=writer, watch=watch, key_log=log, count=count, duration_s=duration
        )
        stack.callback(recorder.close)
        stack.enter_context(_ended_by_signals(recorder))
        recorder.run()
    _print_result(taken, ports, log)
    return 0


def _clean(text: str) -> str:
    """Replace bytes of a command-line argument that are not valid UTF-8."""
    return text.encode(errors="replace").decode()


def _printer(
    keyrings: Sequence[Path], expression: str | None, out: Path | None
) -> "Callable[[Sequence[Packet], str], None]":
    """Return a function that prints the frames of a batch of packets that match ``expression``."""
    from rich.console import Console

    from toolkit.cli.frame_lines import FrameLines
    from toolkit.dissect.filters import compile_filter
    from toolkit.dissect.keys import KeyBook
    from toolkit.dissect.live import LiveDecoder

    console = Console(stderr=out == Path("-"))
    wanted = compile_filter(expression) if expression is not None else None
    decoder, lines = LiveDecoder(KeyBook.read(keyrings)), FrameLines(console)

    def show(packets: "Sequence[Packet]", secrets: str) -> None:
        if lines.began_ns is None and packets:
            lines.began_ns = packets[0].time_ns
        for frame in decoder.frames(packets, secrets):
            if wanted is None or wanted(frame):
                console.file.writelines(f"{line}\n" for line in lines.lines(frame))
        console.file.flush()

    return show


@contextlib.contextmanager
def _counting(taken: "Taken") -> "Iterator[Callable[[Sequence[Packet], str], None]]":
    """On a terminal, keep a line with the size of the capture up to date."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _packets, _secrets: None
        return
    with console.status(f"{taken.target}: listening; Ctrl-C ends it") as status:
        yield lambda _packets, _secrets: status.update(f"{taken.target}: {_amount(taken)}; Ctrl-C ends it")


@contextlib.contextmanager
def _ended_by_signals(recorder: "Recorder") -> Iterator[None]:
    """Within the block, SIGINT, SIGTERM and SIGHUP end the capture instead of the program."""
    before = {number: signal.signal(number, lambda *_: recorder.stop()) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _amount(taken: "Taken") -> str:
    from rich.filesize import decimal

    return f"{taken.packets:,} packets, {decimal(taken.size_bytes)}, {taken.dropped:,} dropped"


def _print_result(taken: "Taken", ports: str, log: "GrowingKeyLog | None") -> None:
    """Print the size of the capture, and hints if it is empty, has gaps or lacks keys."""
    where = f"{taken.path}: " if taken.path else ""
    print(f"{where}{_amount(taken)}", file=sys.stderr)
    if taken.ended:
        print(f"the capture ended early: {taken.ended}", file=sys.stderr)
    if not taken.packets and not taken.ended:
        among = "no packet" if ports == ALL else f"no packet of TCP ports {ports}"
        more = "" if ports == ALL else "; --ports all captures every port"
        print(f"{among} passed {taken.target} during the capture{more}", file=sys.stderr)
    if taken.dropped:
        print("the dropped packets are gaps in the capture; capture fewer --ports to avoid them", file=sys.stderr)
    if log is not None and (log.problem or not log.lines):
        print(f"key log: {log.problem or f'no key was written to {log.path} during the capture'}", file=sys.stderr)
