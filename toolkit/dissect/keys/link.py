"""The keys of one link, learnt from its handshake and its MAuth messages.

See docs/protocol.md §3.3, §4.7, §5.
"""

import hmac
from collections.abc import Callable
from contextlib import suppress

from messenger.cephx.ciphers import CIPHERS, KeyType
from messenger.cephx.connection_secret import CONNECTION_SECRET_SIZE
from messenger.cephx.exchange import AuthMethod, AuthResult, ConMode
from messenger.cephx.keys import CryptoKey, hmac_sha256
from messenger.cephx.mauth import Introduction
from messenger.cephx.refusal import method_label
from messenger.cephx.signature import message_signer
from messenger.cephx.structures import AuthMode, Prelude
from messenger.denc.codec import Buffer, Decoder
from messenger.denc.features import Feature, has_feature
from messenger.errors import PeerError
from messenger.keylog import LinkSecrets, link_digest
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.types import MessageType
from messenger.v1.framing import Signer
from messenger.v1.wire import Connect, ConnectReply, Frame
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import (
    SIGNATURE_SIZE,
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    ControlFrame,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.fields import json_value
from toolkit.dissect.frames import Verdict
from toolkit.dissect.keys import accounts
from toolkit.dissect.keys.accounts import Account
from toolkit.dissect.keys.book import KeyBook
from toolkit.dissect.keys.midstream import MidstreamSecrets
from toolkit.dissect.keys.monitor import MonitorSession
from toolkit.dissect.keys.recent import Recent
from toolkit.dissect.keys.service import ServiceLogin

KEY_MESSAGES = frozenset({int(MessageType.AUTH), int(MessageType.AUTH_REPLY)})
"""Types of the messages that :meth:`LinkKeys.message` needs."""

_FINAL = frozenset({V1Tag.READY, V1Tag.SEQ})
_UNANSWERED = frozenset({V1Tag.CHALLENGE_AUTHORIZER, V1Tag.BADAUTHORIZER})
_MOST_ACCOUNTS = 64
_NO_SIGNATURE = bytes(SIGNATURE_SIZE)
_OPENING_UNSEEN = "the beginning of the link's authentication, which the capture does not have"


def _ignore(_secrets: LinkSecrets) -> None:
    """Default of :attr:`LinkKeys.on_secrets`: no key log is written."""


class LinkKeys:
    """Follows the authentication of one link and computes its keys as soon as possible.

    Malformed or unknown authentication never raises; :attr:`missing` describes it.

    Args:
        book: the keys shared by all links of the capture.
    """

    def __init__(self, book: KeyBook) -> None:
        self._book = book
        self.connection_secret: bytes | None = None
        """Key and nonces of secure mode (§4.6), from AUTH_DONE on; None in crc mode, or while unknown."""
        self.session_key: CryptoKey | None = None
        """Key of the AUTH_SIGNATURE frames, or of v1's message signatures; None without cephx, or while
        unknown."""
        self.missing = ""
        """The key without which the link cannot be decrypted or verified, in one phrase; empty if none is
        missing."""
        self.signer: Signer | None = None
        """Computes the signatures of a v1 link's messages; None if they are unsigned or cannot be verified."""
        self.on_secrets: Callable[[LinkSecrets], None] = _ignore
        """Called with the entry for a key log once the link's keys are known."""
        self._login: MonitorSession | ServiceLogin | None = None
        self._monitor = MonitorSession(book)
        self._connect: Connect | None = None
        self._accounts: Recent[bytes, Account] = Recent(_MOST_ACCOUNTS)

    # ---- v2

    def control(self, direction: Direction, frame: ControlFrame) -> None:
        """Process a control frame of v2; frames not about authentication are ignored."""
        to_server = direction is Direction.TO_SERVER
        try:
            if isinstance(frame, AuthRequest) and to_server:
                self._begin(frame.method, frame.auth_payload)
            elif isinstance(frame, AuthReplyMore) and not to_server:
                self._challenged(frame.auth_payload)
            elif isinstance(frame, AuthRequestMore) and to_server:
                self._more(frame.auth_payload)
            elif isinstance(frame, AuthBadMethod) and not to_server:
                self._forget()
            elif isinstance(frame, AuthDone) and not to_server:
                self._done(frame)
        except PeerError as error:
            self._lost(f"authentication that can be followed ({error.detail})")

    def _begin(self, method: int, payload: bytes) -> None:
        """Begin a new attempt; the keys of the previous one are void."""
        self._forget()
        if method == AuthMethod.CEPHX:
            if payload[:1] == bytes([AuthMode.AUTHORIZER]):
                self._login = login = ServiceLogin(self._book, payload)
                self._note(payload, login.account)
            else:
                prelude = Prelude.decode(Decoder(payload))
                self._login = self._monitor = MonitorSession(self._book, prelude.name)
                self._note(payload, accounts.introduction(prelude.name, prelude.global_id))
        elif method != AuthMethod.NONE:
            self.missing = f"keys of {method_label(method)}, which cannot be followed"

    def _forget(self) -> None:
        self.connection_secret = self.session_key = self._login = self.signer = None
        self.missing = ""

    def _lost(self, missing: str) -> None:
        self._forget()
        self.missing = missing

    def _note(self, payload: Buffer, account: Account) -> None:
        self._accounts.put(bytes(payload), account)

    def explained(self, fields: dict[str, object], payload: Buffer) -> dict[str, object]:
        """Return the fields of a frame together with what its payload contains, under ``cephx``.

        Args:
            fields: of the frame.
            payload: of the authentication; of MAuth and MAuthReply, the front.
        """
        account = self._accounts.get(bytes(payload))
        return fields | {"cephx": json_value(account)} if account else fields

    def _challenged(self, payload: bytes) -> None:
        if isinstance(self._login, MonitorSession):
            with suppress(PeerError):
                self._note(payload, accounts.challenge(payload))
        elif isinstance(self._login, ServiceLogin):
            self._login.challenge(payload)
            self._note(payload, self._login.account)

    def _more(self, payload: bytes) -> None:
        if isinstance(self._login, MonitorSession):
            self._login.request(payload)
            self._note(payload, self._login.account)
        elif isinstance(self._login, ServiceLogin):
            login = ServiceLogin(self._book, payload)
            self._note(payload, login.account)
            if self._login.session_key is None:
                self._login = login

    def _done(self, frame: AuthDone) -> None:
        secret = b""
        login, payload = self._login, frame.auth_payload
        if isinstance(login, MonitorSession):
            if login.name is not None:
                self._book.learn_name(frame.global_id, login.name)
            granted = login.reply(payload, frame.global_id)
            self._note(payload, login.account)
            secret = granted.connection_secret if granted else b""
            self._take(login.session_key if granted else None, login.missing)
        elif isinstance(login, ServiceLogin):
            answer = login.reply(payload)
            self._note(payload, login.account)
            secret = answer.connection_secret if answer else b""
            self._take(login.session_key, login.missing)
        elif payload and not self.missing:
            self.missing = _OPENING_UNSEEN
        secret = self._from_log("v2", payload) or secret
        if frame.con_mode == ConMode.SECURE:
            self._take_secret(secret)
        self._report_secrets("v2", payload)

    def _take(self, session_key: CryptoKey | None, missing: str) -> None:
        self.session_key, self.missing = session_key, missing

    @property
    def midstream(self) -> MidstreamSecrets:
        """Secrets that may be those of the link, as long as its handshake was not seen."""
        return self._book.midstream

    def take_secret(self, secret: bytes) -> None:
        """Open the link by this connection secret, which opens a frame of it."""
        self.connection_secret = secret
        self._book.midstream.claim(secret)

    def _take_secret(self, secret: bytes) -> None:
        if len(secret) == CONNECTION_SECRET_SIZE:
            self.take_secret(secret)
        elif not self.missing:
            self.missing = f"connection secret, which AUTH_DONE has with {len(secret)} bytes"

    def _from_log(self, protocol: str, payload: bytes) -> bytes:
        """Take keys that only the key log has; returns the connection secret, empty if there is none."""
        if self.session_key is not None:
            return b""
        logged = self._book.logged(protocol, payload)
        if logged is None:
            return b""
        self._take(logged.session_key, "")
        self._monitor.session_key = logged.session_key
        return logged.connection_secret

    def _report_secrets(self, protocol: str, payload: bytes) -> None:
        if self.session_key is not None:
            secret = self.connection_secret or b""
            self.on_secrets(LinkSecrets(protocol, link_digest(payload), self.session_key, secret))

    def signature_verdict(self, frame: AuthSignature, received: Buffer) -> Verdict:
        """Verify AUTH_SIGNATURE (§4.7).

        Args:
            frame: the frame; ``received`` determines its direction.
            received: all bytes that its sender had received until authentication was done, that is those of the
                other direction: for a frame of the server, the client's bytes from its banner to its last
                AUTH_REQUEST or AUTH_REQUEST_MORE; for one of the client, the server's bytes from its banner to
                AUTH_DONE.
        """
        if self.session_key is not None:
            expected = hmac_sha256(self.session_key.secret, received)
        elif self.missing:
            return Verdict.NO_KEY
        else:
            expected = _NO_SIGNATURE
        return Verdict.OK if hmac.compare_digest(frame.signature, expected) else Verdict.BAD

    # ---- v1

    def v1_piece(self, direction: Direction, frame: Frame) -> None:
        """Process a part of a v1 handshake; parts without an authorizer are ignored."""
        try:
            if isinstance(frame, Connect) and direction is Direction.TO_SERVER:
                self._connect = frame
                self._forget()
                if frame.authorizer:
                    self._begin(frame.authorizer_protocol, frame.authorizer)
            elif isinstance(frame, ConnectReply) and direction is Direction.TO_CLIENT:
                self._answered(frame)
        except PeerError as error:
            self._lost(f"authentication that can be followed ({error.detail})")

    def _answered(self, reply: ConnectReply) -> None:
        login = self._login
        if isinstance(login, ServiceLogin) and reply.tag == V1Tag.CHALLENGE_AUTHORIZER:
            self._challenged(reply.authorizer)
        if reply.tag in _UNANSWERED or not reply.authorizer:
            return
        if isinstance(login, ServiceLogin):
            login.reply(reply.authorizer)
            self._note(reply.authorizer, login.account)
            self._take(login.session_key, login.missing)
        elif self._connect is None:
            self.missing = _OPENING_UNSEEN
        if reply.tag in _FINAL:
            self._from_log("v1", reply.authorizer)
            self._agree(reply.features)
            self._report_secrets("v1", reply.authorizer)

    def _agree(self, features: int) -> None:
        """Choose how messages are signed, from the features of both sides (§3.7)."""
        key = self.session_key
        if self._connect is not None:
            features &= self._connect.features
        if key is None or not has_feature(features, Feature.MSG_AUTH):
            return
        if key.type not in CIPHERS:
            self.missing = f"session key of a type that signs (it is of type {key.type})"
            return
        self.signer = message_signer(AuthResult(0, key.secret, session_key_type=KeyType(key.type)), features)

    # ---- messages

    def message(self, direction: Direction, type_: int, front: Buffer) -> None:
        """Process a message of one of :data:`KEY_MESSAGES`: the login of v1, and renewals on both (§5.6)."""
        try:
            if type_ == MessageType.AUTH and direction is Direction.TO_SERVER:
                asked = MAuth.decode(Decoder(front), MAuth.VERSION, 0)
                if asked.protocol == AuthMethod.UNKNOWN:
                    introduction = Introduction.decode(Decoder(asked.auth_payload))
                    self._monitor = MonitorSession(self._book, introduction.name)
                    self._note(front, accounts.introduction(introduction.name, introduction.global_id))
                else:
                    self._monitor.request(asked.auth_payload)
                    self._note(front, self._monitor.account)
            elif type_ == MessageType.AUTH_REPLY and direction is Direction.TO_CLIENT:
                self._mauth_reply(MAuthReply.decode(Decoder(front), MAuthReply.VERSION, 0), front)
        except PeerError:
            return  # the link itself does not depend on it

    def _mauth_reply(self, reply: MAuthReply, front: Buffer) -> None:
        if reply.result:
            return
        if self._monitor.name is not None:
            self._book.learn_name(reply.global_id, self._monitor.name)
        self._monitor.reply(reply.result_bl, reply.global_id)
        self._note(front, self._monitor.account)
