import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from messenger.errors import LocalError
from toolkit.cli import main as cli

READY_MADE = next(iter(sorted((Path(__file__).parents[3] / "captures").glob("*/capture.pcapng.gz"))))
SCRIPT = "from toolkit.cli.main import main; main()"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], list[str]]:
    """Adds a sub-command that raises; returns the command line for it."""

    def add(error: BaseException) -> list[str]:
        cli.register()
        monkeypatch.setattr(cli.app, "registered_commands", list(cli.app.registered_commands))

        @cli.app.command("fail")
        def fail() -> None:
            raise error

        return ["fail"]

    return add


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bogus"], "msgrlab: No such option: --bogus (see 'msgrlab --help')\n"),
        (["bogus"], "msgrlab: No such command 'bogus' (see 'msgrlab --help')\n"),
        (["doctor", "--jso"], "--json"),
        (["doctor", "extra"], "(extra) (see 'msgrlab doctor --help')\n"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_a_local_error_is_one_line_and_exit_2(
    failing: Callable[[BaseException], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(failing(LocalError("keyring x.keyring line 3: no key"))) == 2
    assert capsys.readouterr() == ("", "msgrlab: keyring x.keyring line 3: no key\n")


def test_an_error_that_quotes_a_hostile_file_harms_no_terminal(
    failing: Callable[[BaseException], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(failing(LocalError(f"one\x1b[2J\r\ntwo {'x' * 5000}"))) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "msgrlab: one\\x1b[2J\\r"
    assert (len(second), second[-4:]) == (2003, "x...")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (typer.Exit(1), 1),
        (typer.Exit(0), 0),
        (SystemExit(3), 3),
        (SystemExit("why"), 1),
        (SystemExit(None), 0),
    ],
)
def test_exit_codes(
    error: BaseException,
    code: int,
    failing: Callable[[BaseException], list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(failing(error)) == code
    assert capsys.readouterr().out == ""


def test_removed_current_directory_is_one_line_and_exit_2(
    failing: Callable[[BaseException], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(FileNotFoundError):
        cli.run(failing(FileNotFoundError("an internal error")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.run(["list"]) == 2
    expected = "msgrlab: the current directory has been removed: change to another one\n"
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ["decode", str(READY_MADE), "-o"],
        ["run"],
        ["list"],
        ["sim"],
        ["explore", "--out"],
        ["bench", "hostile", "--out"],
        ["up"],
        ["top"],
        ["lab"],
        ["probe", "127.0.0.1:1", "--keyring"],
        ["proxy", "0", "127.0.0.1:1", "--history"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_path_that_the_machine_refuses_is_one_line_and_exit_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid():  # root may search every directory; a name that is too long is refused to root, too
        tmp_path.chmod(0)
    path = tmp_path / ("x" * (1 if os.geteuid() else 300))
    try:
        assert cli.run([*arguments, str(path)]) == 2
    finally:
        tmp_path.chmod(0o700)
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert str(path) in complaint


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_refused_path_is_named(
    number: int, failing: Callable[[BaseException], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(failing(OSError(number, os.strerror(number), "/where"))) == 2
    assert capsys.readouterr().err == f"msgrlab: /where: {os.strerror(number)}\n"
    with pytest.raises(OSError, match=os.strerror(number)):
        cli.run(failing(OSError(number, os.strerror(number))))  # a mistake of ours


def test_internal_errors_are_raised(failing: Callable[[BaseException], list[str]]) -> None:
    with pytest.raises(ZeroDivisionError):
        cli.run(failing(ZeroDivisionError()))


def test_help_and_no_arguments_list_the_sub_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    unasked = capsys.readouterr().out
    assert cli.run(["--help"]) == 0
    assert "doctor" in unasked
    assert "doctor" in capsys.readouterr().out


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe_ends_the_command_quietly(unbuffered: str) -> None:
    # buffered output meets the closed pipe twice: when it is flushed, and when the interpreter ends
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "doctor", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 141


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = ["asyncio", "pandas", "numpy", "rich.console", "jupyterlab", "cryptography", "fastcrc", "scapy"]
    code = f"import sys, toolkit.cli.main; print(sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_running_one_scenario_loads_nothing_of_other_backends_or_many_runs() -> None:
    heavy = [
        "asyncio",
        "pandas",
        "numpy",
        "jupyterlab",
        "scapy",
        "pyroute2",
        "docker",
        "multiprocessing",
        "tomllib",
    ]
    heavy += ["concurrent.futures", "toolkit.cluster", "toolkit.faults.script", "toolkit.lab.real"]
    code = f"""import sys; from toolkit.cli.main import run
print(run(['run', 'reconnect']), *{{*{heavy!r}}} & {{*sys.modules}})"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
