"""Start messengers without delay: fork a process that has imported all their modules.

A supervisor forks its own zygote first, before it has threads, locks or children. Other processes, such as a
session of tests or a notebook, have all of these: their clusters share a zygote that is a program of its own
(:mod:`toolkit.cluster.warm_zygote`).
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

import toolkit.cluster.node
from messenger.messages.registry import PAYLOADS
from toolkit.cluster.forks import REQUEST_BYTES, Controller
from toolkit.cluster.rehearsal import rehearse
from toolkit.machine.labels import BLANK, PROCESS_VARIABLE, label_this_process
from toolkit.network.namespaces import enter

_MOST_DESCRIPTORS = 1 << 10
"""Higher than any descriptor that a zygote opens."""


class Zygote(Controller):
    """A zygote that is a fork of this process, which must not have threads.

    Args:
        has_payloads: True to import the payloads of all messages, so that no messenger does later. That takes an
            emulated processor seven seconds, and most messengers need few of them.
    """

    def __init__(self, *, has_payloads: bool = True) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            serve(theirs, parent, has_payloads=has_payloads)
        theirs.close()
        super().__init__(ours)

    def close(self) -> None:
        """End the zygote; the programs that it started go on."""
        super().close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def serve(requests: socket.socket, parent: int, *, has_payloads: bool = True) -> NoReturn:
    """Fork for each request until the socket is closed or the parent ends.

    Args:
        requests: socket of the requests.
        parent: process id of the parent; its forks may hold the other end of the socket.
        has_payloads: True to import the payloads of all messages first.
    """
    try:
        ended = os.pidfd_open(parent)
    except OSError:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):  # inherited pipes: their readers must see their end when the supervisor exits
        os.dup2(nothing, number)
    os.close(nothing)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the zygote ends when the supervisor closes the socket
    if has_payloads:
        for _ in PAYLOADS.values():  # imported once, shared by all forks
            pass
    rehearse()
    gc.collect()
    gc.freeze()  # collections in forks would copy the pages that they share
    gc.enable()
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    waiting.register(ended, select.POLLIN)
    while True:
        if any(descriptor == ended for descriptor, _ in waiting.poll()):
            os._exit(0)
        request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        wanted = json.loads(request)
        with contextlib.suppress(BrokenPipeError):
            requests.send(b"%d" % (_reaped(wanted["reap"]) if "reap" in wanted else _forked(wanted, descriptors)))
        for descriptor in descriptors:
            os.close(descriptor)


def _reaped(pid: int) -> int:
    """Return the exit code of a child."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0


def _forked(wanted: dict[str, dict[str, str]], descriptors: list[int]) -> int:
    """Start a messenger; returns its process id."""
    if not (pid := os.fork()):
        _become(descriptors, **wanted["start"])
    return pid


def _become(descriptors: list[int], directory: str, namespace: str, label: str) -> NoReturn:
    """Run a messenger in this forked process."""
    code = 1
    try:
        os.setsid()
        os.chdir(directory)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, min(_MOST_DESCRIPTORS, os.sysconf("SC_OPEN_MAX")))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if os.environ.get(PROCESS_VARIABLE) == BLANK:
            label_this_process(label)
        if namespace:
            enter(Path(namespace))
        toolkit.cluster.node.main()
        code = 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - the end of a process
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)
