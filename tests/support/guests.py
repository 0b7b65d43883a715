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
SHARED, OTHERS, CLUSTERS = "the virtual machine", "other virtual machines", "clusters in virtual machines"
"""Groups of tests: those of a group have one worker, so that the shared machine boots once."""


def grouped(group: str = SHARED) -> list[pytest.MarkDecorator]:
    """Marks of tests that wait for programs in virtual machines."""
    return [pytest.mark.xdist_group(group), pytest.mark.timeout(PATIENCE_S + 60)]


def marks(*capabilities: str, group: str = SHARED) -> list[pytest.MarkDecorator]:
    """Marks of tests of what was done in a guest.

    A fixture of the test's module runs the program, and a test checks a part of its output.
    """
    return [pytest.mark.needs("vm", *capabilities), *grouped(group)]


def in_guest(*capabilities: str, group: str = SHARED) -> Callable[[T], T]:
    """Mark one test with :func:`marks`."""

    def mark(test: T) -> T:
        for each in marks(*capabilities, group=group):
            test = each(test)
        return test

    return mark


def at_either(*capabilities: str, group: str = SHARED) -> Callable[[T], T]:
    """Mark one test of what each engine does, with the parameter ``kernel``."""

    def mark(test: T) -> T:
        kernel = pytest.mark.parametrize("kernel", EACH_KERNEL)
        for each in (pytest.mark.needs(*capabilities), kernel, *grouped(group)):
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
