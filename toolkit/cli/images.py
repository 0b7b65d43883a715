"""``msgrlab images``: build, list and remove the images of cluster nodes and virtual machines."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolkit.report.terminal import shown_line

if TYPE_CHECKING:
    from toolkit.cluster.images.names import Found
    from toolkit.cluster.images.work import Report

app = typer.Typer(
    help="Build, list and remove images: node, ceph:RELEASE, and vm (the kernel of virtual machines).",
    no_args_is_help=True,
)

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="node, ceph:nautilus, ceph:pacific, ceph:reef, ceph:tentacle, vm, vm:trixie, vm:uml.",
    ),
]
Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="Folder of parts and logs (~/.cache/msgrlab/images)."),
]
Context = Annotated[
    str,
    typer.Option(
        "--context", metavar="NAME", help="Docker context (see `docker context ls`) instead of the current one."
    ),
]


@app.command("build")
def build(
    names: Names,
    root: Root = None,
    context: Context = "",
    directory: Annotated[
        bool, typer.Option("--directory", help="For ceph: only build a directory to chroot into, without Docker.")
    ] = False,
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
    """Build images that do not exist, or whose sources have changed since they were built."""
    from toolkit.cluster.images import names as images
    from toolkit.cluster.images.archive import Archive
    from toolkit.machine.docker_engine import choose_context

    choose_context(context)
    archive = Archive.wanted(mirror, keyring)
    for name in names:
        images.check(name)
    for name in names:
        began_s = time.monotonic()
        with _progress(name) as (announce, report):
            if directory:
                made = images.directory(name, root, announce, report, archive)
            else:
                made = images.build(name, "", root, announce, report, archive)
        print(f"{name}: {made} ({time.monotonic() - began_s:.1f} s)")


@app.command("list")
def list_images(
    root: Root = None,
    context: Context = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """List the images that exist, in Docker and as directories."""
    from messenger.errors import LocalError
    from toolkit.cluster.images import names as images
    from toolkit.machine.docker_engine import choose_context

    choose_context(context)
    silence = ""
    try:
        found = images.in_docker()
    except LocalError as error:
        found, silence = [], str(error)
    found += images.directories(root)
    if as_json:
        print(json.dumps({"images": [_row(image) for image in found], "docker": silence or None}, indent=2))
        return
    _print_table(found)
    if silence:
        print(silence)


@app.command("remove")
def remove(names: Names, root: Root = None, context: Context = "") -> None:
    """Remove images from Docker, and the files that they were built from."""
    from toolkit.cluster.images import names as images
    from toolkit.machine.docker_engine import choose_context

    choose_context(context)
    for name in names:
        images.check(name)
    for name in names:
        removed = images.remove(name, "", root)
        print(f"{name}: {', '.join(removed) if removed else 'nothing to remove'}")


@contextmanager
def _progress(name: str) -> "Iterator[tuple[Report, Report]]":
    """Yield two functions that show progress: one for stages, one for steps.

    Without a terminal, every stage is logged, and a step now and then.
    """
    from toolkit.cli.progress import progress

    with progress(name) as steps:
        if sys.stderr.isatty():
            yield steps.show, steps.show
        else:
            yield lambda what: print(f"{name}: {shown_line(what)}", file=sys.stderr), steps.show


def _row(image: "Found") -> dict[str, Any]:
    return {
        "name": image.name,
        "what": image.what,
        "size_bytes": image.size_bytes or None,
        "version": image.version or None,
    }


def _print_table(found: "list[Found]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("name", "version", "size", "image"):
        table.add_column(heading, no_wrap=heading != "image")
    for image in sorted(found, key=lambda image: (image.name, image.what)):
        size = f"{image.size_bytes / 1e6:,.0f} MB" if image.size_bytes else ""
        table.add_row(*(Text(shown_line(cell)) for cell in (image.name, image.version, size, image.what)))
    Console().print(table)
