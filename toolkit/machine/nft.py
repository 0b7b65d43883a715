"""Run nft, the command for the kernel's nftables."""

import os
import platform
import subprocess

from messenger.errors import LocalError
from toolkit.errors import Unsupported

_LACKS = "Operation not supported"
"""In nft's error: the kernel has no tables of this family, or no such rules."""


def nft(*words: str, text: str = "") -> str:
    """Run ``nft`` in the calling thread's namespace and return its output.

    Args:
        words: its arguments.
        text: its input.

    Raises:
        LocalError: the kernel rejects the rules; with nft's error.
        Unsupported: nft is not installed, or the kernel lacks what the rules need.
    """
    try:
        done = subprocess.run(
            ["nft", *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise Unsupported("rules for packets need nft: apt-get install nftables") from None
    if done.returncode:
        if _LACKS in done.stderr:
            raise Unsupported(
                f"the nftables of Linux {platform.release()} lack what this takes, other kernels have it"
            )
        raise LocalError(f"nft: {' '.join(done.stderr.split())}")
    return done.stdout


def tables(family: str) -> list[str]:
    """Return the names of a family's tables in the calling thread's namespace; raises as :func:`nft`."""
    # Each line is "table FAMILY NAME".
    return [line.split()[2] for line in nft("list", "tables", family).splitlines()]
