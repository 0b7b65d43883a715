"""Writes pcapng: packets with nanosecond times, with notes and keys in the same file."""

import os
from struct import Struct
from types import TracebackType
from typing import BinaryIO, Self

from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.files import append_private, new_file
from toolkit.capture.formats.blocks import (
    BYTE_ORDER_MAGIC,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE,
    MESSENGER_KEY_LOG,
    NAMES,
    OPTION_COMMENT,
    OPTION_TIME_RESOLUTION,
    SECTION_HEADER,
    LinkType,
)

_OPTION = Struct("<HH")
_BLOCK = Struct("<II")
_SECTION = Struct("<IHHq")
_INTERFACE = Struct("<HHI")
_PACKET = Struct("<IIIII")
_SECRETS = Struct("<II")
_SIZE = Struct("<I")
_END_OF_NAMES = bytes(4)
_OPTION_NAME = 2
_OPTION_APPLICATION = 4
_NANOSECONDS = 9
_LONGEST_OPTION_BYTES = 0xFFFF
_WHOLE_FILE = -1


class PcapngWriter:
    """Writes a capture. Every block is written at once, so that the file can be read at any time.

    Notes before anything else are comments of the file, which other tools show; later ones have a block of their
    own.
    """

    def __init__(self, file: str | os.PathLike[str] | BinaryIO, *, append: bool = False) -> None:
        """Create the file, readable by its owner only, since it contains traffic and perhaps keys.

        An existing file is never overwritten.

        Args:
            file: a path, or a binary file object (which is not closed).
            append: True to append to an existing file, as a new section.

        Raises:
            LocalError: the file exists, or cannot be written; when appending, also if it belongs to another user,
                or others may access it.
        """
        self._ours = isinstance(file, str | os.PathLike)
        if isinstance(file, str | os.PathLike):
            name = os.fspath(file)
            try:
                self._file: BinaryIO = os.fdopen(append_private(name), "ab") if append else new_file(name)
            except FileExistsError:
                raise LocalError(f"{name}: exists already") from None
            except OSError as error:
                raise LocalError(f"{name}: {error.strerror}") from None
        else:
            self._file = file
        self._first_notes: list[str] | None = []
        self.interfaces = 0
        """Number of interfaces so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish the file."""
        self._begin()
        self.flush()
        if self._ours:
            self._file.close()

    def flush(self) -> None:
        """Flush everything written so far to the file."""
        self._file.flush()

    def note(self, text: str) -> None:
        """Add a comment about the capture.

        Raises:
            LocalError: the comment is longer than 65,535 bytes.
        """
        if self._first_notes is not None:
            _comment(text)
            self._first_notes.append(text)
        else:
            self._write(NAMES, _END_OF_NAMES, _options(_comment(text)))

    def interface(self, name: str, link_type: int = LinkType.ETHERNET) -> int:
        """Add an interface; returns its number for :meth:`packet`."""
        self._begin()
        options = _options((_OPTION_NAME, name.encode()), (OPTION_TIME_RESOLUTION, bytes([_NANOSECONDS])))
        self._write(INTERFACE, _INTERFACE.pack(link_type, 0, 0), options)
        self.interfaces += 1
        return self.interfaces - 1

    def secrets(self, text: str) -> None:
        """Add a key log, which should precede the packets that need it."""
        self._begin()
        raw = text.encode()
        self._write(DECRYPTION_SECRETS, _SECRETS.pack(MESSENGER_KEY_LOG, len(raw)), raw)

    def packet(
        self,
        time_ns: int,
        data: Buffer,
        interface: int = 0,
        comment: str | None = None,
        original_bytes: int | None = None,
    ) -> None:
        """Add a packet.

        Args:
            time_ns: Unix time.
            data: its bytes, or the first of them.
            interface: number of the interface that received it.
            comment: comment on this packet.
            original_bytes: its original length, if ``data`` is not all of it.

        Raises:
            LocalError: there is no such interface, or the comment is longer than 65,535 bytes.
        """
        if not 0 <= interface < self.interfaces:
            raise LocalError(f"interface {interface} is not there, {self.interfaces} are")
        size = len(data)
        head = _PACKET.pack(
            interface,
            time_ns >> 32 & 0xFFFFFFFF,
            time_ns & 0xFFFFFFFF,
            size,
            size if original_bytes is None else original_bytes,
        )
        self._write(ENHANCED_PACKET, head, data, _options(_comment(comment)) if comment else b"")

    def _begin(self) -> None:
        if self._first_notes is None:
            return
        notes, self._first_notes = self._first_notes, None
        options = _options(*map(_comment, notes), (_OPTION_APPLICATION, b"msgrlab"))
        self._write(SECTION_HEADER, _SECTION.pack(BYTE_ORDER_MAGIC, 1, 0, _WHOLE_FILE), options)

    def _write(self, kind: int, head: bytes, *parts: Buffer) -> None:
        body = b"".join([head, *map(_pad, parts)])
        size = len(body) + 12
        self._file.write(b"".join([_BLOCK.pack(kind, size), body, _SIZE.pack(size)]))


def _pad(part: Buffer) -> Buffer:
    missing = -len(part) % 4
    return b"".join([part, bytes(missing)]) if missing else part


def _comment(text: str) -> tuple[int, bytes]:
    raw = text.encode()
    if len(raw) > _LONGEST_OPTION_BYTES:
        raise LocalError(f"a comment of {len(raw)} bytes is longer than {_LONGEST_OPTION_BYTES}")
    return OPTION_COMMENT, raw


def _options(*options: tuple[int, bytes]) -> bytes:
    pieces = [_OPTION.pack(code, len(value)) + _pad(value) for code, value in options]
    return b"".join([*pieces, bytes(4)])
