"""Waiting in the main thread that Ctrl-C can interrupt.

A signal that comes right before the system call in which Python waits does not end it, nor does one that another
thread takes, and Python looks only between two calls. A wait without a limit may never see Ctrl-C, so everything
here waits in short pieces.
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
    """Wait until a process has ended."""
    ends = os.pidfd_open(process.pid)
    try:
        while not select.select([ends], [], [], _PIECE_S)[0]:
            pass
    finally:
        os.close(ends)
