"""The field ``cephx`` in records of real logins: which client asks for which tickets, and which are granted."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from toolkit.dissect.decode import decode_capture
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook

CAPTURES = Path(__file__).parents[4] / "captures"
LOGIN = ["AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE"]


@cache
def frames(name: str, *, keyring: bool = True) -> list[DecodedFrame]:
    book = KeyBook.read([CAPTURES / name / "keyring"] if keyring else [])
    return list(decode_capture(CAPTURES / name / "capture.pcapng.gz", book))


def accounts(name: str, stream: int, *, keyring: bool = True) -> list[dict[str, Any]]:
    """Return the accounts in the order of the frames that have any."""
    fields = [frame.fields for frame in frames(name, keyring=keyring) if frame.stream.index == stream]
    return [each["cephx"] for each in fields if "cephx" in each]  # type: ignore[misc]


def test_a_login_at_a_monitor() -> None:
    hello, challenge, proof, granted = accounts("tentacle-secure", 1)
    assert hello == {"to": "mon", "name": "client.admin", "global_id": 0}
    assert list(challenge) == ["server_challenge"]
    assert (proof["request"], proof["old_ticket_secret_id"]) == ("GET_AUTH_SESSION_KEY", None)
    assert proof["wanted"] == ["auth", "mon", "mgr", "osd"]
    assert (granted["response"], granted["status"]) == ("GET_AUTH_SESSION_KEY", 0)
    valid = {ticket["service"]: ticket["valid_s"] for ticket in granted["tickets"]}
    assert valid == {
        "auth": 259200,
        "mon": 3600,
        "osd": 3600,
        "mgr": 3600,
    }  # Ceph's auth_mon_ticket_ttl and others
    assert granted["connection_secret"] == "64 bytes"


def test_an_authorizer_answers_the_challenge_of_its_service() -> None:
    osd = next(
        frame.stream.index
        for frame in frames("tentacle-secure")
        if frame.fields.get("cephx", {}).get("to") == "osd"
    )
    first, challenge, second, granted = accounts("tentacle-secure", osd)
    assert (first["to"], first["secret_id"], first["answers_challenge"]) == ("osd", 2, False)
    assert challenge["server_challenge"].startswith("0x")
    assert second == first | {"answers_challenge": True}
    assert granted == {"connection_secret": "64 bytes"}


def test_service_keys_reveal_the_holder_and_caps_of_a_ticket() -> None:
    shown = [frame.fields["cephx"] for frame in frames("reef-osds") if "caps" in frame.fields.get("cephx", {})]
    assert {(each["name"], each["caps"]) for each in shown} >= {("osd.1", "allow *")}
    assert all(each["created"] < each["expires"] for each in shown)


def test_on_v1_the_same_is_in_messages_and_connects() -> None:
    found = [
        (frame.tag if frame.message is None else frame.message.name, account)
        for frame in frames("tentacle-v1")
        if (account := frame.fields.get("cephx"))
    ]
    assert [name for name, _ in found[:4]] == ["auth", "auth_reply", "auth", "auth_reply"]
    assert found[0][1] == {"to": "mon", "name": "client.admin", "global_id": 0}
    assert list(found[1][1]) == ["server_challenge"]
    asked = [account for _, account in found if account.get("request") == "GET_PRINCIPAL_SESSION_KEY"]
    assert [each["wanted"] for each in asked] == [["mon", "mgr", "osd"]]
    assert [account["answers_challenge"] for name, account in found if name == "CONNECT"] == [False, True]


def test_frames_list_the_ids_of_rotating_service_keys() -> None:
    keys = [frame.fields["cephx"].get("keys") for frame in frames("nautilus-osds") if "cephx" in frame.fields]
    assert next([key["secret_id"] for key in each] for each in keys if each) == [1, 2, 3]


def test_without_a_key_the_missing_one_is_named() -> None:
    hello, challenge, proof, granted = accounts("tentacle-secure", 1, keyring=False)
    assert hello["name"] == "client.admin"
    assert "server_challenge" in challenge
    assert proof["wanted"] == ["auth", "mon", "mgr", "osd"]
    assert granted == {"response": "GET_AUTH_SESSION_KEY", "status": 0, "missing": "key of client.admin"}


@pytest.mark.parametrize("name", ["tentacle-secure", "reef-osds", "nautilus-osds-v1"])
def test_keys_and_proofs_are_not_shown(name: str) -> None:
    book = KeyBook.read([CAPTURES / name / "keyring"])
    shown = json.dumps([frame.as_json() for frame in frames(name)])
    keys = [key for _, key in book.keys_of(None)]
    secrets = [text for key in keys for text in (key.secret.hex(), key.to_base64())]
    assert secrets
    assert not any(secret in shown for secret in secrets)
