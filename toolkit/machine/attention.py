"""Waits in the main thread that Ctrl-C can interrupt.

A signal that arrives just before Python's blocking system call does not interrupt it, nor does one that another
thread receives, and Python handles signals only between calls. A wait without a limit may therefore never notice
Ctrl-C, so the functions here wait in short pieces.
"""

import os
import select
import subprocess
import threading

_PIECE_S = 0.2


def wait_for_event(event: threading.Event) -> None:
    """Wait until an event is set."""
    while not event.wait(_PIECE_S):
        pass


def wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has exited."""
    ends = os.pidfd_open(process.pid)
    try:
        while not select.select([ends], [], [], _PIECE_S)[0]:
            pass
    finally:
        os.close(ends)
