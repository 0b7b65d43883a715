"""Run a program in a container on the user's terminal or pipes, like ``docker exec -it``."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.cluster.backends.docker.program import OUTPUT, attach, frames, refusal
from toolkit.machine.docker_engine import connected

if TYPE_CHECKING:
    from docker import APIClient

_CHUNK_BYTES = 1 << 16


def run(api: "APIClient", container: str, argv: Sequence[str]) -> int:
    """Run a program on this process's standard input and output; returns its exit code.

    Raises:
        LocalError: there is no such program.
    """
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    sys.stdout.flush()
    environment = {"TERM": os.environ.get("TERM", "xterm")} if on_terminal else {}
    program = api.exec_create(container, list(argv), stdin=True, tty=on_terminal, environment=environment)["Id"]
    reader, connection = attach(api, program, on_terminal=on_terminal)
    with _raw_terminal(api, program) if on_terminal else contextlib.nullcontext():
        threading.Thread(target=_copy_input, args=(connection,), daemon=True).start()
        chunks = ((OUTPUT, data) for data in iter(partial(reader.read1, _CHUNK_BYTES), b""))
        for number, (stream, data) in enumerate(chunks if on_terminal else frames(reader)):
            if number == 0 and (why := refusal(data.decode(errors="replace"))):
                raise LocalError(f"{argv[0]}: {why}")
            _print((sys.stdout if stream == OUTPUT else sys.stderr).fileno(), data)
    return int(api.exec_inspect(program)["ExitCode"] or 0)


def _copy_input(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while typed := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
            connection.sendall(typed)
        connection.shutdown(socket.SHUT_WR)


def _print(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def _raw_terminal(api: "APIClient", program: str) -> Iterator[None]:
    """Pass all keys to the program, and the size of the terminal whenever it changes."""

    def resize(*_: object) -> None:
        columns, lines = shutil.get_terminal_size()
        with contextlib.suppress(Exception):  # the program has just exited
            api.exec_resize(program, height=lines, width=columns)

    descriptor = sys.stdin.fileno()
    settings = termios.tcgetattr(descriptor)
    in_charge = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGWINCH, resize) if in_charge else None
    resize()
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, settings)
        if in_charge:
            signal.signal(signal.SIGWINCH, before)


def main() -> int:
    """Run a program; arguments are the engine's place, the container, and the program with its arguments."""
    place, container, *argv = sys.argv[1:]
    try:
        with connected(place) as engine:
            return run(engine.api, container, argv)
    except LocalError as error:
        print(f"msgrlab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
