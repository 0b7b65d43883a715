"""Follows the login of an entity to a service: authorizers and their replies (docs/protocol.md §5.7)."""

from collections.abc import Iterator
from contextlib import suppress

from messenger.cephx.authorizer import Authorizer, open_challenge, open_reply
from messenger.cephx.ciphers import KeyUsage
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import Authorize, AuthorizeReply
from messenger.cephx.tickets import open_ticket
from messenger.denc.codec import Buffer, Decoder
from messenger.errors import PeerError
from toolkit.dissect.keys import accounts
from toolkit.dissect.keys.book import KeyBook
from toolkit.dissect.keys.phrases import does_not_fit, service_key, ticket_key

_NOT_ITS_HOLDER = does_not_fit("session key of the ticket")


class ServiceLogin:
    """One authentication by a ticket.

    Args:
        book: the known keys; learnt keys are added.
        payload: the authorizer, the first or a later one.

    Raises:
        DecodeError: the authorizer is malformed.
    """

    def __init__(self, book: KeyBook, payload: Buffer) -> None:
        self._book = book
        decoder = Decoder(payload)
        decoder.u8()  # its version, and the auth mode
        self._authorizer = Authorizer.decode(decoder)
        self.account = accounts.authorizer(self._authorizer)
        """What the last payload contains."""
        self.session_key: CryptoKey | None = None
        """Session key of the ticket; None if it is unknown."""
        self.missing = ""
        """The key that would open the ticket; empty if it is known."""
        self._open()

    def _open(self) -> None:
        shown, book = self._authorizer, self._book
        tried = False
        for session_key in self._candidates(shown):
            tried = True
            with suppress(PeerError):
                opened = session_key.unseal(KeyUsage.AUTHORIZE, shown.sealed_authorize, Authorize.decode)
                self.account["answers_challenge"] = opened.have_challenge
                book.learn_ticket(shown.ticket, session_key)
                self.session_key = session_key
                return
        service, secret_id = shown.service_id, shown.ticket.secret_id
        if tried:  # the presenter of the ticket is not its holder
            self.missing = _NOT_ITS_HOLDER
        elif book.service_keys(service, secret_id):
            self.missing = does_not_fit(service_key(service, secret_id))
        else:
            self.missing = ticket_key(book, service, secret_id, shown.global_id)
        self.account["missing"] = self.missing

    def _candidates(self, shown: Authorizer) -> Iterator[CryptoKey]:
        """Yield possible session keys: from the ticket, by a service key, or from the reply that granted it."""
        for key in self._book.service_keys(shown.service_id, shown.ticket.secret_id):
            with suppress(PeerError):
                info = open_ticket(shown.ticket, {shown.ticket.secret_id: key})
                self.account |= accounts.holder(info)
                yield info.session_key
        learnt = self._book.session_key(shown.ticket)
        if learnt is not None:
            yield learnt

    def challenge(self, payload: bytes) -> None:
        """The service asks for a second authorizer that answers its challenge."""
        self.account = {"server_challenge": f"{len(payload)} bytes"}
        if self.session_key is not None:
            with suppress(PeerError):
                self.account["server_challenge"] = f"0x{open_challenge(self.session_key, payload):016x}"

    def reply(self, payload: bytes) -> AuthorizeReply | None:
        """Return the service's reply; None if the ticket was not opened, or the reply does not fit its key."""
        if self.session_key is None:
            self.account = {"missing": self.missing}
            return None
        try:
            answer = open_reply(self.session_key, payload)
        except PeerError:
            self.session_key = None
            self.missing = _NOT_ITS_HOLDER
            self.account = {"missing": self.missing}
            return None
        self.account = accounts.secret(answer.connection_secret)
        return answer
