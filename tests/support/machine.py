"""Leases for tests that change the machine: numbers unique over all workers, nothing left behind."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease


@pytest.fixture
def new_lease() -> Iterator[Callable[[], Lease]]:
    """Makes leases in the state directory that all workers share; what is left of them fails the test."""
    taken: list[Lease] = []

    def take() -> Lease:
        taken.append(Lease.take(f"t{uuid.uuid4().hex[:12]}"))
        return taken[-1]

    yield take
    remains = [line for lease in taken for line in lease.journal.undo()]
    remains += [line for lease in taken for line in leftovers(lease)]
    assert not remains
