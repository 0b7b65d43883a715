"""Parts of fronts that several messages share (docs/protocol.md §1.1, §6.1)."""

from uuid import UUID

from messenger.denc.codec import Decoder, Encoder

_UUID_SIZE = 16
_PAXOS_TAIL_SIZE = 10


def encode_uuid(encoder: Encoder, value: UUID) -> None:
    """Append 16 bytes in textual order."""
    encoder.raw(value.bytes)


def decode_uuid(decoder: Decoder) -> UUID:
    """Read 16 bytes."""
    return UUID(bytes=decoder.raw(_UUID_SIZE))


def encode_paxos(encoder: Encoder, map_version: int) -> None:
    """Append the PaxosServiceMessage preamble (PX in §6.2): a map version and two retired fields."""
    encoder.u64(map_version)
    encoder.i16(-1)
    encoder.u64(0)


def decode_paxos(decoder: Decoder) -> int:
    """Read the PaxosServiceMessage preamble; returns the map version."""
    map_version = decoder.u64()
    decoder.skip(_PAXOS_TAIL_SIZE)
    return map_version
