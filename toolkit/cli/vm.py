"""``msgrlab vm``: run programs on Debian's kernel in a virtual machine, for features that this kernel lacks."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from messenger.errors import LocalError
from toolkit.report.terminal import shown_line

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="Run programs on Debian's kernel in a virtual machine.", no_args_is_help=True)

TIMED_OUT = 124
"""Exit code on a timeout, as that of coreutils' ``timeout``."""
_SIGNALLED = 128


@app.command("run", context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep the files that CMD writes in DIR; all other changes are discarded."
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Kernel of a Debian release, bookworm or trixie, or uml: user-mode Linux (MSGRLAB_VM_KERNEL).",
        ),
    ] = "",
    memory: Annotated[int, typer.Option(metavar="MIB", help="Memory of the virtual machine, in MiB.")] = 1024,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End CMD after this time, with exit code 124.")
    ] = None,
    network: Annotated[
        str,
        typer.Option(
            metavar="CLUSTER",
            help="Attach it to the network of this cluster (or CLUSTER/NETWORK), or to this machine (host).",
        ),
    ] = "",
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="Folder of the images (~/.cache/msgrlab/images)."),
    ] = None,
) -> int:
    """Run a program in a virtual machine that sees this machine's files; exit with its exit code."""
    from rich.console import Console

    from toolkit.cluster.guest_network import named_network
    from toolkit.machine import vm

    if command[0] == "--":
        command = command[1:]
    if not command:
        raise LocalError("vm run: no program was given, as in: msgrlab vm run -- CMD")
    if timeout is not None and timeout <= 0:
        raise LocalError(f"--timeout: {timeout:g} is not above 0")
    chosen = vm.find(kernel, root)
    console = Console(stderr=True)
    attached = named_network(network, lambda line: _print(console, line)) if network else None
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        with _progress(console, chosen.release) as booted:
            result = vm.run(
                command,
                kernel=chosen,
                out=out,
                memory_mib=memory,
                network=attached,
                timeout_s=timeout,
                stdout=_write_stdout,
                stderr=_write_stderr,
                booted=booted,
            )
    except vm.TimedOut as error:
        print(f"msgrlab: {error}", file=sys.stderr)
        return TIMED_OUT
    return result.code


def _end(number: int, _frame: object) -> NoReturn:
    """Exit on a signal, so that the context managers shut the virtual machine down."""
    sys.exit(_SIGNALLED + number)


def _write_stdout(part: bytes) -> None:
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def _write_stderr(part: bytes) -> None:
    sys.stderr.buffer.write(part)
    sys.stderr.buffer.flush()


def _print(console: "Console", line: str) -> None:
    """Print a remark, above the line of progress if there is one."""
    console.print(f"msgrlab: {shown_line(line)}", markup=False, highlight=False, emoji=False, soft_wrap=True)


@contextmanager
def _progress(console: "Console", release: str) -> Iterator[Callable[[float], None]]:
    """Show that the machine boots: on a line that is erased afterwards, or as two lines of a log.

    Yields:
        The function to call with the boot time in seconds.
    """
    text = f"booting Linux {release}"
    if not console.is_terminal:
        _print(console, text)
        yield lambda seconds: _print(console, f"booted in {seconds:.1f} s")
        return
    with console.status(shown_line(text)) as status:
        yield lambda _seconds: status.stop()
