"""The spec of a client node."""

import pytest

from messenger.errors import LocalError
from toolkit.rados.node.spec import RadosSpec

SPEC = RadosSpec(name="app", rados="client.app", monitors=["v2:10.0.0.1:3300/0"])


def test_spec_survives_json() -> None:
    assert RadosSpec.from_json(SPEC.as_json()) == SPEC


def test_spec_names_missing_and_unknown_fields() -> None:
    with pytest.raises(LocalError, match=r"client spec: .*'monitors'"):
        RadosSpec.from_json({"name": "app", "rados": "client.app"})
    with pytest.raises(LocalError, match=r"client spec: .*'colour'"):
        RadosSpec.from_json(SPEC.as_json() | {"colour": "red"})


def test_without_a_keyring_there_is_no_authentication() -> None:
    assert SPEC.keys is None
    with pytest.raises(LocalError, match="keyring of app:1"):
        _ = RadosSpec.from_json(SPEC.as_json() | {"keyring": "nonsense = 1\n"}).keys


def test_mode_and_options_are_those_of_the_messenger() -> None:
    config = RadosSpec.from_json(
        SPEC.as_json() | {"mode": "secure", "options": {"ms_tcp_nodelay": False}}
    ).config()
    assert config.ms_client_mode == "secure"
    assert config.ms_tcp_nodelay is False
    with pytest.raises(LocalError, match=r"client options: .*'ms_no_such'"):
        RadosSpec.from_json(SPEC.as_json() | {"options": {"ms_no_such": 1}}).config()
