"""Run nft, the command for the kernel's nftables."""

import subprocess

from messenger.errors import LocalError
from toolkit.errors import Unsupported


def nft(*words: str, text: str = "") -> str:
    """Run ``nft`` in the calling thread's namespace and return its output.

    Args:
        words: its arguments.
        text: its input.

    Raises:
        LocalError: the kernel rejects the rules; with nft's error.
        Unsupported: nft is not installed.
    """
    try:
        done = subprocess.run(["nft", *words], input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unsupported("rules for packets need nft: apt-get install nftables") from None
    if done.returncode:
        raise LocalError(f"nft: {' '.join(done.stderr.split())}")
    return done.stdout


def tables(family: str) -> list[str]:
    """Return the names of a family's tables in the calling thread's namespace; raises as :func:`nft`."""
    # Each line is "table FAMILY NAME".
    return [line.split()[2] for line in nft("list", "tables", family).splitlines()]
