"""A zygote that all clusters of this process share, so that a session of tests or a notebook imports once.

It is a program of its own, not a fork: it has no threads, no open files and no state of this process. Every
messenger is a new fork of it and has the label of its own cluster; nothing passes from one messenger to another.
The zygote ends with this process, also if that is killed.
"""

import atexit
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from messenger.compat import override
from toolkit.cluster.forks import Controller, ForkedProgram, Forks, ZygoteGone
from toolkit.machine.interpreters import PYTHON, environment
from toolkit.machine.labels import BLANK, PROCESS_VARIABLE

_FOR_IMPORTS = ("PYTHON", "MSGRLAB_PURE", "LD_")
"""Beginnings of the names of variables that decide what a zygote imports."""


class _Program(Controller):
    """The program; this process's imports do not matter to it."""

    def __init__(self) -> None:
        self._parent = os.getpid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", __name__, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**environment(), PROCESS_VARIABLE: BLANK},
                cwd="/",
                start_new_session=True,
            )
        super().__init__(ours)

    @override
    def close(self) -> None:
        """End the program; the messengers that it started go on."""
        super().close()
        if self._parent == os.getpid():  # not in a fork of it
            self._process.kill()
            self._process.wait()


class WarmZygote(Forks):
    """Forks messengers from a program that starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._program: _Program | None = None
        self._made_for: object = None

    @override
    def start(self, log: Path | None, namespace: Path | None = None, label: str = "") -> ForkedProgram:
        program = self._current()
        try:
            return program.start(log, namespace, label)
        except ZygoteGone:
            return self._current(instead_of=program).start(log, namespace, label)

    def _current(self, instead_of: _Program | None = None) -> _Program:
        """Return the program; a new one in a fork of this process, or if it would import something else now."""
        variables = environment()
        wanted = (os.getpid(), {name: variables[name] for name in variables if name.startswith(_FOR_IMPORTS)})
        with self._lock:
            if self._program is None or self._program is instead_of or self._made_for != wanted:
                self.close()
                self._program, self._made_for = _Program(), wanted
            return self._program

    def close(self) -> None:
        """End the program; messengers that it started go on."""
        if self._program is not None:
            self._program.close()
            self._program = None


shared = WarmZygote()
"""The zygote of this process's clusters."""
atexit.register(shared.close)


if __name__ == "__main__":
    from toolkit.cluster.zygote import serve

    serve(socket.socket(fileno=os.dup(0)), int(sys.argv[1]))
