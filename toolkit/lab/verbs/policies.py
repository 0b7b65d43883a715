"""Pairs of policies for two nodes ``a`` and ``b``, of which a dials first."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Pair:
    """The entities and the policies of nodes a and b."""

    policy_a: str
    policy_b: str
    entity_a: str = "osd.1"
    entity_b: str = "osd.2"
    both_dial: bool = False
    lossless: bool = True

    def start(self, lab: "Lab", **options: Any) -> None:  # noqa: ANN401 - Config options
        """Describe and start both nodes with these Config options."""
        lab.two(self.policy_a, self.policy_b, self.entity_a, self.entity_b, a_listens=self.both_dial, **options)


PAIRS = {
    "peers": Pair("lossless_peer", "lossless_peer", both_dial=True),
    "reuse": Pair("lossless_peer_reuse", "lossless_peer_reuse", both_dial=True),
    "client": Pair("lossless_client", "stateful_server", "client.7", "mds.0"),
    "lossy": Pair("lossy_client", "stateless_server", "client.7", "osd.2", lossless=False),
}
