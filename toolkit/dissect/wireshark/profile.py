"""A Wireshark profile with columns and colours for messengers."""

from pathlib import Path

from messenger.errors import LocalError
from messenger.files import open_file, replacing

MARK = "# Ceph messengers, a profile written by msgrlab"
"""Beginning of the first line of each file; a file without it was not written by msgrlab."""
COLUMNS = (
    ("No.", "%m"),
    ("Time", "%t"),
    ("Source", "%s"),
    ("Destination", "%d"),
    ("Protocol", "%p"),
    ("Message", "%Cus:msgr2.message.name:0:R"),
    ("Seq", "%Cus:msgr2.message.seq:0:R"),
    ("Tid", "%Cus:msgr2.message.tid:0:R"),
    ("Ack", "%Cus:msgr2.message.ack_seq:0:R"),
    ("Data", "%Cus:msgr2.message.data_len:0:R"),
    ("CRC", "%Cus:msgr2.crc.status:0:R"),
    ("Info", "%i"),
)
"""Titles and formats of columns; ``%Cus`` is a field."""
Colour = tuple[int, int, int]
_DARK: Colour = (0x12, 0x27, 0x2E)
COLOURS: tuple[tuple[str, str, Colour, Colour], ...] = (
    ("msgr2 violated", "msgr2.crc.status == 0 || msgr2.expert.order", (0xFF, 0xFF, 0xFF), (0xA4, 0x00, 0x00)),
    (
        "msgr2 reset",
        "msgr2.expert.reset || (msgr2 && tcp.flags.reset == 1)",
        (0xFF, 0xFF, 0xFF),
        (0xC4, 0x60, 0x10),
    ),
    ("msgr2 refused", "msgr2.expert.refused", _DARK, (0xF4, 0xC4, 0x8C)),
    ("msgr2 resumed", "msgr2.session_reconnect || msgr2.expert.resumed", _DARK, (0xFC, 0xEC, 0x9C)),
    ("msgr2 encrypted", "msgr2.encrypted", _DARK, (0xD8, 0xD8, 0xD8)),
    (
        "msgr2 handshake",
        "msgr2.banner || msgr2.hello || msgr2.auth_request || msgr2.auth_done",
        _DARK,
        (0xDA, 0xEE, 0xFF),
    ),
    ("msgr2 message", "msgr2.message", _DARK, (0xE4, 0xFF, 0xC7)),
)
"""Name, display filter, foreground and background; the first rule that matches a packet applies."""
_MODE = 0o666
"""File mode, reduced by the umask: a profile is no secret."""


def write_profile(folder: Path) -> Path:
    """Write the files of the profile into a folder, which is created if necessary; returns the folder.

    Raises:
        LocalError: a file that msgrlab did not write is there, or the folder cannot be made or written.
    """
    files = {"preferences": _preferences(), "colorfilters": _colour_filters()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            _check_ours(folder / name)
        for name, text in files.items():
            with replacing(folder / name, _MODE) as file:
                file.write(text.encode())
    except OSError as error:
        raise LocalError(f"{folder} cannot be written: {error.strerror}") from error
    return folder


def _check_ours(path: Path) -> None:
    if path.exists():
        with open_file(path) as file:
            if file.read(len(MARK)) != MARK.encode():
                raise LocalError(f"{path} exists and msgrlab did not write it; it stays as it is")


def _preferences() -> str:
    columns = ",\n\t".join(f'"{title}", "{form}"' for title, form in COLUMNS)
    return f"{MARK}\n# The dissector: msgrlab wireshark --install\ngui.column.format: \n\t{columns}\n"


def _colour_filters() -> str:
    lines = (f"@{name}@{rule}@{_rgb(back)}{_rgb(front)}" for name, rule, front, back in COLOURS)
    return "\n".join([MARK, *lines]) + "\n"


def _rgb(colour: Colour) -> str:
    """Format a colour as Wireshark does, with 16 bits per part."""
    return f"[{','.join(str(part * 257) for part in colour)}]"
