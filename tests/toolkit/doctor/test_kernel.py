import gzip
import platform
from pathlib import Path

import pytest

from toolkit.doctor import kernel
from toolkit.machine.kvm import kvm

RELEASE = platform.release()
NAMESPACE = Path("/proc/self/ns/net")
OPTION, MODULE = "CONFIG_NET_SCH_NETEM", "sch_netem"


def put(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def publish(root: Path, config: str) -> None:
    (root / "proc").mkdir()
    (root / "proc/config.gz").write_bytes(gzip.compress(config.encode()))


def test_built_in_feature_is_available(tmp_path: Path) -> None:
    publish(tmp_path, f"CONFIG_VETH=m\n{OPTION}=y\n")
    assert kernel.netem(tmp_path) == kernel.Finding(available=True, detail="built into the kernel")


def test_a_feature_that_is_built_in_by_the_index_of_modules(tmp_path: Path) -> None:
    put(tmp_path, f"lib/modules/{RELEASE}/modules.builtin", "kernel/net/sched/sch_netem.ko\n")
    assert kernel.netem(tmp_path).detail == "built into the kernel"


def test_kernel_without_the_feature_is_reported_without_remedy(tmp_path: Path) -> None:
    publish(tmp_path, f"# {OPTION} is not set\nCONFIG_NET_SCH_NETEM_OTHER=y\n")
    finding = kernel.netem(tmp_path)
    assert not finding.available
    assert finding.detail == f"kernel {RELEASE} is built without {OPTION}"
    assert finding.remedy is None


def test_the_configuration_may_lie_in_boot(tmp_path: Path) -> None:
    put(tmp_path, f"boot/config-{RELEASE}", f"{OPTION}=m\n")
    assert kernel.netem(tmp_path).detail == f"module {MODULE} of kernel {RELEASE} is not installed"


@pytest.mark.parametrize("file_name", ["sch_netem.ko", "sch-netem.ko.zst"])
def test_a_module_that_can_be_loaded(tmp_path: Path, file_name: str) -> None:
    put(tmp_path, f"boot/config-{RELEASE}", f"{OPTION}=m\n")
    put(tmp_path, f"lib/modules/{RELEASE}/modules.dep", f"kernel/net/sched/{file_name}:\n")
    assert kernel.netem(tmp_path).detail == "module, loads when first used"


def test_a_module_that_is_loaded(tmp_path: Path) -> None:
    put(tmp_path, f"sys/module/{MODULE}/refcnt", "0\n")
    assert kernel.netem(tmp_path).detail == "module, loaded"


def test_kernel_without_configuration(tmp_path: Path) -> None:
    finding = kernel.soft_roce(tmp_path)
    assert not finding.available
    assert finding.detail == f"kernel {RELEASE} has no module rdma_rxe and hides its configuration"


def test_the_tun_device_is_opened(tmp_path: Path) -> None:
    assert kernel.tun_device(tmp_path / "tun").detail == f"there is no {tmp_path}/tun"
    put(tmp_path, "tun")
    assert kernel.tun_device(tmp_path / "tun").available
    assert not kernel.tun_device(tmp_path).available


def test_check_of_namespaces_stays_in_its_own_namespace() -> None:
    ours = NAMESPACE.readlink()
    finding = kernel.network_namespaces()
    assert finding.detail
    assert NAMESPACE.readlink() == ours


def test_namespaces_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unshare").write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = kernel.network_namespaces()
    assert not finding.available
    assert finding.detail.endswith("unshare failed: Operation not permitted")


def test_kvm_without_a_valid_device_is_unavailable(tmp_path: Path) -> None:
    assert kvm(tmp_path / "kvm").detail == f"there is no {tmp_path}/kvm"
    put(tmp_path, "kvm")
    assert kvm(tmp_path / "kvm").detail == f"{tmp_path}/kvm: Inappropriate ioctl for device"


def test_kvm_of_this_machine_leaves_no_descriptor_open() -> None:
    before = descriptors()
    assert kvm().detail
    assert descriptors() == before


def test_forwarding_rules_need_nft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert kernel.forwarding_rules().detail.startswith("no nft in PATH")


def test_forwarding_rules_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.shutil, "which", lambda _: "/sbin/nft")
    for why, available in (("", True), ("nft: not supported", False)):
        monkeypatch.setattr(kernel.forwarding, "why_not", lambda why=why: why)
        finding = kernel.forwarding_rules()
        assert finding.available is available
        assert finding.detail == (why or "nftables forwards frames at an interface")
