"""Login to a monitor and renewal of tickets on one connection (docs/protocol.md §5.6).

With v2 the handshake logs in; with v1 MAuth messages do so after the session is open. Both renew by MAuth
messages.
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
    """Logs in on one open connection, then renews the tickets.

    Call :meth:`start` when the connection is open, :meth:`take` for each MAuthReply, and :meth:`renew`
    periodically and whenever a service has refused a ticket. Times are unix seconds.

    Args:
        connection: open connection to the monitor.
        auth: the identity with which the messenger dials.
        rng: source of nonces and challenges.
        rotating: rotating keys of a daemon, which are renewed too.
    """

    def __init__(
        self, connection: Connection, auth: AuthClient, rng: RandomSource, rotating: RotatingKeyring | None = None
    ) -> None:
        self._connection = connection
        established = None if connection.protocol is Protocol.V1 else connection.auth_result
        self._client = MonAuthClient(auth, rng, rotating=rotating, established=established)
        self.done = established is not None
        """True after the login, once every available ticket has been received."""

    @property
    def is_current(self) -> bool:
        """True if the identity's tickets are those of this login; see :attr:`.MonAuthClient.is_current`."""
        return self._client.is_current

    def start(self, wall_time_s: float) -> None:
        """Start MAuth authentication unless the handshake has authenticated already (v2)."""
        if not self._client.authenticated:
            self._send(self._client.start(wall_time_s))

    def take(self, reply: MAuthReply, wall_time_s: float) -> None:
        """Process a reply, and send the next request.

        Raises:
            AuthError, DecodeError: the reply is a refusal, or invalid. If :attr:`done` is not set, the connection
                is of no use; otherwise the current tickets are valid until they expire.
        """
        request = self._client.handle(reply.protocol, reply.result, reply.global_id, reply.result_bl, wall_time_s)
        if request is not None:
            self._send(request)
        else:
            self.done = self.done or self._client.authenticated
            self.renew(wall_time_s)

    def renew(self, wall_time_s: float) -> None:
        """Request new tickets for those that are about to expire or were refused."""
        while (request := self._client.due(wall_time_s)) is not None:
            self._send(request)

    def _send(self, request: MAuthRequest) -> None:
        self._connection.send(MAuth(request.protocol, request.payload))
