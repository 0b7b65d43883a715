"""Accepted links with an unfinished handshake: they use memory before the peer has authenticated."""

from typing import TYPE_CHECKING

from messenger.errors import FaultReason

if TYPE_CHECKING:
    from messenger.core import Core
    from messenger.link import Link


class HalfOpenLinks:
    """The half-open links of one messenger, in total and by the IP address they come from.

    Each new link beyond a limit closes the oldest one: an honest peer finishes its handshake long before its link
    is the oldest.
    """

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._links: dict[int, Link] = {}
        self._by_host: dict[bytes, dict[int, Link]] = {}

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: "Link", now: float) -> None:
        """Add an accepted link; close the oldest one if a limit is exceeded."""
        config = self._core.config
        host = self._by_host.setdefault(link.remote_addr.ip, {})
        self._links[link.id] = host[link.id] = link
        if config.max_half_open_links_per_host and len(host) > config.max_half_open_links_per_host:
            self._close_first(host, f"{len(host)} from {link.remote_addr.host}", now)
        if config.max_half_open_links and len(self._links) > config.max_half_open_links:
            self._close_first(self._links, str(len(self._links)), now)

    def discard(self, link: "Link") -> None:
        """Remove a link that is open or closed now."""
        if self._links.pop(link.id, None) is not None:
            host = self._by_host[link.remote_addr.ip]
            del host[link.id]
            if not host:
                del self._by_host[link.remote_addr.ip]

    def make_room(self, why: str, now: float) -> bool:
        """Close the oldest half-open link; False if there is none."""
        if not self._links:
            return False
        self._close_first(self._links, why, now)
        return True

    @staticmethod
    def _close_first(links: "dict[int, Link]", detail: str, now: float) -> None:
        next(iter(links.values())).fault(FaultReason.CROWDED_OUT, detail, now)
