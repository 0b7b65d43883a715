"""No public decoder without a target: those of the messenger are called by name, and must return, in a replay."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import CodeType, FrameType

import pytest

import messenger
from messenger.messages.registry import PAYLOADS
from tests.fuzz import corpus
from tests.fuzz.decoders import modules, public_decoders
from tests.fuzz.registry import all_targets

EXEMPT = {
    "messenger.batch:decode_message": "keeps in the message what decode_payload gives",
    "messenger.cephx.key_server:KeyServer.from_keyring": "takes a keyring that was parsed",
    "messenger.cephx.structures:AuthCapsInfo.from_text": "makes a value of ours, nothing is parsed",
    "messenger.core:Core.open_session": "opens a session, decodes nothing",
    "messenger.core:Core.open_announced": "the same",
    "messenger.core:Core.open_link": "opens a stream, decodes nothing",
    "messenger.denc.layout:Structure.decode": "of no structure by itself; every structure's own is listed",
    "messenger.denc.utime:UTime.from_seconds": "takes a number of the caller's",
    "messenger.files:open_file": "opens a file, decodes nothing",
    "messenger.messages.layout:Enveloped.decode": "of no structure by itself; every structure's own is listed",
    "messenger.messages.layout:Enveloped.decode_body": "the same",
    "messenger.messages.layout:Fields.decode": "of no payload by itself; every payload's own is listed",
    "messenger.messenger:Messenger.open_link": "opens a stream, decodes nothing",
    "messenger.v2.wire:ControlFrame.decode": "of no frame by itself; every frame's own is listed",
}
"""What is called like a decoder and needs no target, with the reason."""

Owned = tuple[CodeType, type | None]
"""A function's code, and the class it was called on where several share the code."""


def code_of(decoder: Callable[..., object]) -> Owned:
    function = getattr(decoder, "__func__", decoder)
    owner = getattr(decoder, "__self__", None)
    return function.__code__, owner if isinstance(owner, type) else None


@contextmanager
def watching(codes: set[CodeType], returned: set[Owned]) -> Iterator[None]:
    """Note what returns a value while the block runs."""

    def watch(frame: FrameType, event: str, result: object) -> None:
        if event == "return" and result is not None and frame.f_code in codes:
            owner = frame.f_locals.get("cls")
            returned.add((frame.f_code, owner if isinstance(owner, type) else None))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.fixture(scope="module")
def returned() -> set[Owned]:
    """Every decoder that gives a value for some seed, or else for some input of the corpus."""
    wanted = {code_of(decoder) for name, decoder in public_decoders(messenger).items() if name not in EXEMPT}
    found: set[Owned] = set()
    sources = [target.seeds for target in all_targets().values()]
    sources += [partial(corpus.load, name) for name in all_targets()]
    runs = [target.run for target in all_targets().values()] * 2
    codes = {code for code, _ in wanted}
    for source, run in zip(sources, runs, strict=True):
        if wanted <= found:
            break
        for data in source():  # not watched: what draws seeds is slow enough
            with watching(codes, found):
                run(data)
    return found


def test_every_public_decoder_has_a_target(returned: set[Owned]) -> None:
    decoders = {name: code_of(decoder) for name, decoder in public_decoders(messenger).items()}
    missing = [name for name, owned in decoders.items() if owned not in returned and name not in EXEMPT]
    assert missing == [], "write a target in tests/fuzz/targets, or a seed for one that is there"


def test_no_exemption_is_out_of_date() -> None:
    assert set(EXEMPT) <= set(public_decoders(messenger))


def test_every_payload_is_decoded_by_the_corpus(returned: set[Owned]) -> None:
    assert [payload.__name__ for payload in PAYLOADS.values() if code_of(payload.decode) not in returned] == []


def test_the_search_sees_decoders_of_every_kind() -> None:
    assert {
        "messenger.v2.wire:decode_banner",
        "messenger.v2.wire:Hello.decode",  # inherited
        "messenger.denc.address:EntityAddr.decode",  # static
        "messenger.denc.entity:EntityType.from_wire",  # of an enumeration
        "messenger.cephx.keyring:Keyring.parse",
        "messenger.v2.framing:CrcReader.next_frame",
    } <= set(public_decoders(messenger))
    assert {"messenger.v2", "messenger.messages.pool"} <= {module.__name__ for module in modules(messenger)}


def test_a_decoder_that_only_fails_does_not_count() -> None:
    def decode(data: bytes) -> int:
        if not data:
            raise ValueError
        return len(data)

    found: set[Owned] = set()
    with watching({decode.__code__}, found), suppress(ValueError):
        decode(b"")
    assert found == set()
    with watching({decode.__code__}, found):
        decode(b"x")
    assert found == {(decode.__code__, None)}
