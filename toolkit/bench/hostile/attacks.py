"""The attacks by name, in the order of the table."""

from collections.abc import Mapping

from toolkit.bench.hostile.attack import Attack
from toolkit.bench.hostile.insiders import (
    Acks,
    HugeMessages,
    Keepalives,
    Logins,
    SlowReaders,
    SlowSenders,
    Squatting,
    TinyMessages,
)
from toolkit.bench.hostile.strangers import (
    Connections,
    Descriptors,
    HalfOpen,
    HugeHandshake,
    Replay,
    Resets,
    Silent,
    Trickle,
)

ATTACKS: Mapping[str, type[Attack]] = {
    "silent": Silent,
    "half-open": HalfOpen,
    "trickle": Trickle,
    "huge-handshake": HugeHandshake,
    "descriptors": Descriptors,
    "resets": Resets,
    "replay": Replay,
    "squatting": Squatting,
    "logins": Logins,
    "slow-senders": SlowSenders,
    "slow-readers": SlowReaders,
    "huge-messages": HugeMessages,
    "connections": Connections,
    "keepalives": Keepalives,
    "acks": Acks,
    "tiny-messages": TinyMessages,
}
