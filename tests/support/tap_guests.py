"""Guests without a virtual machine: a namespace that no cluster knows, at the other end of a tap device."""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TypeVar

from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD

from toolkit.machine.changes import Namespace
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.machine.vm.networks import Attachment, Network
from toolkit.network import namespaces
from toolkit.network.namespaces import set_sysctl, within
from toolkit.network.wire.frames import MAX_BYTES
from toolkit.network.wire.tap import open_tap

T = TypeVar("T")
_numbers = count()


class TapGuest:
    """A namespace with the address of an attachment, whose kernel stands for that of a guest."""

    def __init__(self, attachment: Attachment, undo: ExitStack) -> None:
        self.name = attachment.name
        self.address = str(attachment.address.ip)
        self._undo = undo
        name = f"mltest-{os.getpid()}-{next(_numbers)}"
        self.namespace = namespaces.create(name)
        undo.callback(Namespace(name).undo)
        tap, _ = open_tap(self.namespace, "eth0", attachment.mtu)
        undo.callback(os.close, tap)
        with within(self.namespace), rtnetlink() as route:
            (index,) = route.link_lookup(ifname="eth0")
            route.link("set", index=index, address=attachment.mac)
            own = attachment.address
            set_sysctl("ipv6/conf/eth0/accept_dad", "0")
            set_sysctl("ipv6/conf/eth0/disable_ipv6", "0" if own.version == 6 else "1")
            # Without this flag the kernel finds a moment later that it need not check for duplicates.
            flags = {"flags": IFA_F_NODAD} if own.version == 6 else {}
            route.addr("add", index=index, address=str(own.ip), prefixlen=own.network.prefixlen, **flags)
        end, ended = os.pipe()
        undo.callback(os.close, end)
        pump = threading.Thread(target=_pump, args=(tap, attachment.descriptor, end), daemon=True)
        pump.start()
        undo.callback(pump.join)
        undo.callback(os.close, ended)

    def open(self, make: Callable[[], socket.socket]) -> socket.socket:
        """A socket of the guest."""
        made = namespaces.inside(self.namespace, make)
        self._undo.callback(made.close)
        return made


def _pump(one: int, other: int, end: int) -> None:
    """Pass on frames between two tap devices until the end of a pipe."""
    onward = {one: other, other: one}
    while True:
        ready, _, _ = select.select([one, other, end], [], [])
        if end in ready:
            return
        for tap in ready:
            os.write(onward[tap], os.read(tap, MAX_BYTES))


@contextmanager
def tap_guest(network: Network) -> Iterator[TapGuest]:
    """Attach a guest to a network for the duration of a ``with`` block."""
    with network.attached() as attachment, ExitStack() as undo:
        yield TapGuest(attachment, undo)
