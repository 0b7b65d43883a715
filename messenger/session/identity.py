"""Whether a dial may have to do with the session that it names by its addresses (protocol.md §4.9, §4.12)."""

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import NEW_ENTITY_NUM, AuthName, EntityName
from messenger.errors import FaultReason, PeerError
from messenger.rules import RuleOptions
from messenger.session.session import Session


def check_identity(
    existing: Session | None, peer: EntityName, auth_name: AuthName | None, rules: RuleOptions
) -> None:
    """Refuse a dial from the addresses of a session by somebody whom the session is not with.

    Args:
        existing: the session found under the addresses.
        peer: what the peer says it is; without a number where it has not told one.
        auth_name: who it proved to be, if anybody.
        rules: ``peer_identity`` says what is compared.

    Raises:
        PeerError: PEER_IDENTITY.
    """
    if existing is None or rules.peer_identity == "addresses":
        return
    if peer.type is not existing.peer_type:
        raise PeerError(FaultReason.PEER_IDENTITY, f"{peer.type.label}, the session is with {existing.peer_name}")
    proven = existing.peer_auth_name
    if auth_name is not None and proven is not None:
        # A client's number may change, who it is does not.
        if auth_name != proven:
            raise PeerError(FaultReason.PEER_IDENTITY, f"{auth_name}, the session is with {proven}")
        return
    known = existing.peer_name.num
    if NEW_ENTITY_NUM not in {peer.num, known} and peer.num != known:
        raise PeerError(FaultReason.PEER_IDENTITY, f"{peer}, the session is with {existing.peer_name}")


def check_host(addr: EntityAddr, remote_addr: EntityAddr, rules: RuleOptions) -> None:
    """Refuse an address on another host than that which the peer dials from.

    Raises:
        PeerError: MALFORMED.
    """
    if rules.peer_addresses == "same_host" and not addr.is_blank_ip and addr.ip != remote_addr.ip:
        raise PeerError(FaultReason.MALFORMED, f"{addr} dials from {remote_addr}")


def check_v2_addr(
    addr: EntityAddr, remote_addr: EntityAddr, before: EntityAddr | None, rules: RuleOptions
) -> None:
    """The same for the first address of a v2 peer, whose type counts too, and what it gave before on the link.

    Raises:
        PeerError: MALFORMED.
    """
    if rules.peer_addresses == "any":
        return
    check_host(addr, remote_addr, rules)
    if addr.type not in {AddressType.MSGR2, AddressType.ANY}:
        raise PeerError(FaultReason.MALFORMED, f"{addr} is no address for v2")
    if before is not None and addr != before:
        raise PeerError(FaultReason.MALFORMED, f"{addr}, but {before} before")
