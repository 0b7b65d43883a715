"""Entity names by address, learnt from handshakes, for links that resume a session without announcing them."""

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import ALL_FEATURES
from toolkit.dissect.keys.recent import Recent

_MOST = 1 << 16
_LABELS = {int(kind): kind.label for kind in EntityType}


class Names:
    """Names by address and features by session, shared by all links of a capture. The oldest are dropped."""

    def __init__(self) -> None:
        self._names: Recent[tuple[bytes, int, int], EntityName] = Recent(_MOST)
        self._features: Recent[tuple[int, int], int] = Recent(_MOST)

    def learn(self, addrs: AddrVec, name: EntityName) -> None:
        """Store the name of a peer under the addresses that it announced."""
        for addr in addrs:
            self._names.put(_key(addr), name)

    def name_at(self, addr: EntityAddr, kind: EntityType) -> EntityName:
        """Return the entity at an address; without a number if no link has announced it."""
        name = self._names.get(_key(addr))
        return name if name is not None and name.type is kind else EntityName(kind)

    def learn_session(self, client_cookie: int, server_cookie: int, features: int) -> None:
        """Store the features of a new session."""
        self._features.put((client_cookie, server_cookie), features)

    def session_features(self, client_cookie: int, server_cookie: int) -> int:
        """Return the features of a session that is resumed."""
        known = self._features.get((client_cookie, server_cookie))
        return ALL_FEATURES if known is None else known


def _key(addr: EntityAddr) -> tuple[bytes, int, int]:
    return addr.ip, addr.port, addr.nonce


def source_name(kind: int, num: int) -> str:
    """Format a name as Ceph's logs do, from a header of any content."""
    label = _LABELS.get(kind, "unknown")
    return f"{label}.{num if num >= 0 else '?'}"
