"""Every capability the project knows to ask for, by the name that tests and scenarios use."""

from functools import partial

from messenger.errors import LocalError
from toolkit.doctor import images, kernel
from toolkit.machine import bridges, kvm, programs
from toolkit.machine.capability import Capability

CAPABILITIES = (
    Capability("python", "everything", programs.python),
    Capability("compiled", "the messenger at less CPU", programs.compiled_modules),
    Capability("hardware-crc", "checksums at memory speed", programs.hardware_crc),
    Capability("ceph-mon", "a real monitor as the peer", programs.ceph_mon),
    Capability(
        "ceph-osd", "real OSDs, objects and all", partial(programs.program, "ceph-osd", packages=("ceph-osd",))
    ),
    Capability(
        "ceph-mds", "a file system of Ceph's", partial(programs.program, "ceph-mds", packages=("ceph-mds",))
    ),
    Capability(
        "ceph-authtool",
        "keyrings by Ceph's own tool",
        partial(programs.program, "ceph-authtool", packages=("ceph-common",)),
    ),
    Capability(
        "ceph",
        "Ceph's own command line as the peer",
        partial(programs.program, "ceph", packages=("ceph-common",)),
    ),
    *(
        Capability(f"ceph-image-{release}", f"real daemons of Ceph {release}", partial(images.ceph_image, release))
        for release in images.RELEASES
    ),
    Capability(
        "tshark",
        "captures as Wireshark reads them",
        partial(programs.program, "tshark", packages=("tshark",)),
    ),
    Capability(
        "chromium",
        "reports and notebooks in a real browser",
        partial(programs.program, "chromium", "chromium-browser", "google-chrome", packages=("chromium",)),
    ),
    Capability("docker", "a container per node, other Ceph releases", programs.docker),
    Capability("docker-bridges", "containers that reach each other", bridges.docker_bridges),
    Capability("docker-images", "our node and Ceph's releases in containers", images.docker_images),
    Capability("swarm", "containers on several machines", programs.swarm),
    Capability("capture", "packets off the wire", kernel.packet_sockets),
    Capability("netns", "hosts as network namespaces", kernel.network_namespaces),
    Capability(
        "iproute2",
        "interfaces, addresses and sockets as the kernel shows them",
        partial(programs.program, "ss", packages=("iproute2",)),
    ),
    Capability(
        "nft",
        "partitions and refusals between namespaces",
        partial(programs.program, "nft", packages=("nftables",)),
    ),
    Capability("tun", "packets through user space", kernel.tun_device),
    Capability("netem", "delay, loss and reordering by the kernel", kernel.netem),
    Capability("rxe", "RDMA without RDMA hardware", kernel.soft_roce),
    Capability("pyverbs", "links over RDMA (ms_type = async+rdma)", programs.pyverbs),
    Capability("kvm", "micro-VMs at native speed", kvm.kvm),
    Capability("qemu", "micro-VMs: netem, RDMA and Ceph's kernel client", programs.qemu),
    Capability("vm", "Debian's kernel in a micro-VM, whatever this one lacks", images.kernel_image),
)


def find(name: str) -> Capability:
    """The capability of that name.

    Raises:
        LocalError: there is none.
    """
    for capability in CAPABILITIES:
        if capability.name == name:
            return capability
    known = ", ".join(capability.name for capability in CAPABILITIES)
    raise LocalError(f"no capability {name!r}; known: {known}")
