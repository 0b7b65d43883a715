"""Netem queues of the kernel: probe for them, set them, read them back."""

import errno
import struct
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.namespaces import unshare
from toolkit.network.state import LinkState

if TYPE_CHECKING:
    from pyroute2 import IPRoute

    from toolkit.network.netem.attributes import NetemMessage

ROOT = 0xFFFFFFFF
"""TC_H_ROOT: the parent of an interface's root queue."""
_LOOPBACK = 1
"""Index of ``lo`` in every namespace."""
_PROBE_SEED = 77
_ALL_PROTOCOLS = 0x0300
"""ETH_P_ALL in network byte order."""
_PRIORITY = 1 << 16
_TERMINAL = 1
_SELECTOR = struct.Struct("=BBBxHHhhI")
"""struct tc_u32_sel; the keys follow."""
_KEY = struct.Struct("=4s4sii")
"""struct tc_u32_key: mask, value, and offset in bytes from the network header."""
_BEFORE_MAC = -16
"""Offset of two unused bytes before a frame's first six, the receiver's address."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Features of this kernel's netem."""

    netem: bool
    seed: bool = False
    """True if it takes a seed, which makes random decisions repeatable; since Linux 6.5."""
    why_not: str = ""


@cache
def abilities() -> Abilities:
    """Probe netem in a temporary namespace; the kernel may load the module for it."""
    found: list[Abilities] = []
    thread = threading.Thread(target=lambda: found.append(_try()), name="netem probe")
    thread.start()
    thread.join()
    return found[0]


def has_netem() -> bool:
    """True if the kernel has netem and this user may use it."""
    return abilities().netem


def _try() -> Abilities:
    try:
        unshare()
    except OSError as error:
        return Abilities(netem=False, why_not=f"no network namespaces: {error.strerror}")
    with rtnetlink() as route:
        try:
            apply(route, _LOOPBACK, ROOT, 0x10000, LinkState(seed=_PROBE_SEED))
            state = read(route, _LOOPBACK, 0x10000)
        except LocalError as error:
            return Abilities(netem=False, why_not=str(error))
    return Abilities(netem=state is not None, seed=state is not None and state.seed == _PROBE_SEED)


def apply(route: "IPRoute", index: int, parent: int, handle: int, state: LinkState) -> None:
    """Set the impairments of a queue in one request; packets in it stay in it.

    Args:
        route: connection to the kernel, in the namespace of the interface.
        index: index of the interface.
        parent: parent of the queue, such as :data:`ROOT`.
        handle: handle of the queue, which is made if it does not exist.
        state: the impairments.

    Raises:
        Unsupported: the kernel has no netem.
        LocalError: the kernel rejects the state.
    """
    from pyroute2 import NetlinkError
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_NEWQDISC

    from toolkit.network.netem.attributes import NetemMessage
    from toolkit.network.netem.codec import encode

    message = NetemMessage.about(index, parent, handle, encode(state))
    message["header"]["type"] = RTM_NEWQDISC
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
    try:
        route.nlm_request_batch([message])
    except NetlinkError as error:
        if error.code in {errno.ENOENT, errno.EOPNOTSUPP}:
            raise Unsupported("the kernel has no netem (modprobe sch_netem)") from None
        raise LocalError(f"netem: {state}: {error.args[-1]}") from None


def find(route: "IPRoute", index: int, handle: int) -> "NetemMessage | None":
    """Return the kernel's message about a queue; None if it does not exist."""
    from toolkit.network.netem.attributes import KIND, NetemMessage

    for message in route.get_qdiscs(index=index):
        if message["handle"] == handle and message.get_attr("TCA_KIND") == KIND:
            return NetemMessage.again(message)
    return None


def read(route: "IPRoute", index: int, handle: int) -> LinkState | None:
    """Return the state of a queue, as the kernel reports it; None if it does not exist.

    The kernel does not report the distribution of the jitter.
    """
    from toolkit.network.netem.codec import decode

    found = find(route, index, handle)
    return decode(found.get_attr("TCA_OPTIONS")) if found is not None else None


def direct(route: "IPRoute", index: int, parent: int, mac: str, class_id: int) -> None:
    """Direct the frames for an Ethernet address to a class of a queue.

    Raises:
        LocalError: the kernel rejects it.
    """
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_NEWTFILTER

    from toolkit.network.netem.attributes import ClassifierMessage

    address = bytes.fromhex(mac.replace(":", ""))
    keys = (
        _KEY.pack(b"\0\0\xff\xff", b"\0\0" + address[:2], _BEFORE_MAC, 0),
        _KEY.pack(b"\xff" * 4, address[2:], _BEFORE_MAC + 4, 0),
    )
    selector = _SELECTOR.pack(_TERMINAL, 0, len(keys), 0, 0, 0, 0, 0) + b"".join(keys)
    message = ClassifierMessage()
    message["index"], message["parent"], message["info"] = index, parent, _PRIORITY | _ALL_PROTOCOLS
    options = {"attrs": [("TCA_U32_CLASSID", class_id), ("TCA_U32_SEL", selector)]}
    message["attrs"] = [("TCA_KIND", "u32"), ("TCA_OPTIONS", options)]
    message["header"]["type"] = RTM_NEWTFILTER
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
    route.nlm_request_batch([message])


def counts(route: "IPRoute", index: int, handle: int) -> tuple[int, int, int, int]:
    """Return a queue's counters: packets and bytes that entered it, packets lost, and packets in it."""
    found = find(route, index, handle)
    if found is None:
        return 0, 0, 0, 0
    passed = found.get_nested("TCA_STATS2", "TCA_STATS_BASIC")
    queue = found.get_nested("TCA_STATS2", "TCA_STATS_QUEUE")
    packets = passed["packets"] + queue["drops"] + queue["qlen"]
    return packets, passed["bytes"], queue["drops"], queue["qlen"]
