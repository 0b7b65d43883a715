"""The survey of a target before the first case: its type, features, modes and policy for this peer."""

import asyncio
from dataclasses import replace

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import Fault, FaultError, FaultReason, MsgrError
from messenger.protocols import Protocol
from messenger.v1.wire import Ack as V1Ack
from messenger.v1.wire import ServerIdentify
from messenger.v2.wire import FLAG_LOSSY, Ack, AuthBadMethod
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import OPEN
from toolkit.conformance.login import Login, without_key
from toolkit.conformance.target import Facts, Target
from toolkit.errors import ScenarioFailed, Unsupported
from toolkit.node.raw.v1 import RawV1Message
from toolkit.node.raw.v2 import RawMessage
from toolkit.probe.wire import WireFindings, ask


def survey(addr: EntityAddr, login: Login, patience_s: float, *, key: str = "--keyring") -> Target:
    """Probe an address and return the target, ready for cases.

    Args:
        addr: address of the target; its type selects the protocol.
        login: identity and credentials of the peer.
        patience_s: time limit of each answer.
        key: name of the option that gives a key, for the reason of skipped cases.

    Raises:
        LocalError: keyring or key log cannot be used.
        Unsupported: no messenger of that protocol can be reached at the address.
    """
    found = _ask(addr, login, patience_s)
    if found.protocol != Protocol.of(addr):
        raise Unsupported(
            f"{addr} speaks msgr {found.protocol}; give it as {found.protocol}:{addr.host}:{addr.port}"
        )
    facts = Facts(found.entity_type or EntityType.ANY, found.msgr2_supported, list(found.methods))
    if found.v1 is not None:
        addr = replace(addr, nonce=found.v1.addr.nonce)
    auth_client, addr = login.resolve(addr, facts.entity_type)
    by_cephx = auth_client is not None
    if auth_client is None:
        auth_client = without_key(login.name, login.entity)
        if found.v1 is None and AuthMethod.NONE not in facts.methods:
            facts.login_error = f"the target requires authentication; needs {key}"
    target = Target(addr, login.entity, auth_client, by_cephx, patience_s, facts)
    if Protocol.of(addr) is Protocol.V1:
        _survey_v1(target)
    elif not facts.login_error:
        _survey_v2(target)
    return target


def _ask(addr: EntityAddr, login: Login, patience_s: float) -> WireFindings:
    found = WireFindings()
    try:
        asyncio.run(ask(addr, login.name, max(patience_s, 1.0), found))
    except FaultError as error:
        if not found.protocol:
            raise Unsupported(f"{addr}: {error.fault}") from None
    except TimeoutError:
        if not found.protocol:
            fault = Fault(FaultReason.READY_TIMEOUT, f"no answer within {patience_s:g} s")
            raise Unsupported(f"{addr}: {fault}") from None
    return found


def _survey_v2(target: Target) -> None:
    facts = target.facts
    for mode in (ConMode.CRC, ConMode.SECURE):
        with Attempt(target) as attempt:
            try:
                peer = attempt.greeted(mode=mode)
                peer.auth_request()
                peer.auth_more()
                peer.signature()
            except MsgrError as error:
                facts.login_error = _reason(attempt, error)
            else:
                facts.modes.append(mode)
    if not facts.modes:
        return
    facts.login_error = ""
    with Attempt(target) as attempt:
        try:
            peer = attempt.admitted()
            ident = attempt.ident(peer)
        except MsgrError as error:
            facts.session_error = _reason(attempt, error)
            return
        facts.lossless = not ident.flags & FLAG_LOSSY
        peer.send_messages(1)
        if peer.fate() == OPEN:
            facts.replies = bool(peer.seen_of(Ack) or peer.seen_of(RawMessage)) or _later(peer, Ack, RawMessage)


def _survey_v1(target: Target) -> None:
    facts = target.facts
    with Attempt(target) as attempt:
        try:
            peer = attempt.dial_v1()
            peer.banner()
            target.addr = replace(target.addr, nonce=peer.expect(ServerIdentify).server_addr.nonce)
        except MsgrError as error:
            facts.session_error = _reason(attempt, error)
            return
    with Attempt(target) as attempt:
        try:
            peer = attempt.open_v1()
        except MsgrError as error:
            facts.login_error = _reason(attempt, error)
            return
        facts.lossless = not peer.lossy
        facts.signed = bool(peer.result.session_key)
        peer.send_messages(1)
        if peer.fate() == OPEN:
            facts.replies = bool(peer.seen_of(V1Ack) or peer.seen_of(RawV1Message))
            facts.replies = facts.replies or _later(peer, V1Ack, RawV1Message)


def _later(peer: object, *kinds: type) -> bool:
    """True if the next frame is of one of ``kinds``: the answer to MPing may follow that to the keepalive."""
    frame = peer.await_next()  # type: ignore[attr-defined]
    return isinstance(frame, kinds)


def _reason(attempt: Attempt, error: MsgrError) -> str:
    """Return the reason why the handshake of an attempt failed."""
    refused = [line for line in attempt.log if AuthBadMethod.TAG.name in line]
    if isinstance(error, ScenarioFailed) and refused:
        return "the target refused the credentials"
    return str(error)
