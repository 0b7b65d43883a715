"""Follows the exchange of an entity with a monitor's ticket service (docs/protocol.md §5.5, §5.6).

The same requests and replies appear in AUTH_REQUEST_MORE and AUTH_DONE, and in MAuth messages.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from messenger.cephx.authorizer import Authorizer
from messenger.cephx.ciphers import KeyUsage
from messenger.cephx.keys import CryptoKey
from messenger.cephx.session_reply import SessionReply, decode_session_reply
from messenger.cephx.structures import (
    NO_TICKET,
    Authenticate,
    RequestHeader,
    RequestType,
    ResponseHeader,
    RotatingSecrets,
    ServiceTicketRequest,
    TicketBlob,
)
from messenger.cephx.tickets import decode_ticket_reply
from messenger.denc.codec import Buffer, Decoder
from messenger.denc.entity import AuthName
from messenger.errors import PeerError
from toolkit.dissect.keys import accounts
from toolkit.dissect.keys.accounts import Account
from toolkit.dissect.keys.book import KeyBook
from toolkit.dissect.keys.phrases import does_not_fit, key_of

T = TypeVar("T")
_CHALLENGE_SIZE = 9


class MonitorSession:
    """The exchange about tickets between one entity and one monitor.

    Args:
        book: the known keys; learnt keys are added.
        name: the name that the entity claims; None if it was not seen.
    """

    def __init__(self, book: KeyBook, name: AuthName | None = None) -> None:
        self._book = book
        self.name = name
        self.session_key: CryptoKey | None = None
        """Session key of the last AUTH ticket; None if it is unknown."""
        self.missing = ""
        """The key that is needed to open the last reply to a proof; empty if it is known."""
        self.account: Account = {}
        """Contents of the last request or reply, as JSON values."""
        self._asked = False
        self._old_ticket = NO_TICKET
        self._shown_ticket = NO_TICKET

    def request(self, payload: Buffer) -> None:
        """Process a request of the entity. Raises DecodeError."""
        decoder = Decoder(payload)
        kind = RequestHeader.decode(decoder).request_type
        self._asked = True
        self.account = accounts.request(kind)
        if kind == RequestType.GET_AUTH_SESSION_KEY:
            asked = Authenticate.decode(decoder)
            self._old_ticket = asked.old_ticket
            self.account |= accounts.authenticate(asked)
        elif kind == RequestType.GET_PRINCIPAL_SESSION_KEY:
            decoder.u8()  # the authorizer's version
            shown = Authorizer.decode(decoder)
            self._shown_ticket = shown.ticket
            self.account |= accounts.authorizer(shown)
            with suppress(PeerError):
                self.account["wanted"] = accounts.services(ServiceTicketRequest.decode(decoder).keys)

    def reply(self, payload: Buffer, global_id: int) -> SessionReply | None:
        """Process a reply of the monitor.

        Args:
            payload: the reply, from its header on.
            global_id: global_id of the entity.

        Returns:
            The content of a reply to a proof; None if it cannot be opened, or is another reply.

        Raises:
            DecodeError: the reply is malformed.
        """
        if not self._asked and len(payload) == _CHALLENGE_SIZE:  # on v1, the answer to the introduction
            self.account = accounts.challenge(payload)
            return None
        decoder = Decoder(payload)
        header = ResponseHeader.decode(decoder)
        self.account = accounts.response(header.request_type, header.status)
        if header.status:
            return None
        if header.request_type == RequestType.GET_AUTH_SESSION_KEY:
            return self._session(payload, global_id)
        if header.request_type == RequestType.GET_PRINCIPAL_SESSION_KEY:
            self._tickets(decoder.rest(), global_id)
        elif header.request_type == RequestType.GET_ROTATING_KEY:
            self._rotating(decoder.blob())
        return None

    def _session(self, payload: Buffer, global_id: int) -> SessionReply | None:
        found = self._fitting(lambda key: decode_session_reply(payload, key))
        if found is None:
            return None
        name, key, reply = found
        if reply.auth.blob is None:  # a reclaimed global_id: the ticket is sealed with its predecessor's key, too
            olds = self._sessions(self._old_ticket, global_id)
            reply = _first(olds, lambda old: decode_session_reply(payload, key, old)) or reply
        self.session_key = reply.auth.ticket.session_key
        self.account["tickets"] = accounts.tickets((reply.auth, *reply.services))
        self.account |= accounts.secret(reply.connection_secret)
        if name is not None:
            self._book.learn_name(global_id, name)
        self._book.learn_tickets(global_id, (reply.auth, *reply.services))
        return reply

    def _fitting(self, opened: Callable[[CryptoKey], T]) -> tuple[AuthName | None, CryptoKey, T] | None:
        """Return the first of the entity's keys that opens something, with its owner and the content."""
        keys = self._book.keys_of(self.name)
        for owner, key in keys:
            with suppress(PeerError):
                content = opened(key)
                self.missing = ""
                return self.name or owner, key, content
        what = "key of the entity that logs in here" if self.name is None else key_of(self.name)
        self.missing = self.account["missing"] = does_not_fit(what) if keys else what
        if keys and self.name is not None:
            self._book.note_misfit(self.name)
        return None

    def _sessions(self, ticket: TicketBlob, global_id: int) -> Iterable[CryptoKey]:
        """The possible session keys of an AUTH ticket that the entity presented."""
        book = self._book
        of_ticket, own, last = book.session_key(ticket), self.session_key, book.auth_session_key(global_id)
        return dict.fromkeys(key for key in (of_ticket, own, last) if key is not None)

    def _tickets(self, payload: bytes, global_id: int) -> None:
        keys = self._sessions(self._shown_ticket, global_id)
        grants = _first(keys, lambda key: decode_ticket_reply(Decoder(payload), key))
        if grants:
            self.account["tickets"] = accounts.tickets(grants)
            self._book.learn_tickets(global_id, grants)
        else:
            self.account["missing"] = "session key of the ticket that was shown"

    def _rotating(self, sealed: bytes) -> None:
        found = self._fitting(lambda key: key.unseal(KeyUsage.ROTATING_SECRETS, sealed, RotatingSecrets.decode))
        if found is not None:
            self.account["keys"] = accounts.rotating(found[2])
        if found is not None and found[0] is not None:
            self._book.learn_rotating(found[0].type, found[2])


def _first(keys: Iterable[CryptoKey], opened: Callable[[CryptoKey], T]) -> T | None:
    """Return the content that the first fitting key opens; None if no key fits."""
    for key in keys:
        with suppress(PeerError):
            return opened(key)
    return None
