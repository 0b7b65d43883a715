"""Checks of a peer's identity: its name, number and addresses (docs/protocol.md §4.9, §4.12)."""

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import NEW_ENTITY_NUM, AuthName, EntityName, EntityType
from messenger.errors import AuthError, Fault, FaultReason, PeerError
from messenger.local_entity import LocalEntity
from messenger.rules import RuleOptions
from messenger.session.policy import Policy
from messenger.session.session import Session


def check_claim(peer_type: EntityType, auth_name: AuthName | None) -> None:
    """Refuse a peer that claims another entity type than it has proven: the type selects its policy.

    Daemons may also dial as clients: modules of managers do.

    Raises:
        AuthError: AUTH_DENIED.
    """
    if auth_name is not None and peer_type not in {auth_name.type, EntityType.CLIENT}:
        raise AuthError(FaultReason.AUTH_DENIED, f"{auth_name} says that it is a {peer_type.label}")


def check_identity(
    existing: Session | None, peer: EntityName, auth_name: AuthName | None, rules: RuleOptions
) -> Fault | None:
    """Compare the peer of a session with a peer that dials from the same addresses.

    Args:
        existing: the session found under the addresses.
        peer: the name that the peer announced; without a number if it announced none.
        auth_name: the entity as which it authenticated, if any.
        rules: ``peer_identity`` selects what is compared.

    Returns:
        The fault with which the session ends in favour of the peer, because it has no link and the peer has
        proven another name, so the session's peer may have used these addresses by mistake or malice. None if the
        session continues.

    Raises:
        PeerError: PEER_IDENTITY: the peer is refused.
    """
    if existing is None or rules.peer_identity == "addresses":
        return None
    why = _difference(existing, peer, auth_name)
    if why is None:
        return None
    proven = existing.peer_auth_name
    if existing.link is None and auth_name is not None and proven is not None and auth_name != proven:
        return Fault(FaultReason.REPLACED, f"{why}; no link carries the session")
    raise PeerError(FaultReason.PEER_IDENTITY, why)


def _difference(existing: Session, peer: EntityName, auth_name: AuthName | None) -> str | None:
    if peer.type is not existing.peer_type:
        return f"{peer.type.label}, the session is with {existing.peer_name}"
    proven = existing.peer_auth_name
    if auth_name is not None and proven is not None:
        # The number of a client may change, its authenticated name does not.
        return None if auth_name == proven else f"{auth_name}, the session is with {proven}"
    known = (
        existing.peer_name.num if existing.confirmed else NEW_ENTITY_NUM
    )  # a session that was reset has no peer
    if NEW_ENTITY_NUM not in {peer.num, known} and peer.num != known:
        return f"{peer}, the session is with {existing.peer_name}"
    return None


def check_not_own(addrs: AddrVec, me: LocalEntity, local_addr: EntityAddr) -> None:
    """Refuse a peer that announces an address of this messenger: it would get this messenger's loopback messages.

    Args:
        addrs: the addresses that the peer announces.
        me: this messenger.
        local_addr: local address of the link.

    Raises:
        PeerError: PEER_IDENTITY.
    """
    for addr in addrs:
        if addr.port and me.is_own(addr, local_addr):
            raise PeerError(FaultReason.PEER_IDENTITY, f"{addr} is an address of this messenger")


def check_host(addr: EntityAddr, remote_addr: EntityAddr, rules: RuleOptions) -> None:
    """Refuse an address on another host than the one from which the peer dials.

    Raises:
        PeerError: MALFORMED.
    """
    if rules.peer_addresses == "same_host" and not addr.is_blank_ip and addr.ip != remote_addr.ip:
        raise PeerError(FaultReason.MALFORMED, f"{addr} dials from {remote_addr}")


def check_v2_addr(
    addr: EntityAddr, remote_addr: EntityAddr, before: EntityAddr | None, rules: RuleOptions
) -> None:
    """Check the first address of a v2 peer: its host, its type, and that it does not change on the link.

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


def check_hello_addr(addr: EntityAddr, mine: AddrVec, rules: RuleOptions) -> None:
    """Refuse a connector that dialled a port or nonce which is not that of one of our addresses.

    Raises:
        PeerError: WRONG_TARGET.
    """
    if rules.hello_addr == "own" and all((addr.port, addr.nonce) != (own.port, own.nonce) for own in mine):
        raise PeerError(FaultReason.WRONG_TARGET, f"the peer has dialled {addr}, this is {mine}")


def check_port(addr: EntityAddr, policy: Policy, rules: RuleOptions) -> None:
    """Refuse a connector whose address cannot be dialled, if the policy requires this side to dial it again.

    Raises:
        PeerError: MALFORMED.
    """
    dials = not (policy.lossy or policy.server)
    if rules.portless_peer == "refuse" and dials and not addr.port:
        raise PeerError(FaultReason.MALFORMED, f"{addr} has no port to be dialled at again")


def check_number(session: Session, num: int, rules: RuleOptions) -> None:
    """Refuse a server with another number than the session's peer had before.

    Raises:
        PeerError: PEER_NUMBER.
    """
    known = session.peer_name.num
    if rules.server_number == "close" and known not in {NEW_ENTITY_NUM, num}:
        raise PeerError(FaultReason.PEER_NUMBER, f"{num}, the session is with {session.peer_name}")
