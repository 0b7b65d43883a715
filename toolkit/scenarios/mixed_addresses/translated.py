"""MX: a client behind a NAT, on backends with packets."""

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.scenarios.mixed_addresses import MX
from toolkit.scenarios.scenario import ON_NETWORKS
from toolkit.scenarios.shared.packets import PACKETS, expect_all_delivered


@MX.scenario(
    "MX-10",
    "nat_remap",
    priority=2,
    backends=ON_NETWORKS,
    only=PACKETS,
    cases={
        f"{name}, {first} writes": {"pair": PAIRS[name], "first": first}
        for name in ("peers", "client")
        for first in "ab"
    },
)
def nat_remap(lab: Lab, pair: Pair, first: str) -> None:
    """A session survives a NAT that changes its port.

    The receiver of the next packet does not know its connection and answers with an RST. The other side only
    notices when it writes, or when the next dial finds the session: by the announced address, not by the socket's
    port.
    """
    pair.start(lab)
    lab.nat("a", "b")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.nat_flush("a", "b", silent=False)
    second = "b" if first == "a" else "a"
    lab.send(first, second, 3)
    lab.expect_broken(first, 1)
    lab.send(second, first, 3)
    expect_all_delivered(lab, 5)
