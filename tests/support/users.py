"""Other users of this machine: code that runs under another user id, and directories that several users share."""

import ctypes
import os
import pickle
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

OTHER_UID = 65_534
"""The second user, who may do nothing in particular; ``nobody`` on most machines."""
ANOTHER_UID = 64_321
"""A third one."""
_PR_SET_DUMPABLE = 4

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_user(uid: int, what: Callable[[], T]) -> T:
    """The result of a function that runs in a child process of another user.

    It may only use what is imported already: the other user need not be able to read this checkout.
    """
    reading, writing = os.pipe()
    pid = _fork()
    if not pid:
        os.close(reading)
        _report(writing, uid, what)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    os.waitpid(pid, 0)
    assert answer, "the other user's process has ended without an answer"
    is_result, value = pickle.loads(answer)
    if not is_result:
        raise AssertionError(value)
    return value


@contextmanager
def other_user(uid: int, what: Callable[[Callable[[], None]], None]) -> Iterator[int]:
    """A child process of another user that goes on for as long as this lasts; its process id.

    Args:
        uid: of the other user.
        what: is done there; it calls its argument when it is ready.
    """
    reading, writing = os.pipe()
    pid = _fork()
    if not pid:
        os.close(reading)
        _report(writing, uid, lambda: what(lambda: (os.write(writing, b"!"), None)[1]))
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as answers:
            first = answers.read(1)
            assert first == b"!", pickle.loads(first + answers.read())
            yield pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # this process has threads; the child needs none of them
        return os.fork()


def _report(writing: int, uid: int, what: Callable[[], Any]) -> None:
    """Become the other user in the child process, run the check, and write its result."""
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # or its own /proc would be root's
        os.umask(0o022)
        answer = pickle.dumps((True, what()))
    except BaseException:  # noqa: BLE001 - it is raised again in the parent
        answer = pickle.dumps((False, traceback.format_exc()))
    with os.fdopen(writing, "wb") as answers:
        answers.write(answer)
    os._exit(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory to which every user may write, as ``/tmp`` is."""
    directory = Path(tempfile.mkdtemp(prefix="msgrlab-test-"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)
