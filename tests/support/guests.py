"""The virtual machine that all tests of a session share, and the marks of these tests."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.support.needs import require
from toolkit.machine import vm

T = TypeVar("T", bound=Callable[..., object])
PATIENCE_S = 600.0
"""For a program in the guest: it may be emulated, on a busy machine."""


def marks(*capabilities: str) -> list[pytest.MarkDecorator]:
    """Marks of tests of what was done in the guest.

    One worker runs all of them, so that there is one boot. A fixture of the test's module runs the program, and
    a test checks a part of its output.
    """
    return [
        pytest.mark.needs("vm", *capabilities),
        pytest.mark.xdist_group("a virtual machine"),
        pytest.mark.timeout(PATIENCE_S + 60),
    ]


def in_guest(*capabilities: str) -> Callable[[T], T]:
    """Mark one test with :func:`marks`."""

    def mark(test: T) -> T:
        for each in marks(*capabilities):
            test = each(test)
        return test

    return mark


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vm.Machine]:
    """A virtual machine. Programs undo their changes of it, and may write files that stay to ``guest.out``."""
    require("vm")
    with vm.Machine(
        out=tmp_path_factory.mktemp("with, a comma") / "kept", preload=["tests.support.preloaded"]
    ) as machine:
        yield machine
