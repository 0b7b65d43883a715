"""A short description of this machine, for the results of measurements."""

import os
import platform
from pathlib import Path

_CPUS = Path("/proc/cpuinfo")


def processor() -> str:
    """Return the processor and the number of CPUs that this process may use, as in ``AMD EPYC, 2 CPUs``."""
    lines = _CPUS.read_text(encoding="utf-8", errors="replace").splitlines() if _CPUS.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    count = len(os.sched_getaffinity(0))
    return f"{next(names, platform.machine())}, {count} CPU{'s' if count > 1 else ''}"
