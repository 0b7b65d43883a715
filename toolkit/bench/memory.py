"""Memory of this process, now and at its peak."""

import re
from pathlib import Path


def peak_rss_mib() -> float:
    """Return the peak resident memory of this process.

    Not ru_maxrss of getrusage: on Linux it starts with the size of the process that called exec.
    """
    return _status_mib("VmHWM")


def rss_mib() -> float:
    """Return the current resident memory of this process."""
    return _status_mib("VmRSS")


def _status_mib(field: str) -> float:
    match = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024
