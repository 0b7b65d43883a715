"""Select a Docker engine and connect to it.

A *place* names an engine: a URL as in DOCKER_HOST, or ``context://NAME`` for one of ``docker context``. The
default follows the docker command: DOCKER_HOST, DOCKER_CONTEXT, the current context, this machine's socket.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.extras import require
from toolkit.machine.programs import docker as examine

if TYPE_CHECKING:
    import docker

HOST_VARIABLE = "DOCKER_HOST"
CONTEXT_VARIABLE = "DOCKER_CONTEXT"
CONTEXT_SCHEME = "context://"
_DEFAULT_CONTEXT = "default"
_DEFAULT_URL = "unix:///var/run/docker.sock"
_TIMEOUT_S = 60.0
_CONNECTIONS = 32
"""Most connections to keep open; hosts are created and removed in parallel."""


def current_place() -> str:
    """Return the place of the default engine, for a journal that may be read with another environment."""
    if host := os.environ.get(HOST_VARIABLE):
        return host
    if (name := os.environ.get(CONTEXT_VARIABLE) or _current_context()) != _DEFAULT_CONTEXT:
        return CONTEXT_SCHEME + name
    return _DEFAULT_URL


def connect(place: str = "", *, timeout_s: float = _TIMEOUT_S) -> "docker.DockerClient":
    """Connect to an engine and check that it answers.

    Args:
        place: place of the engine; :func:`current_place` unless given.
        timeout_s: time limit of each request.

    Raises:
        Unsupported: it does not answer; the message names a command that helps.
        LocalError: the place is invalid.
    """
    require("docker")
    import docker
    import docker.errors

    place = place or current_place()
    try:
        options = _connection(place)
        _knock(str(options["base_url"]))
        return docker.DockerClient(**options, timeout=timeout_s, max_pool_size=_CONNECTIONS)
    except docker.errors.TLSParameterError as error:
        raise LocalError(f"Docker at {place}: {error}") from None
    except docker.errors.DockerException as error:
        raise _silence(place, error) from None
    except OSError as error:
        raise _silence(place, error) from None
    except ValueError as error:  # an invalid port
        raise LocalError(f"Docker at {place}: {error}") from None


def is_silent(place: str) -> bool:
    """True if the socket of an engine on this machine accepts no connections; others have to be asked."""
    try:
        _knock(str(_connection(place)["base_url"]))
    except (OSError, LocalError):
        return True
    return False


def choose_context(name: str) -> None:
    """Select an engine for this process and its children, as ``docker --context`` does; "" changes nothing."""
    if name:
        os.environ.pop(HOST_VARIABLE, None)
        os.environ[CONTEXT_VARIABLE] = name


@contextmanager
def connected(place: str = "") -> "Iterator[docker.DockerClient]":
    """Connect to an engine for the duration of a ``with`` block; its errors become ours.

    Raises:
        Unsupported: it does not answer; the message names a command that helps.
        LocalError: the place is invalid, or the engine rejected a request.
    """
    engine = connect(place)
    try:
        with refused():
            yield engine
    finally:
        engine.close()


@contextmanager
def refused() -> Iterator[None]:
    """Convert errors of the Docker SDK in a ``with`` block to ours.

    Raises:
        LocalError: the engine rejected a request, or does not answer.
    """
    import docker.errors
    import requests.exceptions

    try:
        yield
    except docker.errors.APIError as error:
        raise LocalError(f"Docker: {error.explanation or error}") from None
    except requests.exceptions.RequestException as error:
        raise LocalError(f"Docker does not answer: {error}") from None


def _current_context() -> str:
    require("docker")
    from docker.context.config import get_current_context_name

    return str(get_current_context_name())


def _connection(place: str) -> dict[str, Any]:
    from docker.context import ContextAPI
    from docker.utils import kwargs_from_env

    if place.startswith(CONTEXT_SCHEME):
        name = place.removeprefix(CONTEXT_SCHEME)
        try:
            context = ContextAPI.get_context(name)
        except Exception as error:  # noqa: BLE001 - it raises just that about a broken file
            raise LocalError(f"Docker context {name!r}: {error}") from None
        if context is None:
            raise LocalError(f"no Docker context {name!r}: docker context ls lists the known ones")
        url, parameters = context.Host, {"tls": context.TLSConfig} if context.TLSConfig else {}
    else:
        url, parameters = place, kwargs_from_env(environment={**os.environ, HOST_VARIABLE: place})
    return {**parameters, "base_url": url, "use_ssh_client": url.startswith("ssh://")}


def _knock(url: str) -> None:
    """Check that a Unix socket accepts connections; its errors are clearer than the SDK's.

    Raises:
        OSError: it does not.
    """
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.connect("/" + url.removeprefix("unix://").lstrip("/"))


def _silence(place: str, error: Exception) -> LocalError:
    """Return the error for an engine that does not answer, with a remedy."""
    if (reason := _system_error(error)) is None:
        return LocalError(f"Docker at {place}: {error}")
    what = "does not let this user in" if isinstance(reason, PermissionError) else "does not run"
    remedy = examine().remedy if place == _DEFAULT_URL else ""
    helps = remedy or f"{HOST_VARIABLE} or docker context names another engine"
    return Unsupported(f"Docker at {place} {what} ({reason.strerror or reason}): {helps}")


def _system_error(error: BaseException) -> OSError | None:
    """Return the OSError inside an error that wraps others; None if there is none."""
    seen: list[object] = [error]
    for candidate in seen:
        if isinstance(candidate, OSError) and isinstance(candidate.errno, int):
            return candidate
        if isinstance(candidate, BaseException):
            seen += [*candidate.args, getattr(candidate, "reason", None), candidate.__cause__]
            seen.append(candidate.__context__)
    return None
