"""Programs in a virtual machine: what they print, return and leave behind, also when they are killed."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import msgrlab
from tests.support.guests import EACH_KERNEL, OTHERS, at_either, grouped
from toolkit.errors import Unsupported
from toolkit.machine import vm
from toolkit.machine.leases import STATE_VARIABLE

PROGRAM = """\
import os, platform, signal, sys, time
from pathlib import Path
import toolkit

print("first", flush=True)
while not Path("kept/seen").exists():
    time.sleep(0.01)
print("to stderr", file=sys.stderr, flush=True)
print(platform.release(), os.getuid(), Path.cwd(), sys.executable, toolkit.__file__, sep="\\n")
print(os.environ["ODD"])
Path("kept/file").write_text("kept")
Path("lost").write_text("lost")
if os.fork() == 0:
    signal.pause()  # a process in the background does not keep the machine running
print("x" * 300_000)
sys.exit(7)
"""
ODD = "quotes ' and \" and $HOME and\na line"


pytestmark = grouped(OTHERS)
PROCESS = {"bookworm": b"qemu-system", "uml": b"/linux"}
"""First bytes of the command line of the process that runs the kernel."""


@dataclass
class Ran:
    """A program that has run, with its output in the order of its arrival."""

    kernel: str
    directory: Path
    result: vm.Result
    parts: list[bytes]


@pytest.fixture(scope="module", params=EACH_KERNEL)
def engine_kernel(request: pytest.FixtureRequest) -> str:
    """A kernel of each engine."""
    return str(request.param)


@pytest.fixture(scope="module")
def guest(engine_kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[vm.Machine]:
    """A virtual machine of each engine."""
    out = tmp_path_factory.mktemp("with, a comma") / "kept"
    with vm.Machine(kernel=engine_kernel, out=out, preload=["messenger.config"]) as machine:
        yield machine


@pytest.fixture(scope="module")
def ran(guest: vm.Machine, engine_kernel: str) -> Ran:
    assert guest.out is not None
    directory = guest.out.parent
    parts: list[bytes] = []

    def take(part: bytes) -> None:
        parts.append(part)
        (directory / "kept/seen").touch()  # what the program waits for

    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4]), "ODD": ODD}
    result = guest.run(
        [sys.executable, "-c", PROGRAM],
        directory=directory,
        environment=environment,
        stdout=take,
        timeout_s=120,
    )
    return Ran(engine_kernel, directory, result, parts)


def test_output_arrives_as_it_is_printed_and_the_exit_code_at_the_end(ran: Ran) -> None:
    output = b"".join(ran.parts).decode()
    assert b"first\n".startswith(ran.parts[0])  # the program waits until it has arrived
    assert output.endswith("x" * 300_000 + "\n")
    assert (ran.result.code, ran.result.stdout, ran.result.stderr) == (7, "", "to stderr\n")


def test_the_guest_has_another_kernel_and_the_same_files(ran: Ran) -> None:
    lines = b"".join(ran.parts).decode().splitlines()
    assert lines[1] == vm.find(ran.kernel).release != platform.release()
    assert lines[2:5] == ["0", str(ran.directory), sys.executable]
    assert lines[5] == str(Path(__file__).parents[4] / "toolkit" / "__init__.py")
    assert "\n".join(lines[6:8]) == ODD


def test_guest_writes_persist_only_in_the_out_directory(ran: Ran) -> None:
    assert [path.name for path in ran.directory.iterdir()] == ["kept"]
    assert (ran.directory / "kept/file").read_text() == "kept"


def test_programs_of_a_machine_share_it_but_not_their_processes(guest: vm.Machine) -> None:
    wait = guest.run(["sh", "-c", "touch /run/shared; sleep 1000 & echo $!"])
    (pid,) = wait.stdout.split()
    there = guest.run(["sh", "-c", f"test -e /run/shared && echo shared; test -e /proc/{pid} || echo ended"])
    assert (there.stdout, there.boot_s) == ("shared\nended\n", 0)


def test_run_module_forks_an_interpreter_with_preloaded_modules(guest: vm.Machine, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "ODD": ODD}
    about = guest.run_module(
        "tests.toolkit.machine.vm.program", "7", "a b", directory=tmp_path, environment=environment
    )
    found = json.loads(about.stdout)
    assert (about.code, about.stderr) == (7, "to stderr\n")
    assert (found["args"], found["directory"], found["odd"]) == (["7", "a b"], str(tmp_path), ODD)
    assert "messenger.config" in found["preloaded"]
    missing = guest.run_module("no_such_module")
    assert (missing.code, missing.stderr.splitlines()[-1]) == (1, "ImportError: No module named no_such_module")
    elsewhere = guest.run_module("platform", directory=Path("/no/such"))
    assert (elsewhere.code, elsewhere.stderr) == (125, "/no/such: No such file or directory\n")


@at_either(group=OTHERS)
def test_a_machine_boots_again_after_its_guest_has_ended(kernel: str) -> None:
    with vm.Machine(kernel=kernel, preload=["no_such_module"]) as machine:
        with pytest.raises(LocalError, match="the virtual machine has ended before the program did"):
            machine.run(["/run/msgrlab/busybox", "reboot", "-f"], timeout_s=60)
        again = machine.run_module("platform")
    assert again.boot_s > 0
    assert (again.code, again.stderr.splitlines()[-1]) == (
        125,
        "ModuleNotFoundError: No module named 'no_such_module'",
    )


@at_either(group=OTHERS)
def test_a_program_that_takes_too_long_ends_with_its_machine(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "state"))
    done = msgrlab("vm", "run", "--kernel", kernel, "--timeout", "5", "--", "sh", "-c", "echo begun; sleep 1000")
    assert (done.returncode, done.stdout) == (124, "begun\n")
    assert done.stderr.endswith("msgrlab: the program has not ended within 5 s\n")
    assert [path.name for path in (tmp_path / "state/.vm").iterdir()] == [".registry"]


def processes_of(kernel: str, state: Path) -> list[int]:
    """Processes that run the kernel of a machine in this state directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line, labels = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if line.startswith(PROCESS[kernel]) and f"{STATE_VARIABLE}={state}\0".encode() in labels:
                found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@at_either(group=OTHERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_no_machine(
    kernel: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("MSGRLAB_STATE", str(state))
    command = [sys.executable, "-c", "from toolkit.cli.main import main; main()", "vm", "run", "--kernel", kernel]
    command += ["sleep", "1000"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[4], stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: processes_of(kernel, state))
        process.send_signal(number)
        process.wait()
    wait_until(lambda: not processes_of(kernel, state))
    assert msgrlab("down", "--all").returncode == 0
    assert [path.name for path in (state / ".vm").iterdir()] == [".registry"]


def test_sweep_keeps_a_running_vm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolkit.machine.vm.places import place

    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "state"))
    with place() as running:
        assert vm.sweep() == []
        assert running.directory.exists()
    assert not running.directory.exists()


@pytest.mark.needs("vm")
def test_values_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="16 MiB is too little memory for a virtual machine: 256 or more"):
        vm.run(["true"], memory_mib=16)
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="file: File exists"):
        vm.run(["true"], out=tmp_path / "file")
    done = msgrlab("vm", "run", "--kernel", "potato", "true")
    assert (done.returncode, done.stderr) == (2, "msgrlab: no kernel 'potato'; known: bookworm, trixie, uml\n")


def test_a_kernel_that_is_missing_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    done = msgrlab("vm", "run", "--root", str(tmp_path), "true")
    assert done.returncode == 3
    assert done.stderr == f"msgrlab: no kernel in {tmp_path}/vm-bookworm: msgrlab images build vm\n"


def test_qemu_that_is_missing_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="virtual machines: no qemu-system-x86_64 in PATH"):
        vm.run(["true"])


def test_virtual_machines_are_for_one_kind_of_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert vm.probe().remedy is None
