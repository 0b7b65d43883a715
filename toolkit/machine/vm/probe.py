"""Probe for virtual machines: the programs that they need, and a kernel."""

from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.capability import Finding, own_command
from toolkit.machine.vm import trial
from toolkit.machine.vm.engines import engine_named, programs
from toolkit.machine.vm.kernels import KERNELS, find, image_name, named


def probe(kernel: str = "", root: Path | None = None) -> Finding:
    """Find out whether a virtual machine can run.

    Args:
        kernel: one of :data:`KERNELS`; unless given, that of :func:`find`.
        root: directory of images.
    """
    kernel = kernel or named() or KERNELS[0]
    found = programs(kernel)
    build = f"{own_command()} images build {image_name(kernel)}"
    try:
        image = find(kernel, root)
    except Unsupported as error:
        detail = str(error).partition(": ")[0]
        if not found.available and not found.packages:
            return found
        if found.packages:
            return Finding(False, f"{found.detail}, {detail}", found.packages, (build,))
        return Finding(available=False, detail=detail, commands=(build,))
    except LocalError as error:
        return Finding(available=False, detail=str(error))
    if not found.available:
        return found
    engine = engine_named(image.name)
    if engine.needs_trial and (reason := trial.why_not(image)):
        return Finding(available=False, detail=f"{found.detail} does not boot here: {reason}")
    return Finding(available=True, detail=f"{found.detail}, Linux {image.release}, {engine.speed()}")
