"""The virtual machines that all tests of a session share, and the marks of these tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from tests.support.needs import require
from toolkit.machine import vm

T = TypeVar("T", bound=Callable[..., object])
PATIENCE_S = 600.0
"""For a program in the guest: it may be emulated, on a busy machine."""


EACH_KERNEL = [
    pytest.param("bookworm", marks=pytest.mark.needs("vm")),
    pytest.param("uml", marks=pytest.mark.needs("uml")),
]
"""Parameters of tests of what each engine does: QEMU and user-mode Linux."""
AT_EITHER = [pytest.mark.xdist_group("a virtual machine"), pytest.mark.timeout(PATIENCE_S + 60)]
"""Marks of tests with :data:`EACH_KERNEL`."""


def marks(*capabilities: str) -> list[pytest.MarkDecorator]:
    """Marks of tests of what was done in the guest.

    One worker runs all of them, so that there is one boot. A fixture of the test's module runs the program, and
    a test checks a part of its output.
    """
    return [pytest.mark.needs("vm", *capabilities), *AT_EITHER]


def in_guest(*capabilities: str) -> Callable[[T], T]:
    """Mark one test with :func:`marks`."""

    def mark(test: T) -> T:
        for each in marks(*capabilities):
            test = each(test)
        return test

    return mark


def at_either(*capabilities: str) -> Callable[[T], T]:
    """Mark one test of what each engine does, with the parameter ``kernel``."""

    def mark(test: T) -> T:
        for each in (pytest.mark.needs(*capabilities), pytest.mark.parametrize("kernel", EACH_KERNEL), *AT_EITHER):
            test = each(test)
        return test

    return mark


class Guests:
    """A virtual machine for each kernel.

    Programs undo their changes of it, and may write files that stay to the machine's ``out``.
    """

    def __init__(self, directories: pytest.TempPathFactory, undo: ExitStack) -> None:
        self._directories = directories
        self._undo = undo
        self._by_kernel: dict[str, vm.Machine] = {}

    def with_kernel(self, name: str) -> vm.Machine:
        """The machine with this kernel."""
        if name not in self._by_kernel:
            out = self._directories.mktemp("with, a comma") / "kept"
            machine = vm.Machine(kernel=name, out=out, preload=["tests.support.preloaded"])
            self._by_kernel[name] = self._undo.enter_context(machine)
        return self._by_kernel[name]


@pytest.fixture(scope="session")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    """A virtual machine for each kernel."""
    with ExitStack() as undo:
        yield Guests(tmp_path_factory, undo)


@pytest.fixture(scope="session")
def guest(guests: Guests) -> vm.Machine:
    """A virtual machine that has everything."""
    require("vm")
    return guests.with_kernel(vm.complete(needs_rdma=True).name)


@pytest.fixture(scope="session")
def fast_guest(guests: Guests) -> vm.Machine:
    """A virtual machine with netem, maybe without RDMA and nftables; not emulated where user-mode Linux boots."""
    require("vm")
    return guests.with_kernel(vm.fastest_first()[0].name)
