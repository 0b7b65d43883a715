"""The machine that a measurement is of, in a few words."""

import os
import platform
from pathlib import Path

_CPUS = Path("/proc/cpuinfo")


def processor() -> str:
    """Its processor and how many CPUs this process may use, as in ``AMD EPYC, 2 CPUs``."""
    lines = _CPUS.read_text(encoding="utf-8", errors="replace").splitlines() if _CPUS.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    count = len(os.sched_getaffinity(0))
    return f"{next(names, platform.machine())}, {count} CPU{'s' if count > 1 else ''}"
