"""Rules on which implementations of the protocol disagree, each an option with a default.

docs/disputes.md compares AsyncMessenger ("classic"), crimson and the kernel client, and gives the reason for each
default. :data:`PROFILES` lists the settings of each implementation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from messenger.errors import LocalError
from messenger.options import ServiceOptions


@dataclass(slots=True, kw_only=True)
class RuleOptions(ServiceOptions):
    """Disputed rules. Unless an option says otherwise, it applies to both protocols and both roles."""

    restarted_peer: Literal["proven", "stale", "guess"] = "proven"
    """v2: a CLIENT_IDENT whose global_seq is below the remembered one. ``stale``: drop it as an outdated attempt.
    ``guess``, as 20.2.4: if its cookie differs and the session is neither READY nor STANDBY, end the session with
    a reset event and open a new one. ``proven``: if it was sent after the remembered one arrived, the peer has
    restarted: continue as with a higher global_seq."""
    race_winner: Literal["yields", "insists"] = "yields"
    """The winner of a connection race whose own dial fails: it ``insists`` and answers WAIT for ever, or it
    ``yields`` and accepts the peer's dial if the peer has waited in vain."""
    skipped_seq: Literal["accept", "fault"] = "accept"
    """A message that arrives without its predecessor in the sequence."""
    ack_beyond_sent: Literal["ignore", "fault"] = "ignore"
    """An acknowledgement of messages that were never sent: acknowledge all that was sent, or fault the link."""
    in_seq_beyond_sent: Literal["adopt", "fault"] = "adopt"
    """A reconnecting peer claims to have received more than was ever sent: adopt its number, or fault."""
    peer_identity: Literal["name", "addresses"] = "name"
    """What must match before an incoming link may take over a session: the peer's addresses only, or also its
    type, number and authenticated name."""
    peer_addresses: Literal["any", "same_host"] = "any"
    """Addresses that a peer may announce: any, or only those on the host from which it dials (on v2: of a type
    that v2 accepts, and always the same ones on a link)."""
    server_addresses: Literal["contain", "exact"] = "contain"
    """v2: check of SERVER_IDENT: its addresses contain the dialled one, or its msgr2 address equals that one."""
    server_number: Literal["adopt", "close"] = "adopt"
    """v2: a SERVER_IDENT with another gid than the session's peer had: adopt the new number, or end the
    session."""
    hello_addr: Literal["any", "own"] = "any"
    """v2: the address that a connector's HELLO says it dialled: any, or its port and nonce must be those of one of
    this messenger's addresses."""
    portless_peer: Literal["accept", "refuse"] = "accept"
    """A connector whose address has port 0, under a policy with which this side would dial the peer again."""
    server_keepalive: Literal["answer", "fault"] = "answer"
    """A KEEPALIVE2 from the acceptor."""
    server_wait: Literal["obey", "fault"] = "obey"
    """A WAIT from the acceptor: wait until it dials, or treat the dial as failed."""
    reconnect_cookies: Literal["both", "client"] = "both"
    """v2: which cookies of SESSION_RECONNECT must match those of the session: both, or only the client_cookie.
    Otherwise the acceptor answers SESSION_RESET, and the connector starts a new session."""
    partial_reset: Literal["obey", "fault"] = "obey"
    """v2: a SESSION_RESET with full = 0."""
    aborted_message: Literal["drop", "fault"] = "drop"
    """v2: a message that its sender aborted; with v1 this always is a fault."""
    control_segments: Literal["one", "last"] = "one"
    """v2: a control frame with several segments: fault, or read the last segment."""
    segment_alignment: Literal["ignored", "checked"] = "ignored"
    """v2: alignments in a preamble: ignore them, or accept only 0 and powers of two."""
    unknown_message: Literal["deliver", "drop", "fault"] = "deliver"
    """A message of an unknown type: deliver its bytes, drop it, or fault the link."""
    standby_keepalive: Literal["wake", "stay"] = "wake"
    """A keepalive on a session in STANDBY: dial, or wait until there is a link."""

    def check_rules(self) -> None:
        """Check that every rule has one of its settings.

        Raises:
            LocalError: a rule has an unknown setting; the error lists the accepted ones.
        """
        for option, settings in SETTINGS.items():
            value = getattr(self, option)
            if value not in settings:
                raise LocalError(f"{option} = {value!r}: give one of {', '.join(settings)}")


SETTINGS: Mapping[str, tuple[str, ...]] = {
    field.name: get_args(field.type) for field in fields(RuleOptions) if field.name in RuleOptions.__annotations__
}
"""The accepted settings of every rule, the default first."""

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
"""The rules in which each implementation differs from the defaults; the kernel's are those of a client."""


def rules_of(implementation: str) -> dict[str, str]:
    """The rules of an implementation, as arguments of :class:`messenger.config.Config`.

    Raises:
        LocalError: there is no such profile.
    """
    profile = PROFILES.get(implementation)
    if profile is None:
        raise LocalError(f"no rules of {implementation!r}; known: {', '.join(PROFILES)}")
    return dict(profile)
