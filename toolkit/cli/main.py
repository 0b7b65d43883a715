"""The ``msgrlab`` command: its sub-commands, and the error report that all of them share.

Exit codes: that of the sub-command; 2 if the command line or its input is wrong and 3 if this machine lacks
something that the command needs, both with one line on stderr; 130 after Ctrl-C; 141 if the reader of the output
closed the pipe, as a shell reports a program that SIGPIPE ended.
"""

import errno
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from messenger.errors import LocalError
from toolkit.cli.report_files import command_line
from toolkit.cli.streams import OutputError, discard, discard_stalled, prepare
from toolkit.errors import Unsupported
from toolkit.extras import missing_extra
from toolkit.report.terminal import shown

USAGE_ERROR = 2
UNSUPPORTED = 3
INTERRUPTED = 130
BROKEN_PIPE = 141
_LONGEST_LINE = 2000
"""Characters of an error line that are printed: an error may quote a file."""
_ERRORS_OF_PATHS = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EROFS}

app = typer.Typer(
    help="Ceph's messenger protocol in Python, and a lab that tests it under faults.",
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)

_OWN_WORDS = {"allow_interspersed_args": False}
"""Arguments after the first positional one are passed on: they may look like options of ours."""
_OTHER_OPTIONS = {"ignore_unknown_options": True, **_OWN_WORDS}
_OTHER_ARGUMENTS = {"allow_extra_args": True, **_OWN_WORDS}


class _Command(NamedTuple):
    """A sub-command: by default the function of the same name in the module of the same name."""

    name: str
    settings: dict[str, Any] | None = None
    module: str = ""
    function: str = ""
    """``app`` for a command that has sub-commands itself."""
    ahead: str = ""
    """Function of that module for the context manager in which the command runs: it begins before the command
    line is parsed, which takes a tenth of a second."""


_COMMANDS = {
    "Scenarios and simulations": (
        _Command("demo"),
        _Command("run"),
        _Command("list", module="listing", function="list_scenarios"),
        _Command("sim"),
        _Command("explore"),
    ),
    "Clusters and faults": (
        _Command("up", ahead="started_ahead"),
        _Command("status"),
        _Command("tell", _OTHER_ARGUMENTS),
        _Command("exec", _OWN_WORDS, function="exec_"),
        _Command("fault", _OTHER_OPTIONS),
        _Command("down"),
        _Command("node", function="app"),
        _Command("link", function="app"),
        _Command("images", function="app"),
    ),
    "Protocol tests, proxies and captures": (
        _Command("probe"),
        _Command("conformance"),
        _Command("matrix"),
        _Command("hunt"),
        _Command("proxy"),
        _Command("capture"),
        _Command("top"),
        _Command("decode"),
        _Command("analyze"),
        _Command("explain"),
        _Command("requests", module="explain"),
        _Command("chart"),
        _Command("replay"),
        _Command("wireshark"),
    ),
    "This machine": (
        _Command("doctor"),
        _Command("bench", function="app"),
        _Command("vm", function="app"),
        _Command("lab"),
        _Command("init"),
    ),
}
"""Sub-commands by the heading of the help under which they are listed."""


def commands() -> list[str]:
    """Return the names of all sub-commands."""
    return [command.name for group in _COMMANDS.values() for command in group]


def register(wanted: str = "") -> None:
    """Add a sub-command to :data:`app`, or all of them if ``wanted`` is none.

    The module of a sub-command is imported here and not earlier, which keeps ``msgrlab CMD`` quick to start.
    """
    names = [wanted] if wanted in commands() else commands()
    for panel, group in _COMMANDS.items():
        for command in group:
            if command.name in names and command.name not in _known:
                _known.add(command.name)
                _add(command, panel)


_known: set[str] = set()
"""The sub-commands that were added to :data:`app`."""


def _add(command: _Command, panel: str) -> None:
    module = import_module(f"toolkit.cli.{command.module or command.name}")
    found = getattr(module, command.function or command.name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=command.name, rich_help_panel=panel)
    else:
        app.command(command.name, rich_help_panel=panel, context_settings=command.settings)(found)


def main() -> None:
    """Run the command line of this process and exit."""
    prepare()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code: ``run(["probe", "10.0.0.1"])``."""
    command_line[:] = arguments
    try:
        register(arguments[0] if arguments else "")
        with _ahead(arguments):
            code = app(list(arguments), prog_name="msgrlab", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        # typer puts lists of choices on their own lines, and its type checks prefix "Value error"
        message = " ".join(error.format_message().split()).replace(": Value error, ", ": ")
        return _complain(f"{message.rstrip('.')}{_hint(error)}")
    except OutputError as error:
        return _complain(str(error))
    except Unsupported as error:
        return _complain(str(error), UNSUPPORTED)
    except LocalError as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        return _complain(str(missing), UNSUPPORTED)
    except KeyboardInterrupt:
        discard_stalled()  # the interpreter writes what is left when it ends, and would wait once more
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        return _ended(error)
    except OSError as error:
        if not (why := _unusable(error)):
            raise
        return _complain(why)
    return int(code or 0)


def _ahead(arguments: Sequence[str]) -> AbstractContextManager[object]:
    """Return the context in which a command runs: that of its ``ahead``, unless its help is asked for."""
    for command in (each for group in _COMMANDS.values() for each in group):
        if command.ahead and command.name in arguments[:1] and "--help" not in arguments:
            begin = getattr(import_module(f"toolkit.cli.{command.name}"), command.ahead)
            return cast("AbstractContextManager[object]", begin())
    return nullcontext()


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


def _unusable(error: OSError) -> str:
    """Say which path of the user's the machine refuses; empty for an error of another kind.

    The question whether a file exists raises such an error, too: below a directory that this user may not search.
    """
    if isinstance(error, FileNotFoundError):
        return "" if _has_directory() else "the current directory has been removed: change to another one"
    if error.filename is None or error.errno not in _ERRORS_OF_PATHS:
        return ""
    return f"{error.filename}: {error.strerror}"


def _has_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _hint(error: typer.TyperException) -> str:
    """Name the help of the sub-command whose command line was wrong; empty if the error names none."""
    context = getattr(error, "ctx", None)
    return f" (see '{context.command_path} --help')" if context else ""


def _ended(error: BrokenPipeError | SystemExit) -> int:
    """Return the exit code after a sub-command exited by itself; typer turns a broken pipe into SystemExit."""
    if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    # the interpreter flushes stdout once more at exit, and would report the same broken pipe again
    discard(sys.stdout.fileno())
    return BROKEN_PIPE
