"""Translate addresses in frames, so that each party takes the proxy between them for the other party.

In frames with a party's address (IDENTIFY of v1; HELLO, CLIENT_IDENT and SERVER_IDENT of v2; the monitor map), the
address of one side of the proxy is replaced by that of the other. None of these frames is signed by itself, but
AUTH_SIGNATURE covers HELLO (docs/protocol.md §4.7), so it is recomputed with the keys of the link.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from messenger.compat import override
from messenger.denc.address import AddrVec, EntityAddr
from messenger.errors import LocalError
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import SeenFrame
from toolkit.faults.edits import Sign
from toolkit.faults.mangle import Altered, Change, Mangle
from toolkit.faults.rewrites import decoded, encoded, is_message, with_payload
from toolkit.faults.strike import ALL, Strike

Place = tuple[str, int]

_ADDRESS_TAGS = ("IDENTIFY", "HELLO", "CLIENT_IDENT", "SERVER_IDENT")
"""Frames with addresses that their receivers compare."""
_MESSAGES = ("MESSAGE", "MSG")


@dataclass(frozen=True, slots=True)
class BothAddresses:
    """Addresses on both sides of a proxy; port 0 matches any."""

    listening: Place
    target: Place

    def translation(self, direction: Direction) -> Mapping[Place, Place]:
        """Return the replacements of addresses in frames of a direction."""
        if direction is Direction.TO_CLIENT:
            return {self.target: self.listening}
        return {self.listening: self.target}


@dataclass(slots=True)
class Pretend(Change):
    """Replace addresses in a frame."""

    what = "rewrite"
    addresses: BothAddresses

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        translation = self.addresses.translation(frame.direction)
        if is_message(frame):
            made = with_payload(frame, lambda payload: translated(payload, translation))
        else:
            piece = decoded(frame)
            changed = translated(piece, translation)
            if changed == piece:
                return Altered(frame.raw)
            made = encoded(frame, changed)
        return Altered(made.raw, segments=made.segments or None)

    def __str__(self) -> str:
        return "addresses of the other side"


def translated(value: Any, translation: Mapping[Place, Place]) -> Any:  # noqa: ANN401 - anything with addresses
    """Return a value with addresses replaced in it, at any depth."""
    if isinstance(value, EntityAddr):
        found = translation.get((value.host, value.port)) if value.ip else None
        return value if found is None else EntityAddr.from_host(*found, value.type, value.nonce)
    if isinstance(value, AddrVec):
        return AddrVec(tuple(translated(addr, translation) for addr in value))
    if isinstance(value, list | tuple):
        return type(value)(translated(part, translation) for part in value)
    if isinstance(value, dict):
        return {key: translated(part, translation) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        named = {item.name: getattr(value, item.name) for item in fields(value) if item.init}
        changed = {name: translated(part, translation) for name, part in named.items()}
        return replace(value, **{name: part for name, part in changed.items() if part is not named[name]})
    return value


def translating_strikes(addresses: BothAddresses) -> list[Strike]:
    """Return the strikes that translate addresses on both sides of a proxy.

    Raises:
        LocalError: the proxy or its target has a wildcard address.
    """
    for host, _ in (addresses.listening, addresses.target):
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared
            raise LocalError(f"--pretend needs a specific address; {host} is a wildcard")
    addressed = [Mangle("", tag, passes=ALL, change=Pretend(addresses), lenient=True) for tag in _ADDRESS_TAGS]
    maps = [
        Mangle("", tag, passes=ALL, change=Pretend(addresses), lenient=True, accepts=_is_monmap)
        for tag in _MESSAGES
    ]
    return [*addressed, *maps, Mangle("", "AUTH_SIGNATURE", passes=ALL, change=Sign(), lenient=True)]


def _is_monmap(frame: SeenFrame) -> bool:
    return frame.fields.get("name") == "mon_map"
