"""The captures on which decoders are measured: the traffic of two endpoints in memory, written as packets.

The same recipe always makes the same file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthClient, AuthServer, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.none import NoneClient, NoneServer
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import AuthName
from messenger.endpoint import Endpoint
from messenger.link import Protocol
from messenger.messages.message import Message
from toolkit.bench.core import Side
from toolkit.bench.identity import (
    MESSAGE_TYPE,
    RECEIVER,
    RECEIVER_POLICIES,
    SECRET_ID,
    SENDER,
    SENDER_POLICIES,
    auth_client,
    auth_server,
)
from toolkit.bench.packets import Clock, Conversation
from toolkit.capture.formats import LinkType, PcapngWriter
from toolkit.dissect.direction import Direction

SERVICE_KEY = CryptoKey(KeyType.AES, bytes(range(16)))
"""Service key of the receivers in secure captures."""
KEY_LOG = f"service {RECEIVER.type.label} {SECRET_ID} {SERVICE_KEY.to_base64()}\n"
"""Key log that decrypts the secure captures."""
_START_S = 1_700_000_000
_NANO = 1_000_000_000
_PACKET_NS = 10_000
_FRONT_BYTES = 100
_PORT = 6800
_CLIENT_PORT = 40_000
_MEGA = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The parameters of a capture: connections with messages one way and acknowledgements the other."""

    name: str
    protocol: Protocol
    mode: ConMode
    data_bytes: tuple[int, int]
    """Smallest and largest data of a message."""
    even: bool
    """True for uniformly distributed sizes, False for log-uniform: as many from 1 to 2 KiB as from 2 to 4 KiB."""
    messages: int
    segment_bytes: int
    """Largest TCP payload of a packet."""
    connections: int = 4
    """Number of connections, whose packets are interleaved."""
    burst: int = 32
    """Number of messages that a sender writes at once."""

    def scaled(self, factor: float) -> int:
        """Return the number of messages of a capture ``factor`` times as long, rounded to whole bursts."""
        round_of_all = self.connections * self.burst
        return max(1, round(self.messages * factor / round_of_all)) * round_of_all


_ETHERNET_SEGMENT, _LOOPBACK_SEGMENT = 1460, 65_483
RECIPES = (
    Recipe(
        name="v1 large",
        protocol=Protocol.V1,
        mode=ConMode.CRC,
        data_bytes=(100, 65_536),
        even=False,
        messages=19_470,
        segment_bytes=_ETHERNET_SEGMENT,
    ),
    Recipe(
        name="v1 small",
        protocol=Protocol.V1,
        mode=ConMode.CRC,
        data_bytes=(50, 550),
        even=True,
        messages=129_004,
        segment_bytes=_ETHERNET_SEGMENT,
    ),
    Recipe(
        name="v1 many links",
        protocol=Protocol.V1,
        mode=ConMode.CRC,
        data_bytes=(50, 550),
        even=True,
        messages=32_400,
        segment_bytes=_ETHERNET_SEGMENT,
        connections=300,
        burst=4,
    ),
    *(
        Recipe(
            name=f"v2 {mode.name.lower()}",
            protocol=Protocol.V2,
            mode=mode,
            data_bytes=(100, 65_536),
            even=False,
            messages=19_470,
            segment_bytes=_LOOPBACK_SEGMENT,
        )
        for mode in (ConMode.CRC, ConMode.SECURE)
    ),
    *(
        Recipe(
            name=f"v2 {mode.name.lower()} small",
            protocol=Protocol.V2,
            mode=mode,
            data_bytes=(50, 550),
            even=True,
            messages=64_512,
            segment_bytes=_ETHERNET_SEGMENT,
        )
        for mode in (ConMode.CRC, ConMode.SECURE)
    ),
)
FULL_BYTES = 200 * _MEGA
"""Size of most captures; those of small messages are shorter."""


def write_capture(recipe: Recipe, path: Path, messages: int) -> None:
    """Write a new capture with this number of messages.

    Raises:
        OSError: the file cannot be written, or exists.
    """
    rng = Random(f"{recipe.name} {messages}")
    noise = memoryview(rng.randbytes(2 * recipe.data_bytes[1]))
    with PcapngWriter(path) as writer:
        writer.interface("bench", LinkType.ETHERNET)
        clock = Clock(_START_S * _NANO, _PACKET_NS)
        talks = [_Talk(recipe, writer, clock, number, rng) for number in range(recipe.connections)]
        each = messages // recipe.connections
        for first in range(0, each, recipe.burst):
            for talk in talks:
                talk.send(_messages(recipe, noise, rng, first, min(recipe.burst, each - first)))
        for talk in talks:
            talk.close()


def _messages(recipe: Recipe, noise: memoryview, rng: Random, first: int, count: int) -> Iterator[Message]:
    low, high = recipe.data_bytes
    for tid in range(first, first + count):
        size = rng.randint(low, high) if recipe.even else round(low * (high / low) ** rng.random())
        at = rng.randrange(high)
        yield Message(MESSAGE_TYPE, front=noise[:_FRONT_BYTES], data=noise[at : at + size], tid=tid + 1)


class _Talk:
    """One connection: two endpoints in memory, whose bytes are written as packets."""

    def __init__(self, recipe: Recipe, writer: PcapngWriter, clock: Clock, number: int, rng: Random) -> None:
        client_port = _CLIENT_PORT + number
        self._packets = Conversation(
            writer, clock, ("10.0.0.1", client_port), ("10.0.0.2", _PORT), recipe.segment_bytes
        )
        self._packets.open()
        self._sender, self._receiver = _sides(recipe, number, rng)
        addrs = self._receiver.endpoint.addrs
        self._session = self._sender.connect(addrs)
        peer = EntityAddr.parse(f"v2:10.0.0.1:{client_port}/0")
        self._receiver.link_id = self._receiver.endpoint.link_accepted(peer, 0.0, recipe.protocol)
        self.send(())

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages, and relay bytes until neither side has anything to write."""
        for message in messages:
            self._sender.endpoint.send(self._session, message, 0.0)
        for side in self._sender, self._receiver:
            side.pump(0.0)
        while self._sender.has_written or self._receiver.has_written:
            self._relay(Direction.TO_SERVER, self._sender, self._receiver)
            self._relay(Direction.TO_CLIENT, self._receiver, self._sender)

    def close(self) -> None:
        """Close the connection from both sides."""
        self._packets.close()

    def _relay(self, direction: Direction, source: Side, destination: Side) -> None:
        written = source.written()
        self._packets.send(direction, written)
        destination.receive(written)


def _sides(recipe: Recipe, number: int, rng: Random) -> tuple[Side, Side]:
    client: AuthClient = NoneClient(AuthName(SENDER.type, str(SENDER.num)))
    server: AuthServer = NoneServer()
    if recipe.mode is ConMode.SECURE:
        client, server = auth_client(SERVICE_KEY), auth_server(SERVICE_KEY)
    config = Config.only_mode(recipe.mode)
    sender = Endpoint(
        SENDER,
        AddrVec((EntityAddr.blank(AddressType.ANY, number + 1),)),
        rng=rng,
        auth_client=client,
        policies=SENDER_POLICIES,
        config=config,
        wall_offset_s=_START_S,
    )
    receiver = Endpoint(
        RECEIVER,
        AddrVec.parse(f"{recipe.protocol}:10.0.0.2:{_PORT}/2"),
        rng=rng,
        auth_server=server,
        policies=RECEIVER_POLICIES,
        config=config,
        wall_offset_s=_START_S,
    )
    return Side(sender), Side(receiver)
