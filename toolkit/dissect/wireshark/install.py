"""Installs the dissector: to a file, or into the folder from which Wireshark loads plugins."""

import shutil
import subprocess
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import open_file, replacing
from toolkit.dissect.wireshark.dissector import MARK, dissector

FILE_NAME = "msgr2.lua"
_PROGRAMS = ("tshark", "wireshark")
_FOLDER = "Personal Lua Plugins:"
_USUAL_FOLDER = Path("~/.local/lib/wireshark/plugins")
_TIMEOUT_S = 10.0
_MODE = 0o666
"""File mode, reduced by the umask: the dissector is no secret."""


def write_dissector(place: Path) -> Path:
    """Write the dissector to a file, or into an existing folder; returns the path of the file.

    Raises:
        LocalError: a file that msgrlab did not write is there, or it cannot be written.
    """
    path = place / FILE_NAME if place.is_dir() else place
    if path.exists():
        with open_file(path) as file:
            if file.read(len(MARK)) != MARK.encode():
                raise LocalError(f"{path} exists and is not a dissector that msgrlab wrote; it stays as it is")
    try:
        with replacing(path, _MODE) as file:
            file.write(dissector().encode())
    except OSError as error:
        raise LocalError(f"{path} cannot be written: {error.strerror}") from error
    return path


def install_dissector() -> Path:
    """Write the dissector into this user's plugin folder of Wireshark; returns its path.

    Raises:
        LocalError: as :func:`write_dissector`.
    """
    folder = plugin_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{folder} cannot be made: {error.strerror}") from error
    return write_dissector(folder)


def plugin_folder() -> Path:
    """Return this user's folder of Lua plugins, as Wireshark reports it; the usual one if it is not installed."""
    for program in filter(None, map(shutil.which, _PROGRAMS)):
        try:
            output = subprocess.run(
                [program, "-G", "folders"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        for line in output.splitlines():
            if line.startswith(_FOLDER):
                return Path(line.removeprefix(_FOLDER).strip())
    return _USUAL_FOLDER.expanduser()
