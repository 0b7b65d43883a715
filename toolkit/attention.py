"""Waiting in the main thread without being deaf.

A signal that comes right before the system call in which Python waits does not end it, nor does one that another
thread takes, and Python looks only between two calls. Whoever waits without a limit may never hear of Ctrl-C, so
everything here waits in short pieces.
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
