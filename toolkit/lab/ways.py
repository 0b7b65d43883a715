"""Ways to run a scenario: protocol, mode, cipher of the keys, and number of shards."""

from dataclasses import dataclass
from typing import Self

from messenger.cephx.ciphers import KeyType
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.errors import Unsupported
from toolkit.node.spec import MODES


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a scenario.

    Raises:
        LocalError: the mode is unknown.
        Unsupported: the protocol does not have the mode.
    """

    protocol: Protocol = Protocol.V2
    mode: str = "crc"
    key_type: KeyType = KeyType.AES
    """Type of the cephx key that the nodes share."""
    workers: int = 0
    """Number of further shards of each node, which run data phases; 0: everything runs on the home shard."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise LocalError(f"unknown mode {self.mode!r}; known: {', '.join(MODES)}")
        if self.protocol is Protocol.V1 and self.mode != "crc":
            raise Unsupported(f"msgr v1 has no mode {self.mode}; it runs in crc")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a way's name, for example ``v2-secure-aes256k-w2``.

        Raises:
            LocalError: ``text`` is not such a name.
        """
        words = text.split("-")
        options: dict[str, object] = {}
        for word in words:
            if word in list(Protocol):
                options["protocol"] = Protocol(word)
            elif word in MODES:
                options["mode"] = word
            elif word in [key_type.label for key_type in KeyType]:
                options["key_type"] = KeyType.from_label(word)
            elif word[:1] == "w" and word[1:].isdigit():
                options["workers"] = int(word[1:])
            else:
                raise LocalError(f"{text!r} is no way to run a scenario; an example is {cls(workers=2).name}")
        return cls(**options)  # type: ignore[arg-type]

    @classmethod
    def of(cls, protocol: str, mode: str, cipher: str, workers: int) -> Self:
        """Make a way from the words that users type.

        Raises:
            LocalError: one of them is unknown.
        """
        if protocol not in list(Protocol):
            raise LocalError(f"unknown protocol {protocol!r}; known: {', '.join(Protocol)}")
        return cls(Protocol(protocol), mode, KeyType.from_label(cipher), workers)

    @property
    def name(self) -> str:
        """Its name, which :meth:`parse` parses."""
        words = [self.protocol.value]
        if self.protocol is Protocol.V2:
            words.append(self.mode)
        if self.key_type is not KeyType.AES:
            words.append(self.key_type.label)
        if self.workers:
            words.append(f"w{self.workers}")
        return "-".join(words)

    @property
    def options(self) -> list[str]:
        """The command line options that select it."""
        words = ["--mode", self.mode] if self.protocol is Protocol.V2 else ["--proto", self.protocol.value]
        if self.key_type is not KeyType.AES:
            words += ["--cipher", self.key_type.label]
        if self.workers:
            words += ["--workers", str(self.workers)]
        return words

    def __str__(self) -> str:
        return self.name


def ways(*names: str) -> tuple[Way, ...]:
    """Parse the names of ways."""
    return tuple(Way.parse(name) for name in names)


V1_WAYS = ways("v1", "v1-aes256k", "v1-w2")
CRC_WAYS = ways("v2-crc", "v2-crc-w2")
SECURE_WAYS = ways("v2-secure", "v2-secure-aes256k", "v2-secure-w2")
COMPRESSED_WAYS = ways("v2-compressed")
V2_WAYS = (*CRC_WAYS, *SECURE_WAYS, *COMPRESSED_WAYS)
ALL_WAYS = (*V2_WAYS, *V1_WAYS)
"""The ways of a scenario that names none."""
