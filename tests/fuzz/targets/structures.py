"""Every structure that decodes from nothing but bytes, found by walking the messenger's packages.

One target per package. An input is the name of the structure, a colon, and the encoding. A new structure is
covered as soon as it exists; its seeds are encodings found inside of the package's captures, or the fuzzer's
own.
"""

import inspect
import json
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature
from messenger.errors import PeerError
from messenger.messages.layout import Enveloped, before_nautilus
from tests.fuzz.decoders import packages, structures
from tests.fuzz.seeds import made_up, structure_seeds
from tests.fuzz.target import Target, require_stable

FEATURES = (
    ALL_FEATURES,
    CLIENT_FEATURES,
    before_nautilus(CLIENT_FEATURES),
    CLIENT_FEATURES & ~Feature.MSG_ADDR2,
    Feature.SERVER_JEWEL | Feature.PGID64,
    0,
)
"""Feature masks that encoders distinguish, newest first; the second one is the usual one here."""
_MARGIN = b"\xa5" * 7
"""Lies around the bytes of an input; a decoder that reads it would see other values."""


def decode_as(structure: Any, data: Buffer, features: int = ALL_FEATURES) -> Any:
    """The structure in ``data``, read from the middle of a larger buffer as off the wire."""
    around = memoryview(_MARGIN + data + _MARGIN)[len(_MARGIN) : len(_MARGIN) + len(data)]
    takes_decoder, featured = _decode_form(structure)
    source = Decoder(around) if takes_decoder else around
    return structure.decode(source, features) if featured else structure.decode(source)


@cache
def _decode_form(structure: Any) -> tuple[bool, bool]:
    source, *more = inspect.signature(structure.decode).parameters.values()
    return source.annotation is Decoder, bool(more)


@cache
def _encode_form(structure: Any) -> tuple[bool, bool]:
    names = list(inspect.signature(structure.encode).parameters)
    return "encoder" in names, "features" in names


def encode(value: Any, features: int) -> bytes:
    """The encoding of a structure, in whichever form its ``encode`` has."""
    takes_encoder, featured = _encode_form(type(value))
    arguments = [features] if featured else []
    if not takes_encoder:
        return value.encode(*arguments)
    encoder = Encoder()
    value.encode(encoder, *arguments)
    return encoder.getvalue()


def check_value(structure: Any, value: Any) -> None:
    """A decoded value can be shown and, where there is an encoder, gives the same value again."""
    repr(value), str(value)
    if hasattr(value, "printable"):
        json.dumps(value.printable(), allow_nan=False)
    if not hasattr(value, "encode"):
        return
    for features in FEATURES:
        require_stable(
            value,
            lambda what, features=features: encode(what, features),
            lambda raw, features=features: decode_as(structure, raw, features),
            # Older peers get less, and what says it is of an old version may hold what that version cannot carry.
            lossy=features != ALL_FEATURES or structure.__module__.startswith("messenger.messages."),
        )


@cache
def _structures(package: str) -> dict[str, type]:
    return structures(package)


def run(package: str, data: bytes) -> None:
    """Decode what follows the colon as what precedes it."""
    name, _, encoding = data.partition(b":")
    structure = _structures(package).get(name.decode("ascii", "replace"))
    if structure is None:
        return
    try:
        value = decode_as(structure, encoding)
    except PeerError:
        return
    check_value(structure, value)


def seeds(package: str) -> Iterator[bytes]:
    """Real encodings, made-up ones, and zeros of several lengths."""
    for name, structure in _structures(package).items():
        prefix = name.encode() + b":"
        encodings = structure_seeds(structure)
        if issubclass(structure, Enveloped):  # whose fields say what values they have
            encodings += [encode(value, ALL_FEATURES) for value in made_up(structure)]
        yield from (prefix + encoding for encoding in encodings)
        yield from (prefix + bytes(length) for length in (0, 8, 64))


def _name(data: bytes) -> bytes:
    return data.partition(b":")[0]


TARGETS = tuple(
    Target(
        name=f"structures-{package}",
        run=partial(run, package),
        seeds=partial(seeds, package),
        label=_name,
        coarse=True,
    )
    for package in packages()
)
