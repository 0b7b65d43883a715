"""Links of msgr v1, ready to use."""

from typing import TYPE_CHECKING

from messenger.v1.acceptor import ACCEPTOR
from messenger.v1.connector import CONNECTOR
from messenger.v1.link import V1Link

if TYPE_CHECKING:
    from messenger.core import Core


def v1_link(core: "Core", link_id: int, *, connector: bool) -> V1Link:
    """A link with the handshake of its role."""
    return V1Link(core, link_id, CONNECTOR if connector else ACCEPTOR, connector=connector)
