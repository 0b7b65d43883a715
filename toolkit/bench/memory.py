"""How much memory a process has needed."""

import re
from pathlib import Path


def peak_rss_mib() -> float:
    """The most memory this process had at a time.

    Not getrusage's ru_maxrss: Linux starts that with the size of whatever process did the exec.
    """
    return _status_mib("VmHWM")


def rss_mib() -> float:
    """The memory that this process has now."""
    return _status_mib("VmRSS")


def _status_mib(field: str) -> float:
    match = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024
