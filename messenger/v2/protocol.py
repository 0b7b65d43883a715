"""Creates links of msgr v2."""

from typing import TYPE_CHECKING

from messenger.v2.acceptor import ACCEPTOR
from messenger.v2.connector import CONNECTOR
from messenger.v2.link import V2Link

if TYPE_CHECKING:
    from messenger.home import Home


def v2_link(home: "Home", link_id: int, *, connector: bool) -> V2Link:
    """Create a link with the handshake table of its role."""
    return V2Link(home, link_id, CONNECTOR if connector else ACCEPTOR, connector=connector)
