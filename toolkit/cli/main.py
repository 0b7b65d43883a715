"""The ``msgrlab`` command: its sub-commands, and how all of them report errors.

Exit codes: that of the sub-command; 2 for a wrong command line or input and 3 for what cannot be had here, with
one line on stderr; 130 after Ctrl-C; 141 if the reader of the output stopped reading, as for any program that a
pipe ends.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli import (
    analyze,
    bench,
    capture,
    chart,
    conformance,
    decode,
    demo,
    doctor,
    down,
    explain,
    explore,
    fault,
    images,
    init,
    lab,
    link,
    listing,
    matrix,
    node,
    probe,
    proxy,
    report_files,
    sim,
    status,
    tell,
    top,
    up,
    vm,
    wireshark,
)
from toolkit.cli import exec as exec_command
from toolkit.cli import run as run_command
from toolkit.errors import Unsupported
from toolkit.extras import missing_extra
from toolkit.report.terminal import shown

USAGE_ERROR = 2
UNSUPPORTED = 3
INTERRUPTED = 130
READER_GONE = 141
_LONGEST_LINE = 2000
"""Of an error, which may quote a file."""

app = typer.Typer(
    help="Ceph messenger in Python, and a lab to break it.",
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)

_OWN_WORDS = {"allow_interspersed_args": False}
"""What stands behind the first word is not for us."""
_FAILURES = "Failures, by name or by seed"
_CLUSTERS = "Clusters, and what can be done to them"
_WIRE = "The wire"
_MACHINE = "This machine"

# A sub-command is a function of that name in a file of that name; what is slow to import it imports inside.
app.command(rich_help_panel=_FAILURES)(demo.demo)
app.command(rich_help_panel=_FAILURES)(run_command.run)
app.command("list", rich_help_panel=_FAILURES)(listing.list_scenarios)
app.command(rich_help_panel=_FAILURES)(sim.sim)
app.command(rich_help_panel=_FAILURES)(explore.explore)
app.command(rich_help_panel=_CLUSTERS)(up.up)
app.command(rich_help_panel=_CLUSTERS)(status.status)
app.command(rich_help_panel=_CLUSTERS, context_settings={"allow_extra_args": True, **_OWN_WORDS})(tell.tell)
app.command("exec", rich_help_panel=_CLUSTERS, context_settings=_OWN_WORDS)(exec_command.exec_)
app.command(rich_help_panel=_CLUSTERS, context_settings={"ignore_unknown_options": True, **_OWN_WORDS})(
    fault.fault
)
app.command(rich_help_panel=_CLUSTERS)(down.down)
app.add_typer(node.app, name="node", rich_help_panel=_CLUSTERS)
app.add_typer(link.app, name="link", rich_help_panel=_CLUSTERS)
app.add_typer(images.app, name="images", rich_help_panel=_CLUSTERS)
app.command(rich_help_panel=_WIRE)(probe.probe)
app.command(rich_help_panel=_WIRE)(conformance.conformance)
app.command(rich_help_panel=_WIRE)(matrix.matrix)
app.command(rich_help_panel=_WIRE)(proxy.proxy)
app.command(rich_help_panel=_WIRE)(capture.capture)
app.command(rich_help_panel=_WIRE)(top.top)
app.command(rich_help_panel=_WIRE)(decode.decode)
app.command(rich_help_panel=_WIRE)(analyze.analyze)
app.command(rich_help_panel=_WIRE)(explain.explain)
app.command(rich_help_panel=_WIRE)(explain.requests)
app.command(rich_help_panel=_WIRE)(chart.chart)
app.command(rich_help_panel=_WIRE)(wireshark.wireshark)
app.command(rich_help_panel=_MACHINE)(doctor.doctor)
app.add_typer(bench.app, name="bench", rich_help_panel=_MACHINE)
app.add_typer(vm.app, name="vm", rich_help_panel=_MACHINE)
app.command(rich_help_panel=_MACHINE)(lab.lab)
app.command(rich_help_panel=_MACHINE)(init.init)


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code of it."""
    report_files.command_line[:] = arguments
    try:
        code = app(list(arguments), prog_name="msgrlab", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _complain(f"{error.format_message().rstrip('.')}{_hint(error)}")
    except Unsupported as error:
        return _complain(str(error), UNSUPPORTED)
    except LocalError as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        return _complain(str(missing), UNSUPPORTED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        return _ended(error)
    return int(code or 0)


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"msgrlab {installed('msgrlab')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def _complain(message: str, code: int = USAGE_ERROR) -> int:
    lines = (each if len(each) <= _LONGEST_LINE else f"{each[:_LONGEST_LINE]}..." for each in message.split("\n"))
    text = shown("\n".join(lines))
    print(f"msgrlab: {text}", file=sys.stderr)
    return code


def _hint(error: typer.TyperException) -> str:
    """Where to read on, when the error knows which sub-command's line was wrong."""
    context = getattr(error, "ctx", None)
    return f" (see '{context.command_path} --help')" if context else ""


def _ended(error: BrokenPipeError | SystemExit) -> int:
    """The exit code after a sub-command ended the program itself; typer makes an exit of a broken pipe."""
    if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    # the interpreter flushes stdout once more when it ends, and would complain about the same pipe again
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE
