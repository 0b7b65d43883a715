"""A connection to a monitor that is logged in and whose tickets stay fresh (docs/protocol.md §5.6).

On v2 the handshake logs in; on v1 MAuth messages do, after the session is open. Both renew by
MAuth messages.
"""

from messenger.cephx.exchange import AuthClient
from messenger.cephx.mauth import MAuthRequest
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.connection import Connection
from messenger.messages.auth import MAuth, MAuthReply
from messenger.protocols import Protocol
from messenger.randomness import RandomSource


class MonLogin:
    """Logs in on one open connection, then renews.

    Call :meth:`start` when the connection is open, :meth:`take` for each MAuthReply, and :meth:`renew` now and
    then and whenever a service has refused a ticket. Times are unix seconds.

    Args:
        connection: to the monitor; open.
        auth: the identity, the one the messenger dials with.
        rng: nonces and challenges.
        rotating: a daemon's keys, which are then kept fresh.
    """

    def __init__(
        self, connection: Connection, auth: AuthClient, rng: RandomSource, rotating: RotatingKeyring | None = None
    ) -> None:
        self._connection = connection
        established = None if connection.protocol is Protocol.V1 else connection.auth_result
        self._client = MonAuthClient(auth, rng, rotating=rotating, established=established)
        self.done = established is not None
        """Logged in, with every ticket there is to have."""

    @property
    def is_current(self) -> bool:
        """True if the identity's tickets are those of this login; see :attr:`MonAuthClient.is_current`."""
        return self._client.is_current

    def start(self, wall_time_s: float) -> None:
        """Start MAuth authentication unless the handshake has authenticated already (v2)."""
        if not self._client.authenticated:
            self._send(self._client.start(wall_time_s))

    def take(self, reply: MAuthReply, wall_time_s: float) -> None:
        """Go on after a reply.

        Raises:
            AuthError, DecodeError: it is a refusal, or not good. If :attr:`done` is not set then, the connection
                is of no use; otherwise the tickets at hand serve until they expire.
        """
        request = self._client.handle(reply.protocol, reply.result, reply.global_id, reply.result_bl, wall_time_s)
        if request is not None:
            self._send(request)
        else:
            self.done = self.done or self._client.authenticated
            self.renew(wall_time_s)

    def renew(self, wall_time_s: float) -> None:
        """Ask for what is about to expire or was refused."""
        while (request := self._client.due(wall_time_s)) is not None:
            self._send(request)

    def _send(self, request: MAuthRequest) -> None:
        self._connection.send(MAuth(request.protocol, request.payload))
