"""Options for the lifetimes of an embedded monitor's tickets, in seconds."""

from collections.abc import Mapping

from messenger.errors import LocalError

LIFETIMES = {"auth_mon_ticket_ttl": "auth_ttl_s", "auth_service_ticket_ttl": "service_ttl_s"}
"""Ceph's options, and the fields of :class:`toolkit.embedded.node.spec.EmbeddedSpec` that they set."""
_SHORTEST_S = 2.0


def require_lifetimes(options: Mapping[str, object]) -> None:
    """Check values of :data:`LIFETIMES`.

    Raises:
        LocalError: a value is not a number of seconds, or is too short for tickets to be renewed in time.
    """
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= _SHORTEST_S:
            raise LocalError(f"{name} = {value!r}: give seconds, {_SHORTEST_S:g} or more")
