"""Which Docker engine is meant, and a connection to it.

A *place* says where an engine is: a URL as DOCKER_HOST has it, or ``context://NAME`` for one of
``docker context``. Unless a place is given, the docker command's own order decides: DOCKER_HOST, DOCKER_CONTEXT,
the current context, the socket of this machine.
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
"""Kept at most: hosts are made and removed side by side."""


def current_place() -> str:
    """The place of the engine that is meant when none is named; for a journal, which others read elsewhere."""
    if host := os.environ.get(HOST_VARIABLE):
        return host
    if (name := os.environ.get(CONTEXT_VARIABLE) or _current_context()) != _DEFAULT_CONTEXT:
        return CONTEXT_SCHEME + name
    return _DEFAULT_URL


def connect(place: str = "", *, timeout_s: float = _TIMEOUT_S) -> "docker.DockerClient":
    """A connection to an engine that answers.

    Args:
        place: of the engine; :func:`current_place` unless given.
        timeout_s: for each of its answers.

    Raises:
        Unsupported: it does not answer; with the command that helps.
        LocalError: the place is none.
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
    except ValueError as error:  # of a port
        raise LocalError(f"Docker at {place}: {error}") from None


def choose_context(name: str) -> None:
    """Have this process and its children use an engine as ``docker --context`` does; unless the name is empty."""
    if name:
        os.environ.pop(HOST_VARIABLE, None)
        os.environ[CONTEXT_VARIABLE] = name


@contextmanager
def connected(place: str = "") -> "Iterator[docker.DockerClient]":
    """A connection for as long as this lasts; what the engine refuses meanwhile is an error of ours.

    Raises:
        Unsupported: it does not answer; with the command that helps.
        LocalError: the place is none, or the engine has refused something.
    """
    engine = connect(place)
    try:
        with refused():
            yield engine
    finally:
        engine.close()


@contextmanager
def refused() -> Iterator[None]:
    """What an engine refuses meanwhile is an error of ours.

    Raises:
        LocalError: it has, or has gone.
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
            raise LocalError(f"no Docker context {name!r}: docker context ls shows those that there are")
        url, parameters = context.Host, {"tls": context.TLSConfig} if context.TLSConfig else {}
    else:
        url, parameters = place, kwargs_from_env(environment={**os.environ, HOST_VARIABLE: place})
    return {**parameters, "base_url": url, "use_ssh_client": url.startswith("ssh://")}


def _knock(url: str) -> None:
    """See whether a socket of this machine opens; the SDK is not so clear about why not.

    Raises:
        OSError: it does not.
    """
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.connect("/" + url.removeprefix("unix://").lstrip("/"))


def _silence(place: str, error: Exception) -> LocalError:
    """Why an engine does not answer, and what helps."""
    if (reason := _system_error(error)) is None:
        return LocalError(f"Docker at {place}: {error}")
    what = "does not let this user in" if isinstance(reason, PermissionError) else "does not run"
    remedy = examine().remedy if place == _DEFAULT_URL else ""
    helps = remedy or f"{HOST_VARIABLE} or docker context names another engine"
    return Unsupported(f"Docker at {place} {what} ({reason.strerror or reason}): {helps}")


def _system_error(error: BaseException) -> OSError | None:
    """The system's own error in one that wraps others."""
    seen: list[object] = [error]
    for candidate in seen:
        if isinstance(candidate, OSError) and isinstance(candidate.errno, int):
            return candidate
        if isinstance(candidate, BaseException):
            seen += [*candidate.args, getattr(candidate, "reason", None), candidate.__cause__]
            seen.append(candidate.__context__)
    return None
