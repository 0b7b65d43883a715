"""Creates links of msgr v1."""

from typing import TYPE_CHECKING

from messenger.v1.acceptor import ACCEPTOR
from messenger.v1.connector import CONNECTOR
from messenger.v1.link import V1Link

if TYPE_CHECKING:
    from messenger.home import Home


def v1_link(home: "Home", link_id: int, *, connector: bool) -> V1Link:
    """Create a link with the handshake table of its role."""
    return V1Link(home, link_id, CONNECTOR if connector else ACCEPTOR, connector=connector)
