"""Choice of the frame revision: msgr 2.1 if both banners have REVISION_1, else 2.0 (docs/protocol.md §4.2)."""

from messenger.denc.features import Msgr2Feature
from messenger.v2.framing import (
    CrcReader,
    CrcWriter,
    FrameCaches,
    RawReader,
    RawWriter,
    SecureReader,
    SecureWriter,
)
from messenger.v2.onwire import rev0_ciphers, stream_ciphers
from messenger.v2.preamble import UNLIMITED, PreambleLimits
from messenger.v2.rev0 import Rev0CrcReader, Rev0CrcWriter, Rev0SecureReader, Rev0SecureWriter


def crc_frames(
    msgr2_features: int, max_frame_bytes: int, caches: FrameCaches | None = None
) -> tuple[RawReader, RawWriter]:
    """Create the reader and writer of crc mode.

    Args:
        msgr2_features: features that both banners advertise.
        max_frame_bytes: longest frame to accept.
        caches: caches that the links of a host share; None for a single link.
    """
    if msgr2_features & Msgr2Feature.REVISION_1:
        return CrcReader(max_frame_bytes, caches), CrcWriter(caches)
    return Rev0CrcReader(max_frame_bytes, _limits(caches)), Rev0CrcWriter()


def secure_frames(
    msgr2_features: int,
    max_frame_bytes: int,
    connection_secret: bytes,
    caches: FrameCaches | None = None,
    *,
    connector: bool,
) -> tuple[RawReader, RawWriter]:
    """Create the reader and writer of secure mode for one end.

    Args:
        msgr2_features: features that both banners advertise.
        max_frame_bytes: longest frame to accept.
        connection_secret: source of the key and the nonces.
        caches: caches that the links of a host share; None for a single link.
        connector: True for the connector's end.

    Raises:
        DecodeError: the secret is too short.
    """
    if msgr2_features & Msgr2Feature.REVISION_1:
        receiving, sending = stream_ciphers(connection_secret, connector=connector)
        return SecureReader(receiving, max_frame_bytes, caches), SecureWriter(sending, caches=caches)
    old_receiving, old_sending = rev0_ciphers(connection_secret, connector=connector)
    return Rev0SecureReader(old_receiving, max_frame_bytes, _limits(caches)), Rev0SecureWriter(old_sending)


def _limits(caches: FrameCaches | None) -> PreambleLimits:
    return UNLIMITED if caches is None else caches.limits
