"""The command by which rules get into the kernel's nftables."""

import subprocess

from messenger.errors import LocalError
from toolkit.errors import Unsupported


def nft(*words: str, text: str = "") -> str:
    """What ``nft`` prints, in the namespace that the calling thread is in.

    Args:
        words: its arguments.
        text: its input.

    Raises:
        LocalError: the kernel takes no such rules; with its words.
        Unsupported: there is no such program.
    """
    try:
        done = subprocess.run(["nft", *words], input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unsupported("rules for packets take nft: apt-get install nftables") from None
    if done.returncode:
        raise LocalError(f"nft: {' '.join(done.stderr.split())}")
    return done.stdout
