"""Keyring files: entities and their keys, in Ceph's INI format (docs/protocol.md §5.1).

Reads what `ceph-authtool` writes and what people edit by hand: comments, quotes, continued lines, tabs, and spaces
or underscores in option names. A keyfile, which contains only a key, is read as well.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.denc.entity import AuthName
from messenger.errors import LocalError
from messenger.files import read_text

_MOST_BYTES = 1 << 20
"""Longest keyring file that is read: some five thousand entities."""
_MOST_NAMED = 20
"""Most entities that an error lists."""
_SECTION = re.compile(r"\[(?P<name>[^\]]*)\]\s*(?:[#;].*)?")
_OPTION = re.compile(r"(?P<name>[^=#;\[]+)=\s*(?P<value>.*)")
_QUOTED = re.compile(r"""(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)\s*(?:[#;].*)?""")
_BARE = re.compile(r"(?P<text>(?:\\.|[^#;\\])*)(?:[#;].*)?")
_ESCAPE = re.compile(r"\\(.)")
_NAME_GAP = re.compile(r"[\s_]+")
_KEYFILE = re.compile(r"[A-Za-z0-9+/]+=*")
_NO_KEY = CryptoKey(KeyType.NONE, b"")


@dataclass(frozen=True, slots=True)
class KeyringEntry:
    """One section: the key and the capabilities by service (``{"mon": "allow *"}``)."""

    key: CryptoKey
    caps: Mapping[str, str] = field(default_factory=dict)

    def format(self, name: AuthName) -> str:
        """The section as `ceph-authtool` writes it."""
        lines = [f"[{name}]", f"\tkey = {self.key.to_base64()}"]
        for service, text in sorted(self.caps.items()):
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'\tcaps {service} = "{escaped}"')
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Keyring:
    """The entities of one keyring, or the key of a keyfile, which has no name."""

    entries: dict[AuthName, KeyringEntry] = field(default_factory=dict)
    keyfile_key: CryptoKey | None = None
    """The key of a keyfile. The file names no entity, so every name has this key."""
    source: str = "keyring"
    """Name of this keyring in errors, usually the file's path."""

    def key(self, name: AuthName) -> CryptoKey:
        """The key of an entity.

        Raises:
            LocalError: the keyring has no such entity (the error lists those it has), or no key for it.
        """
        if self.keyfile_key is not None:
            return self.keyfile_key
        entry = self.entries.get(name)
        if entry is None:
            raise LocalError(f"{self.source}: no entity {name}; it has {self._named()}")
        if entry.key.type == KeyType.NONE:
            raise LocalError(f"{self.source}: {name} has no key")
        return entry.key

    def has(self, name: AuthName) -> bool:
        """True if the keyring has a key for ``name``."""
        entry = self.entries.get(name)
        return self.keyfile_key is not None or (entry is not None and entry.key.type != KeyType.NONE)

    def _named(self) -> str:
        names = [str(name) for name in sorted(self.entries)]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"{', '.join(names[:_MOST_NAMED])}{more}" if names else "none"

    def format(self) -> str:
        """The text of the file, entities in Ceph's order."""
        if self.keyfile_key is not None:
            return self.keyfile_key.to_base64() + "\n"
        return "".join(entry.format(name) for name, entry in sorted(self.entries.items()))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a keyring file of up to 1 MiB.

        Raises:
            LocalError: it cannot be read, is longer, or is not a keyring; the error names file and line.
        """
        return cls.parse(read_text(path, _MOST_BYTES, "keyring"), source=str(path))

    @classmethod
    def parse(cls, text: str, source: str = "keyring") -> Self:
        """Parse the text of a keyring file; sections of one name are merged, later options win.

        Raises:
            LocalError: it is not a keyring; the error names ``source`` and line.
        """
        lines = list(_logical_lines(text))
        if len(lines) == 1 and _KEYFILE.fullmatch(lines[0][1]):
            return cls(keyfile_key=_parse_key(lines[0][1], f"{source}:{lines[0][0]}"), source=source)
        keyring = cls(source=source)
        name: AuthName | None = None
        for number, line in lines:
            where = f"{source}:{number}"
            if section := _SECTION.fullmatch(line):
                name = _parse_name(section["name"], where)
                keyring.entries.setdefault(name, KeyringEntry(_NO_KEY))
            elif option := _OPTION.fullmatch(line):
                if name is None:
                    raise LocalError(f"{where}: option before the first [TYPE.ID] section")
                value = _parse_value(option["value"], where)
                keyring.entries[name] = _with_option(keyring.entries[name], option["name"], value, where)
            else:
                raise LocalError(f"{where}: neither a [TYPE.ID] section nor an option with a value")
        return keyring


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number and stripped text of each line except blank ones and comments; a trailing backslash joins lines."""
    pending, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        start = start or number
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        whole = (pending + line).strip()
        if whole and whole[0] not in "#;":
            yield start, whole
        pending, start = "", 0
    if pending.strip():
        yield start, pending.strip()


def _parse_name(text: str, where: str) -> AuthName:
    try:
        return AuthName.parse(text.strip())
    except LocalError as error:
        raise LocalError(f"{where}: {error}") from None


def _parse_key(text: str, where: str) -> CryptoKey:
    try:
        return CryptoKey.from_base64(text)
    except LocalError as error:
        raise LocalError(f"{where}: {error}") from None


def _parse_value(text: str, where: str) -> str:
    """The value without quotes, trailing comment and escapes."""
    pattern = _QUOTED if text[:1] in {'"', "'"} else _BARE
    match = pattern.fullmatch(text)
    if match is None:
        raise LocalError(f"{where}: the value is not one closed quoted text")
    return _ESCAPE.sub(r"\1", match["text"] if pattern is _QUOTED else match["text"].strip())


def _with_option(entry: KeyringEntry, name: str, value: str, where: str) -> KeyringEntry:
    """The entry with one more option of its section."""
    words = _NAME_GAP.sub(" ", name).strip().split(" ")
    match words:
        case ["key"]:
            return KeyringEntry(_parse_key(value, where), entry.caps)
        case ["caps", service]:
            return KeyringEntry(entry.key, {**entry.caps, service: value})
        case ["auid"]:  # in old keyrings; ignored, as in Ceph
            return entry
    # The error does not name the option, which may be a key without its "key =".
    raise LocalError(f"{where}: unknown option; known: key = BASE64, caps SERVICE = TEXT")
