"""Every wait handles signals, even those that do not end its system call."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolkit.machine.attention import wait_for_end, wait_for_event


@contextmanager
def a_signal_that_another_thread_takes(what: Callable[[], object]) -> Iterator[None]:
    """It is handled in the main thread, whose system call goes on."""
    before = signal.signal(signal.SIGUSR1, lambda *_: what())
    taker = threading.Timer(0.05, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1))
    taker.start()
    try:
        yield
    finally:
        taker.join()
        signal.signal(signal.SIGUSR1, before)


def test_signal_interrupts_a_wait_for_an_event() -> None:
    event = threading.Event()
    with a_signal_that_another_thread_takes(event.set):
        wait_for_event(event)
        assert event.is_set()


def test_signal_interrupts_a_wait_for_the_end_of_a_process() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process, a_signal_that_another_thread_takes(process.kill):
        wait_for_end(process)
        assert process.wait(5) == -signal.SIGKILL
