"""From options and a keyring to an identity (docs/protocol.md §4.7, §7.3)."""

import pytest

from messenger.cephx.exchange import AuthMethod
from messenger.cephx.identity import client_identity, parse_methods
from messenger.cephx.keyring import Keyring
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.denc.entity import AuthName
from messenger.errors import LocalError

CEPHX, NONE = AuthMethod.CEPHX, AuthMethod.NONE
KEY = "AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw=="
KEYRING = Keyring.parse(
    f"[client.admin]\nkey = {KEY}\n[osd.0]\nkey = {KEY}\n[mgr.x]\nkey = {KEY}\n[client.keyless]\n"
)


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("cephx, none", (CEPHX, NONE)),
        ("none", (NONE,)),
        (" none;cephx ", (NONE, CEPHX)),
        ("cephx cephx", (CEPHX,)),
    ],
)
def test_method_lists(text: str, methods: tuple[AuthMethod, ...]) -> None:
    assert parse_methods(text) == methods


@pytest.mark.parametrize("text", ["", " , ", "kerberos", "cephx, gss", "CEPHX"])
def test_no_method_lists(text: str) -> None:
    with pytest.raises(LocalError, match="is not a list of methods; known: none, cephx"):
        parse_methods(text)


@pytest.mark.parametrize(
    ("name", "keyring", "methods", "offered"),
    [
        ("client.admin", KEYRING, "cephx, none", [CEPHX, NONE]),
        ("client.admin", KEYRING, "none, cephx", [NONE, CEPHX]),
        ("client.admin", None, "cephx, none", [NONE]),
        ("client.other", KEYRING, "cephx, none", [NONE]),
        ("client.keyless", KEYRING, "cephx, none", [NONE]),
        ("client.other", Keyring.parse(KEY), "cephx", [CEPHX]),
    ],
)
def test_cephx_is_offered_with_a_key(
    name: str, keyring: Keyring | None, methods: str, offered: list[AuthMethod]
) -> None:
    assert list(client_identity(AuthName.parse(name), keyring, methods).methods) == offered


@pytest.mark.parametrize("keyring", [None, KEYRING])
def test_no_keyring(keyring: Keyring | None) -> None:
    with pytest.raises(RefusedError, match=r"no key for client\.other") as raised:
        client_identity(AuthName.parse("client.other"), keyring, "cephx")
    assert (raised.value.refusal, raised.value.errno) == (Refusal.NO_KEYRING, 2)


@pytest.mark.parametrize(("name", "wanted"), [("client.admin", 0x35), ("osd.0", 0x35), ("mgr.x", 0x37)])
def test_wanted_services_depend_on_the_type_of_the_entity(name: str, wanted: int) -> None:
    identity = client_identity(AuthName.parse(name), KEYRING)
    assert identity.methods[CEPHX].wanted_services == wanted
