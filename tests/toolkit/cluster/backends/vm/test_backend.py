"""What the backend ``vm`` refuses before it boots a guest."""

import pytest

from tests.support.clusters import state
from toolkit.cluster import up
from toolkit.errors import Unsupported
from toolkit.machine.leases import leases

__all__ = ["state"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("mixed", "ceph: no daemons of Ceph run in a virtual machine: --backend netns"),
        ("tentacle", "node mon0: no daemons of Ceph run in a virtual machine: --backend netns"),
    ],
)
def test_specs_that_need_this_machine_are_refused_before_a_boot(state: object, spec: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=f"^{reason}$"), up(spec, backend="vm"):
        pass
    assert list(leases()) == []


def test_a_machine_without_qemu_is_named(state: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        pytest.raises(Unsupported, match="no qemu-system-x86_64 in PATH"),
        up("two-peers", backend="vm"),
    ):
        pass
    assert list(leases()) == []
