"""What the backend ``vm`` refuses before it boots a guest."""

from pathlib import Path

import pytest

from tests.support.clusters import state
from toolkit.cluster import up
from toolkit.cluster.chroot import IMAGES_VARIABLE
from toolkit.cluster.spec_lookup import spec_from
from toolkit.errors import Unsupported
from toolkit.machine.leases import leases

__all__ = ["state"]


def test_an_image_without_drivers_of_rdma_devices_is_named_before_a_boot(
    state: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = tmp_path / "ceph-reef"
    (image / "etc").mkdir(parents=True)
    (image / "etc/msgrlab-image").touch()
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path))
    with (
        pytest.raises(Unsupported, match=f"{image} lacks ibverbs-providers.*images remove ceph:reef"),
        up(spec_from("rdma-ceph", ["ceph.release=reef"]), backend="vm"),
    ):
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
