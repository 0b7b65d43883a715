"""Rules that implementations of the protocol disagree about, each an option with a default.

What AsyncMessenger ("classic"), crimson and the kernel client do, and why a default is what it is, is in
docs/disputes.md. :data:`PROFILES` has the settings of one implementation together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from messenger.errors import LocalError
from messenger.options import ServiceOptions


@dataclass(slots=True, kw_only=True)
class RuleOptions(ServiceOptions):
    """Disputed rules. Where an option says nothing else, it is about both protocols and both roles."""

    restarted_peer: Literal["proven", "stale", "guess"] = "proven"
    """v2: a CLIENT_IDENT whose global_seq is behind the remembered one. ``stale``: an outdated attempt, dropped.
    ``guess``, as 20.2.4: if its cookie differs and the session is neither READY nor STANDBY, the session ends by a
    reset event and a new one opens. ``proven``: if it was sent after the remembered one had come, the peer has
    restarted, and goes on as with a higher global_seq."""
    race_winner: Literal["yields", "insists"] = "yields"
    """Whose dial wins a race, but fails: it ``insists``, telling the peer to WAIT for ever, or it ``yields`` and
    takes the peer's dial after a WAIT in vain."""
    skipped_seq: Literal["accept", "fault"] = "accept"
    """A message that comes without the one before it."""
    ack_beyond_sent: Literal["ignore", "fault"] = "ignore"
    """An acknowledgement of messages that were never sent: what was sent is acknowledged, or the link faults."""
    in_seq_beyond_sent: Literal["adopt", "fault"] = "adopt"
    """A peer that reconnects and claims to have more than was ever sent: count on from there, or fault."""
    peer_identity: Literal["name", "addresses"] = "name"
    """What a dial must have in common with the session it is to take over: its addresses alone, or the type,
    number and authenticated name of the peer as well."""
    peer_addresses: Literal["any", "same_host"] = "any"
    """Addresses that a peer may give as its own: any, or those on the host that it dials from, and on v2 of a type
    that v2 is spoken at, and always the same on a link."""
    server_addresses: Literal["contain", "exact"] = "contain"
    """v2: what SERVER_IDENT must say: its addresses contain the dialled one, or its msgr2 address is that one."""
    server_number: Literal["adopt", "close"] = "adopt"
    """v2: SERVER_IDENT with another gid than the session's peer had: the peer has that number from now on, or the
    session ends."""
    hello_addr: Literal["any", "own"] = "any"
    """v2: the address that a connector has dialled, as its HELLO says: any, or its port and nonce must be those of
    an address of this side."""
    portless_peer: Literal["accept", "refuse"] = "accept"
    """A connector whose address has port 0, under a policy by which this side dials the peer again."""
    server_keepalive: Literal["answer", "fault"] = "answer"
    """A KEEPALIVE2 from the acceptor."""
    server_wait: Literal["obey", "fault"] = "obey"
    """A WAIT from the acceptor: wait for its dial, or treat this dial as failed."""
    reconnect_cookies: Literal["both", "client"] = "both"
    """v2: which cookies of SESSION_RECONNECT must match those of the session: both, or only the client_cookie.
    Otherwise the acceptor answers SESSION_RESET, and the connector starts a new session."""
    partial_reset: Literal["obey", "fault"] = "obey"
    """v2: a SESSION_RESET that is not full."""
    aborted_message: Literal["drop", "fault"] = "drop"
    """v2: a message that its sender aborted; on v1 it always is a fault."""
    control_segments: Literal["one", "last"] = "one"
    """v2: a control frame with several segments: a fault, or its last segment counts."""
    segment_alignment: Literal["ignored", "checked"] = "ignored"
    """v2: alignments in a preamble: whatever they are, or 0 and powers of two alone."""
    unknown_message: Literal["deliver", "drop", "fault"] = "deliver"
    """A message of a type that is not known here: its bytes are delivered, it is dropped, or the link faults."""
    standby_keepalive: Literal["wake", "stay"] = "wake"
    """A keepalive alone makes a session dial that is in STANDBY, or waits until there is a link."""

    def check_rules(self) -> None:
        """Refuse settings that do not exist.

        Raises:
            LocalError: which option, and its settings.
        """
        for option, settings in SETTINGS.items():
            value = getattr(self, option)
            if value not in settings:
                raise LocalError(f"{option} = {value!r}: give one of {', '.join(settings)}")


SETTINGS: Mapping[str, tuple[str, ...]] = {
    field.name: get_args(field.type) for field in fields(RuleOptions) if field.name in RuleOptions.__annotations__
}
"""The settings of every rule, the default first."""

DEFAULT_RULES = RuleOptions()

PROFILES: Mapping[str, Mapping[str, str]] = {
    "classic": {
        "restarted_peer": "guess",
        "race_winner": "insists",
        "peer_identity": "addresses",
        "reconnect_cookies": "client",
        "control_segments": "last",
        "segment_alignment": "checked",
        "unknown_message": "fault",
        "standby_keepalive": "stay",
    },
    "crimson": {
        "restarted_peer": "stale",
        "race_winner": "insists",
        "peer_addresses": "same_host",
        "server_addresses": "exact",
        "server_number": "close",
        "hello_addr": "own",
        "portless_peer": "refuse",
        "reconnect_cookies": "client",
        "control_segments": "last",
        "unknown_message": "fault",
    },
    "kernel": {
        "skipped_seq": "fault",
        "server_addresses": "exact",
        "server_keepalive": "fault",
        "server_wait": "fault",
        "partial_reset": "fault",
        "aborted_message": "fault",
        "unknown_message": "drop",
    },
}
"""What an implementation sets otherwise than the defaults; the kernel's are those of a client."""


def rules_of(implementation: str) -> dict[str, str]:
    """The rules of an implementation, as arguments of :class:`messenger.config.Config`.

    Raises:
        LocalError: there is no such profile.
    """
    profile = PROFILES.get(implementation)
    if profile is None:
        raise LocalError(f"no rules of {implementation!r}; known: {', '.join(PROFILES)}")
    return dict(profile)
