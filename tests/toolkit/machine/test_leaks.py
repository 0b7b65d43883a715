"""Leak checks see what clusters leave; undoing the journal leaves nothing."""

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.support.machine import new_lease  # noqa: F401 - a fixture
from toolkit.machine.changes import Interface, Mount, Namespace
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease


@pytest.mark.needs("netns")
def test_leftovers_lists_all_changes_until_they_are_undone(new_lease: Callable[[], Lease]) -> None:  # noqa: F811
    from pyroute2 import IPRoute, netns

    lease = new_lease()
    label, journal = lease.label, lease.journal
    space, interface = label.namespace("a"), label.interface("x")
    journal.note(Namespace(space))
    netns.create(space)
    journal.note(Interface(interface))
    with IPRoute() as network:
        network.link("add", ifname=interface, kind="bridge")
    journal.note(Mount(str(lease.directory / "m")))
    (lease.directory / "m").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(lease.directory / "m")], check=True)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, PROCESS_VARIABLE: str(label)}) as sleeper:
        assert [line.split()[0] for line in leftovers(lease)] == [
            *("process", "namespace", "interface", "mount", "directory")
        ]
        assert journal.undo() == []
        assert sleeper.wait() < 0
    assert leftovers(lease) == []
    assert journal.undo() == []


def test_undo_of_a_change_never_made_does_nothing() -> None:
    for change in (Namespace("ml-none-such"), Interface("ml-none-such"), Mount("/nowhere")):
        assert change.undo() is None
