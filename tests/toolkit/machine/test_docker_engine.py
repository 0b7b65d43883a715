"""The choice of an engine, and the error when it does not answer."""

import hashlib
import json

import pytest

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine import docker_engine
from toolkit.machine.docker_engine import (
    CONTEXT_VARIABLE,
    HOST_VARIABLE,
    connect,
    connected,
    current_place,
    refused,
)


@pytest.fixture(autouse=True)
def no_engine(monkeypatch, tmp_path):
    """Return a machine without settings, whose user has no contexts."""
    for name in (HOST_VARIABLE, CONTEXT_VARIABLE, "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def context(directory, name, host):
    """A context as `docker context create` writes it."""
    meta = directory / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    endpoint = {"Host": host, "SkipTLSVerify": False}
    meta.write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}))


def test_the_order_is_that_of_the_docker_command(monkeypatch, tmp_path):
    assert current_place() == "unix:///var/run/docker.sock"
    (tmp_path / "config.json").write_text('{"currentContext": "lab"}')
    assert current_place() == "context://lab"
    monkeypatch.setenv(CONTEXT_VARIABLE, "far")
    assert current_place() == "context://far"
    monkeypatch.setenv(HOST_VARIABLE, "tcp://10.0.0.1:2375")
    assert current_place() == "tcp://10.0.0.1:2375"


def test_a_context_names_its_engine(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    context(tmp_path, "lab", f"unix://{tmp_path}/lab.sock")
    monkeypatch.setenv(CONTEXT_VARIABLE, "lab")
    with pytest.raises(Unsupported, match=r"context://lab does not run .No such file"):
        connect()
    with pytest.raises(LocalError, match="no Docker context 'labb': docker context ls lists the known ones"):
        connect("context://labb")


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        (
            "unix:///nowhere/docker.sock",
            Unsupported,
            "nowhere/docker.sock does not run .No such file or directory",
        ),
        ("tcp://127.0.0.1:1", Unsupported, "127.0.0.1:1 does not run .Connection refused.: DOCKER_HOST or"),
        ("tcp://127.0.0.1:99999", LocalError, "99999: Port out of range"),
        ("gopher://hole", LocalError, "gopher://hole: Invalid bind address protocol"),
    ],
)
def test_an_engine_that_does_not_answer_is_one_line(monkeypatch, place, kind, words):
    monkeypatch.setenv(HOST_VARIABLE, place)
    with pytest.raises(kind, match=words) as raised, connected():
        pass
    assert "\n" not in str(raised.value)


def test_denied_access_is_an_error_with_the_remedy(monkeypatch):
    def refuse(_url):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(docker_engine, "_knock", refuse)
    with pytest.raises(Unsupported, match=r"does not let this user in .Permission denied.: "):
        connect()


def test_connect_reports_missing_certificates(monkeypatch, tmp_path):
    monkeypatch.setenv(HOST_VARIABLE, "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path / "none"))
    with pytest.raises(LocalError, match=r"tcp://127.0.0.1:1: "):
        connect()


def test_docker_errors_become_local_errors():
    from docker.errors import APIError
    from requests.exceptions import ConnectionError as Gone

    with pytest.raises(LocalError, match="Docker: pool overlaps"), refused():
        raise APIError("409", explanation="pool overlaps")
    with pytest.raises(LocalError, match="Docker does not answer: reset"), refused():
        raise Gone("reset")
