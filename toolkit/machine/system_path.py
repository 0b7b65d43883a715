"""The directories of system programs, which the PATH of ordinary users may lack."""

import os

SYSTEM_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))


def with_system_path() -> str:
    """Return this process's PATH with the directories of system programs appended."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH", ""), SYSTEM_PATH)))
