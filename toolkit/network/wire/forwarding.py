"""Find out whether rules of nftables can forward frames from one interface to another on this machine."""

from functools import cache

from messenger.errors import LocalError
from toolkit.machine.nft import nft
from toolkit.network.namespaces import in_new

PRIORITY = 10
"""After the rules that drop and refuse packets (toolkit/network/rules.py), which have priority 0."""
PROBE = f"""table netdev msgrlab_probe {{
chain arriving {{
type filter hook ingress device "lo" priority {PRIORITY};
fwd to "lo"
}}
}}
"""
"""Needs of the kernel what the wire's rules need."""


@cache
def why_not() -> str:
    """Return why frames cannot be forwarded by rules; empty if they can."""
    try:
        in_new(lambda: nft("-f", "-", text=PROBE))
    except LocalError as error:
        return str(error)
    except OSError as error:
        return f"no network namespace: {error.strerror}"
    return ""
