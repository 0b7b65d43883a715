"""Links of msgr v2, ready to use."""

from typing import TYPE_CHECKING

from messenger.v2.acceptor import ACCEPTOR
from messenger.v2.connector import CONNECTOR
from messenger.v2.link import V2Link

if TYPE_CHECKING:
    from messenger.core import Core


def v2_link(core: "Core", link_id: int, *, connector: bool) -> V2Link:
    """A link with the handshake of its role."""
    return V2Link(core, link_id, CONNECTOR if connector else ACCEPTOR, connector=connector)
