"""Run one program in its own virtual machine."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from toolkit.machine.vm.kernels import Kernel
from toolkit.machine.vm.machine import MEMORY_MIB, Machine, Result, Sink
from toolkit.machine.vm.networks import Network


def run(
    argv: Sequence[str],
    *,
    kernel: Kernel | str = "",
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    out: Path | None = None,
    memory_mib: int = MEMORY_MIB,
    network: Network | None = None,
    timeout_s: float | None = None,
    stdout: Sink | None = None,
    stderr: Sink | None = None,
    booted: Callable[[float], object] = lambda _seconds: None,
) -> Result:
    """Run a program in its own virtual machine, as root, with empty input.

    Arguments are those of :class:`~toolkit.machine.vm.machine.Machine` and of
    :meth:`~toolkit.machine.vm.machine.Machine.run`.

    Raises:
        LocalError: a value is invalid, or the guest has not started; the message has the end of its console.
        TimedOut: the program has not ended in time.
        Unsupported: the engine or the kernel is missing; the message has the command that adds it.
    """
    with Machine(kernel=kernel, out=out, memory_mib=memory_mib, network=network) as machine:
        return machine.run(
            argv,
            directory=directory,
            environment=environment,
            timeout_s=timeout_s,
            stdout=stdout,
            stderr=stderr,
            booted=booted,
        )
