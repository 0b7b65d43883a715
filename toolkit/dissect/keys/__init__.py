"""Keys of links: session keys, connection secrets, signatures (docs/protocol.md §4.6, §4.7, §5)."""

from toolkit.dissect.keys.book import KeyBook
from toolkit.dissect.keys.link import KEY_MESSAGES, LinkKeys

__all__ = ["KEY_MESSAGES", "KeyBook", "LinkKeys"]
