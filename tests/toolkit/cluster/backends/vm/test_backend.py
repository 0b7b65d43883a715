"""Errors of the backend ``vm`` before it boots a guest, and clusters on user-mode Linux."""

from pathlib import Path

import pytest

from tests.support.clusters import answer_of, done, msgrlab, state
from tests.support.guests import CLUSTERS
from toolkit.cluster import up
from toolkit.cluster.chroot import IMAGES_VARIABLE
from toolkit.cluster.spec_lookup import spec_from
from toolkit.errors import Unsupported
from toolkit.machine.leases import leases
from toolkit.machine.vm.kernels import VARIABLE

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
    monkeypatch.delenv(VARIABLE, raising=False)
    with (
        pytest.raises(Unsupported, match="no qemu-system-x86_64 in PATH"),
        up("two-peers", backend="vm"),
    ):
        pass
    assert list(leases()) == []


@pytest.mark.needs("uml", "iproute2")
@pytest.mark.xdist_group(CLUSTERS)
def test_a_cluster_on_user_mode_linux_has_links_but_no_partitions(
    state: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "uml")
    done("up", "two-peers", "--backend", "vm", "--name", "pair")
    try:
        done("fault", "link", "a", "b", "delay-ms=20")
        done("tell", "a", "send", "b", "--count", "3")
        assert "delay 20ms" in done("exec", "a", "--", "tc", "qdisc")
        refused = msgrlab("fault", "partition", "a", "b")
        assert "the nftables of Linux 7" in refused.stderr
        assert refused.returncode == 3
        (status,) = answer_of("status", "--json")["clusters"]
        assert status["faults"] == ["link a b delay-ms=20"]
    finally:
        done("down", "pair")


@pytest.mark.needs("pyverbs")
def test_a_cluster_with_rdma_is_refused_on_user_mode_linux(state: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "uml")
    refused = msgrlab("up", "rdma-two-peers", "--backend", "vm")
    assert (refused.returncode, refused.stderr) == (
        3,
        f"msgrlab: user-mode Linux has no RDMA devices: unset {VARIABLE}, or set it to bookworm\n",
    )
