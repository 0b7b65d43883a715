"""All capabilities that the project uses, by the names that tests and scenarios refer to."""

from functools import partial

from messenger.errors import LocalError
from toolkit.doctor import images, kernel
from toolkit.machine import bridges, kvm, programs
from toolkit.machine.capability import Capability

CAPABILITIES = (
    Capability("python", "all of msgrlab", programs.python),
    Capability("compiled", "the messenger and the decoder with less CPU time", programs.compiled_modules),
    Capability("hardware-crc", "checksums at memory speed", programs.hardware_crc),
    Capability("ceph-mon", "a real monitor as the peer", programs.ceph_mon),
    Capability(
        "ceph-osd", "real OSDs and their objects", partial(programs.program, "ceph-osd", packages=("ceph-osd",))
    ),
    Capability(
        "ceph-mds", "a file system of Ceph's", partial(programs.program, "ceph-mds", packages=("ceph-mds",))
    ),
    Capability(
        "ceph-authtool",
        "keyrings made by Ceph's own tool",
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
        "captures decoded by Wireshark",
        partial(programs.program, "tshark", packages=("tshark",)),
    ),
    Capability(
        "fio",
        "writes of the kernel's Ceph client, read back and verified",
        partial(programs.program, "fio", packages=("fio",)),
    ),
    Capability(
        "chromium",
        "reports and notebooks in a real browser",
        partial(programs.program, "chromium", "chromium-browser", "google-chrome", packages=("chromium",)),
    ),
    Capability("docker", "a container per node, other Ceph releases", programs.docker),
    Capability("docker-bridges", "traffic between containers", bridges.docker_bridges),
    Capability("docker-images", "msgrlab's node and Ceph's releases in containers", images.docker_images),
    Capability("swarm", "containers on several machines", programs.swarm),
    Capability("capture", "captures of live packets", kernel.packet_sockets),
    Capability("netns", "hosts as network namespaces", kernel.network_namespaces),
    Capability(
        "iproute2",
        "reading interfaces, addresses and sockets",
        partial(programs.program, "ss", packages=("iproute2",)),
    ),
    Capability(
        "nft",
        "partitions and refusals between namespaces",
        partial(programs.program, "nft", packages=("nftables",)),
    ),
    Capability("nft-fwd", "without netem, impaired links at their own cost alone", kernel.forwarding_rules),
    Capability("tun", "packets through user space", kernel.tun_device),
    Capability("netem", "delay, loss and reordering by the kernel", kernel.netem),
    Capability("rxe", "RDMA without RDMA hardware", kernel.soft_roce),
    Capability("pyverbs", "links over RDMA (ms_type = async+rdma)", programs.pyverbs),
    Capability("kvm", "micro-VMs at native speed", kvm.kvm),
    Capability("qemu", "micro-VMs: netem, RDMA and Ceph's kernel client", programs.qemu),
    Capability("vm", "Debian's kernel in a micro-VM, for features that this kernel lacks", images.kernel_image),
    Capability(
        "uml", "micro-VMs at native speed without KVM, without RDMA and partitions", images.user_mode_linux
    ),
)


def find(name: str) -> Capability:
    """Return the capability ``name``.

    Raises:
        LocalError: no capability has that name.
    """
    for capability in CAPABILITIES:
        if capability.name == name:
            return capability
    known = ", ".join(capability.name for capability in CAPABILITIES)
    raise LocalError(f"no capability {name!r}; known: {known}")
