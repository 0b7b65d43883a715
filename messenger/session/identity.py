"""Whether a peer is who it should be, and where: names, numbers and addresses (protocol.md §4.9, §4.12)."""

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import NEW_ENTITY_NUM, AuthName, EntityName
from messenger.errors import FaultReason, PeerError
from messenger.rules import RuleOptions
from messenger.session.policy import Policy
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


def check_hello_addr(addr: EntityAddr, mine: AddrVec, rules: RuleOptions) -> None:
    """Refuse a connector that has dialled an address with another port or nonce than this side has.

    Raises:
        PeerError: WRONG_TARGET.
    """
    if rules.hello_addr == "own" and all((addr.port, addr.nonce) != (own.port, own.nonce) for own in mine):
        raise PeerError(FaultReason.WRONG_TARGET, f"the peer has dialled {addr}, this is {mine}")


def check_port(addr: EntityAddr, policy: Policy, rules: RuleOptions) -> None:
    """Refuse a connector whose address cannot be dialled, if the policy makes this side dial it again.

    Raises:
        PeerError: MALFORMED.
    """
    dials = not (policy.lossy or policy.server)
    if rules.portless_peer == "refuse" and dials and not addr.port:
        raise PeerError(FaultReason.MALFORMED, f"{addr} has no port to be dialled at again")


def check_number(session: Session, num: int, rules: RuleOptions) -> None:
    """Refuse a server whose number is not the one that the session's peer had before.

    Raises:
        PeerError: PEER_NUMBER.
    """
    known = session.peer_name.num
    if rules.server_number == "close" and known not in {NEW_ENTITY_NUM, num}:
        raise PeerError(FaultReason.PEER_NUMBER, f"{num}, the session is with {session.peer_name}")
