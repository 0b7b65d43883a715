"""``msgrlab bench anchor``: build Ceph's own messenger as a program for ``msgrlab bench --against``."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def anchor(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="New directory, or that of an earlier build; needs about 1.2 GB.")
    ],
    mirror: Annotated[
        str,
        typer.Option(
            "--mirror",
            metavar="URL",
            help="Mirror of Debian's archive (MSGRLAB_MIRROR); by default a snapshot of it, or deb.debian.org.",
        ),
    ] = "",
    keyring: Annotated[
        Path | None,
        typer.Option(
            "--keyring",
            metavar="FILE",
            help="Keys that verify Debian's packages (MSGRLAB_KEYRING); by default those of this machine.",
        ),
    ] = None,
) -> None:
    """Build msgr-anchor, which runs Ceph's own messenger, and print its path.

    DIR becomes a Debian system with a compiler, librados2 and Ceph's headers.
    debootstrap and apt download and verify them, which needs root and takes some
    minutes. The program itself needs no root.
    """
    from toolkit.bench.anchor.build import build
    from toolkit.cli.progress import progress
    from toolkit.cluster.images.archive import Archive

    archive = Archive.wanted(mirror, keyring)
    with progress("building") as steps:
        program = build(directory, lambda what: print(what, file=sys.stderr, flush=True), steps.show, archive)
    print(program)
