"""What a client makes of AUTH_BAD_METHOD (protocol.md §4.7)."""

import errno
from collections.abc import Sequence

from messenger.cephx.exchange import AuthMethod
from messenger.errors import AuthError, FaultReason

_LISTED_METHODS = 8
_DENIALS = (errno.EACCES, errno.EPERM)
_ERRNO_NAMES = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}
"""Linux has two names for EOPNOTSUPP; this is Ceph's."""


def errno_name(result: int) -> str:
    """``EACCES`` for -13; the number itself when it is not a negative errno."""
    return _ERRNO_NAMES.get(-result, f"result {result}")


def method_label(method: int) -> str:
    """``cephx`` for 2; the number of an unknown method."""
    try:
        return AuthMethod(method).name.lower()
    except ValueError:
        return f"method {method}"


def refusal(tried: AuthMethod, result: int, allowed_methods: Sequence[int]) -> AuthError:
    """The error for a refused attempt after which nothing else is left to try.

    AUTH_DENIED when the peer said EACCES or EPERM: it knows the method and does not believe us. AUTH_METHOD
    otherwise; the detail lists what the peer allows.
    """
    allowed = ", ".join(map(method_label, allowed_methods[:_LISTED_METHODS])) or "nothing"
    if len(allowed_methods) > _LISTED_METHODS:
        allowed += f" and {len(allowed_methods) - _LISTED_METHODS} more"
    denied = -result in _DENIALS
    reason = FaultReason.AUTH_DENIED if denied else FaultReason.AUTH_METHOD
    detail = f"{method_label(tried)} refused with {errno_name(result)}; the peer allows {allowed}"
    return AuthError(reason, detail, errno=-result if result < 0 else errno.EACCES)
