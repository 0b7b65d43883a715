"""Reasons for which authentication fails, and the client's error after AUTH_BAD_METHOD (docs/protocol.md §4.7)."""

import errno
from collections.abc import Sequence
from enum import Enum

from messenger.cephx.exchange import AuthMethod
from messenger.errors import AuthError, FaultReason

_LISTED_METHODS = 8
_DENIALS = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOENT)
_ERRNO_NAMES = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}
"""errno names; of the two for EOPNOTSUPP on Linux, the one that Ceph uses."""


class Refusal(Enum):
    """Reasons to refuse a request: a description, the errno that is sent, and the reason of the link's fault.

    A peer receives only the errno. In the first two groups it is EACCES wherever another errno would help an
    attacker to guess names or keys.
    """

    def __init__(
        self, words: str, code: int = errno.EACCES, reason: FaultReason = FaultReason.AUTH_DENIED
    ) -> None:
        self.words = words
        self.code = code
        """Positive errno."""
        self.reason = reason

    # refused by a monitor (§5.5, §5.6)
    UNKNOWN_ENTITY = ("no such entity",)
    WRONG_KEY = ("wrong key",)
    DISALLOWED_CIPHER = ("key of a type that is not allowed",)
    NO_MON_CAPS = ("no capabilities at the monitors",)
    NO_CHALLENGE = ("answer without a challenge",)
    NEW_ID_WITH_TICKET = ("old ticket with a request for a new global_id", errno.EINVAL)
    RECLAIM_WITHOUT_TICKET = ("global_id claimed without a ticket",)
    RECLAIM_BAD_TICKET = ("global_id claimed with a ticket that is not genuine",)
    RECLAIM_WRONG_TICKET = ("global_id claimed with the ticket for another",)
    NOT_AUTHENTICATED = ("request before authentication",)
    NO_ROTATING_KEYS = ("entity without rotating keys",)
    NO_SERVICE_KEY = ("service without keys",)
    UNKNOWN_REQUEST = ("unknown request", errno.EINVAL)
    MALFORMED = ("malformed request", errno.EINVAL)
    BUSY = ("not ready", errno.EBUSY, FaultReason.AUTH_BUSY)
    # refused by a service (§5.7)
    METHOD_NOT_ALLOWED = ("method not allowed", errno.EOPNOTSUPP, FaultReason.AUTH_METHOD)
    NO_AUTHORIZER = ("no authorizer",)
    NOT_AN_AUTHORIZER = ("not an authorizer",)
    WRONG_SERVICE = ("ticket for another service",)
    UNKNOWN_SECRET = ("ticket sealed with an unknown secret",)
    BAD_TICKET = ("ticket not genuine",)
    EXPIRED_TICKET = ("ticket expired",)
    WRONG_GLOBAL_ID = ("ticket for another global_id",)
    BAD_AUTHORIZE = ("ticket presented by another client",)
    CHALLENGE_MISMATCH = ("authorizer does not answer the challenge",)
    # detected by a client before it sends anything
    NO_KEYRING = ("no key for the own name", errno.ENOENT)
    NO_TICKET = ("no ticket for the service",)
    OWN_TICKET_EXPIRED = ("own ticket expired",)
    # detected by a client in replies of its peer
    REFUSED = ("refused by the peer",)
    NO_COMMON_METHOD = ("no method in common", errno.EOPNOTSUPP, FaultReason.AUTH_METHOD)
    UNEXPECTED_REPLY = ("reply to no request", errno.EPERM, FaultReason.AUTH_REPLY)
    BAD_CHALLENGE = ("challenge not genuine", errno.EPERM, FaultReason.AUTH_REPLY)
    BAD_REPLY = ("reply not genuine", errno.EPERM, FaultReason.AUTH_REPLY)
    WRONG_NONCE = ("reply of another exchange", errno.EPERM, FaultReason.AUTH_REPLY)
    BAD_CONNECTION_SECRET = ("connection secret of a wrong size", errno.EPERM, FaultReason.AUTH_REPLY)

    def error(self, detail: str, *, code: int = 0) -> "RefusedError":
        """Create the error to raise; ``code`` replaces the usual errno if the peer has sent another."""
        return RefusedError(self, detail, code or self.code)


class RefusedError(AuthError):
    """Authentication failed for one of the known reasons."""

    def __init__(self, refusal: Refusal, detail: str, code: int) -> None:
        super().__init__(refusal.reason, detail, code)
        self.refusal = refusal


def errno_name(result: int) -> str:
    """``EACCES`` for -13; ``result N`` for a number that is not a negative errno."""
    return _ERRNO_NAMES.get(-result, f"result {result}")


def method_label(method: int) -> str:
    """``cephx`` for 2; ``method N`` for an unknown method."""
    try:
        return AuthMethod(method).name.lower()
    except ValueError:
        return f"method {method}"


def refusal(tried: AuthMethod, result: int, allowed_methods: Sequence[int]) -> RefusedError:
    """The error after a refused attempt if no other method is left; it lists the methods that the peer allows.

    REFUSED if the peer allows the method but rejected the credentials; NO_COMMON_METHOD otherwise.
    """
    allowed = ", ".join(map(method_label, allowed_methods[:_LISTED_METHODS])) or "nothing"
    if len(allowed_methods) > _LISTED_METHODS:
        allowed += f" and {len(allowed_methods) - _LISTED_METHODS} more"
    what = Refusal.REFUSED if -result in _DENIALS else Refusal.NO_COMMON_METHOD
    detail = f"{method_label(tried)} refused with {errno_name(result)}; the peer allows {allowed}"
    return what.error(detail, code=-result if result < 0 else errno.EACCES)
