from dataclasses import replace

import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES
from messenger.errors import DecodeError
from messenger.messages.mds_client import (
    CapRelease,
    FilePath,
    MClientReply,
    MClientRequest,
    MClientSession,
    MdsRequestOp,
    RequestHead,
    SessionOp,
)
from tests.support.fronts import captured_payloads


def encoded(payload) -> bytes:
    encoder = Encoder()
    payload.encode(encoder, ALL_FEATURES)
    return encoder.getvalue()


def test_a_real_session_is_opened_and_renewed():
    sessions = {payload.op: payload for payload in captured_payloads(MClientSession)}
    asked = sessions[SessionOp.REQUEST_OPEN]
    assert (asked.metadata["entity_id"], asked.metadata["root"]) == ("admin", "/")
    assert asked.supported_features.hex() == "ffff070000000000"
    assert sessions[SessionOp.OPEN].metric_spec.metric_flags.hex() == "ffff000000000000"
    assert sessions[SessionOp.REQUEST_RENEWCAPS].seq == 2


def test_a_real_request_has_its_releases():
    lookup, rename = captured_payloads(MClientRequest)
    assert (lookup.head.op, lookup.path.ino, lookup.releases) == (MdsRequestOp.GETATTR, 1, [])
    assert rename.head.op == MdsRequestOp.RENAME
    assert rename.head.num_releases == len(rename.releases) == 3
    assert (rename.path.path, rename.path2.path) == ("g", "f")


def test_real_replies_have_their_results():
    missing, created = captured_payloads(MClientReply)
    assert (missing.op, missing.result, missing.safe) == (MdsRequestOp.LOOKUP, -2, True)
    assert (created.op, created.result, created.safe) == (MdsRequestOp.CREATE, 0, False)
    assert (created.is_dentry, created.is_target) == (True, True)
    assert created.trace


def test_the_head_counts_the_releases():
    request = MClientRequest(RequestHead(op=MdsRequestOp.UNLINK), FilePath(ino=1, path="f"))
    request.releases = [CapRelease(1, 2, dname="f"), CapRelease(3, 4)]
    again = MClientRequest.decode(Decoder(encoded(request)), 6, ALL_FEATURES)
    assert again.head.num_releases == 2
    assert again.releases == request.releases


def test_more_releases_than_there_are_bytes_are_refused():
    front = bytearray(encoded(MClientRequest(RequestHead(op=1))))
    front[20:22] = b"\xff\xff"
    with pytest.raises(DecodeError):
        MClientRequest.decode(Decoder(bytes(front)), 6, ALL_FEATURES)


@pytest.mark.parametrize(("version", "size_bytes"), [(1, 98), (2, 106), (3, 118)])
def test_heads_have_versions_of_their_own(version, size_bytes):
    head = RequestHead(version=version, op=1, owner_uid=5, ext_num_retry=7)
    image = encoded(head)
    assert len(image) == size_bytes
    again = RequestHead.decode(Decoder(image), 0, ALL_FEATURES)
    expected = replace(head, ext_num_retry=7 if version >= 2 else 0, owner_uid=5 if version >= 3 else 0xFFFFFFFF)
    assert again == expected


@pytest.mark.parametrize("version", [0, 4])
def test_other_heads_are_refused(version):
    with pytest.raises(DecodeError, match=f"request head of version {version}, 1 to 3 are known"):
        RequestHead.decode(Decoder(version.to_bytes(2, "little") + bytes(200)), 0, ALL_FEATURES)


def test_requests_of_clients_that_do_not_know_birth_times_are_refused():
    with pytest.raises(DecodeError, match="MClientRequest of version 3"):
        MClientRequest.decode(Decoder(bytes(200)), 3, ALL_FEATURES)
