"""Checks of what an application passes to the asyncio messenger."""

from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import cast

from messenger.cephx.exchange import AuthClient, AuthServer
from messenger.config import Config
from messenger.denc.entity import EntityName
from messenger.errors import LocalError, check_kind
from messenger.interception import Interceptor
from messenger.protocols import Protocol
from messenger.randomness import RandomSource
from messenger.session.policy import PolicySet
from messenger.transport.base import Transport

_CALLABLE = cast(type, Callable)
_FUNCTION = "a function"
_KINDS: dict[str, tuple[type | UnionType, str]] = {
    "name": (EntityName, "an EntityName, such as EntityName(EntityType.OSD, 3)"),
    "auth_client": (AuthClient, "a CephxClient or a NoneClient"),
    "auth_server": (AuthServer, "an AuthServer, such as NoneServer()"),
    "policies": (PolicySet, "a PolicySet, such as PolicySet(STATELESS_SERVER)"),
    "config": (Config, "a Config"),
    "rng": (RandomSource, "a generator, such as random.Random(7)"),
    "nonce": (int, "a number of 32 bits"),
    "route": (_CALLABLE, _FUNCTION),
    "trace": (_CALLABLE, _FUNCTION),
    "interceptor": (Interceptor, "an object with a method intercept(link, point, passes)"),
    "workers": (int, "a number of threads"),
    "key_log": (Path | str | _CALLABLE, "a path or a function"),
    "transport": (Transport, "a Transport, such as TcpTransport()"),
}
"""Type of each checked argument of a messenger, and the example that the error message gives."""
_PORTS = range(1 << 16)


def check_arguments(**arguments: object) -> None:
    """Check the types of a messenger's arguments; None is a default and always right.

    Raises:
        LocalError: an argument is of another type, or a class where an object of it is needed.
    """
    for argument, value in arguments.items():
        if value is not None:
            kind, example = _KINDS[argument]
            # A class has the methods that a Protocol asks for; as a function it is what makes its objects.
            if isinstance(value, type) and not example.endswith(_FUNCTION):
                raise LocalError(f"{argument} is the class {value.__name__}: give {example}")
            check_kind(argument, value, kind, example)


def check_place(purpose: str, host: object, port: object) -> None:
    """Check a host and a port.

    Args:
        purpose: ``listen on`` or ``dial``.
        host: the host.
        port: the port.

    Raises:
        LocalError: the host is no text or contains what no host does, or the port is no number of 16 bits.
    """
    check_kind("host", host, str, "an IP address such as '127.0.0.1'")
    check_kind("port", port, int, "a number from 0 to 65535")
    assert isinstance(host, str)
    if not _is_host(host):
        raise LocalError(f"cannot {purpose} {host!r}: give an IP address such as '127.0.0.1'")
    if port not in _PORTS:
        raise LocalError(f"cannot {purpose} {host}:{port}: a port is 0 to 65535")


def _is_host(text: str) -> bool:
    """False for a text with which the socket library would raise TypeError or ValueError."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return text.isprintable()


def check_protocol(protocol: object) -> None:
    """Raise LocalError if this is no protocol."""
    check_kind("protocol", protocol, Protocol, "Protocol.V1 or Protocol.V2")
