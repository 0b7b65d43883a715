"""``msgrlab wireshark``: a Wireshark dissector of msgr v2, a profile, and decrypted captures."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.key_options import KeyLogs, Keyrings

INCOMPLETE = 1


def wireshark(
    capture: Annotated[
        Path | None,
        typer.Argument(metavar="[CAPTURE]", help="Capture to export to -o, decrypted and decompressed."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write instead of standard output."),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Install the dissector in Wireshark's folder of plugins.")
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a profile with columns and colours to DIR, as in ~/.config/wireshark/profiles/ceph.",
        ),
    ] = None,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
) -> int:
    """Print or install a Wireshark dissector of msgr v2, write a profile, or export a capture decrypted."""
    if profile is not None:
        from toolkit.dissect.wireshark.profile import write_profile

        if capture is not None or output is not None or install or keyring or key_log:
            raise LocalError("--profile DIR cannot be combined with CAPTURE or other options")
        print(
            f"{write_profile(profile)}: try wireshark -C {profile.name}, if it is in Wireshark's profiles folder"
        )
        return 0
    if capture is not None:
        if output is None or install:
            raise LocalError("to export CAPTURE, -o FILE.pcapng is needed, without --install")
        return _export(capture, output, keyring or [], key_log or [])
    if keyring or key_log:
        raise LocalError("--keyring and --key-log need CAPTURE")
    return _dissector(output, install=install)


def _dissector(output: Path | None, *, install: bool) -> int:
    from toolkit.dissect.wireshark.dissector import dissector
    from toolkit.dissect.wireshark.install import install_dissector, write_dissector

    if install and output is not None:
        raise LocalError("--install and -o FILE exclude each other")
    if install:
        print(f"{install_dissector()}: wireshark and tshark load it when they start")
    elif output is not None:
        print(f"{write_dissector(output)}: try tshark -X lua_script:{output} -r CAPTURE -Y msgr2")
    else:
        print(dissector(), end="")
    return 0


def _export(capture: Path, output: Path, keyrings: list[Path], key_logs: list[Path]) -> int:
    from toolkit.dissect.keys import KeyBook
    from toolkit.dissect.wireshark.capture_export import export_capture

    exported = export_capture(capture, output, KeyBook.read(keyrings, key_logs))
    print(f"{output}: {exported}")
    if exported.trouble is None:
        return 0
    print(f"msgrlab: {capture}: {exported.trouble}", file=sys.stderr)
    return INCOMPLETE
