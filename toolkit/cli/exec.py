"""``msgrlab exec``: run a program on the host of a node, of this machine or of a release of Ceph."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, complete_nodes, complete_releases, take_name, take_option

NOT_FOUND = 127
_SIGNALLED = 128


def exec_(
    node: Annotated[
        str, typer.Argument(metavar="NODE", autocompletion=complete_nodes, help="The node on whose host it runs.")
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    name: ClusterName = "",
    release: Annotated[
        str,
        typer.Option(
            metavar="RELEASE",
            autocompletion=complete_releases,
            help="Take the program from the image of this Ceph release: nautilus, pacific, reef or tentacle.",
        ),
    ] = "",
    share: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="With --release: a directory that the program sees, too. Repeatable."),
    ] = None,
) -> int:
    """Run a program on a node's host with the terminal or pipes of this command; exit with its exit code.

    --release: the program is that of another Ceph, unmodified, with the network, ceph.conf and keyring of the
    node. It sees the files of its image and of clusters; what it writes elsewhere is lost when it ends.
    """
    from toolkit.cluster.supervisor.client import ask, chosen
    from toolkit.machine.labels import PROCESS_VARIABLE

    command, name, release, shared = _options(command, name, release, share or [])
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise LocalError(f"exec {node}: no program was given, as in: msgrlab exec {node} -- CMD")
    image = _image(release, shared)
    lease = chosen(name)
    how = ask(lease, "exec", node=node, argv=command, image=image, shared=shared)
    directory = how["directory"]
    sys.stdout.flush()
    try:
        code = subprocess.call(
            how["argv"],
            env={**os.environ, PROCESS_VARIABLE: str(lease.label)},
            cwd=directory if Path(directory).is_dir() else None,
        )
    except FileNotFoundError:
        raise LocalError(f"{node}: {command[0]}: there is no such program on this host") from None
    except OSError as error:
        raise LocalError(f"{node}: {command[0]}: {error.strerror}") from None
    except KeyboardInterrupt:
        return _SIGNALLED + 2
    return code if code >= 0 else _SIGNALLED - code


def _options(words: list[str], name: str, release: str, share: list[str]) -> tuple[list[str], str, str, list[str]]:
    """Take the options between NODE and ``--`` out of the words; returns the others and all options."""
    left = [*words, ""]
    while len(words) < len(left):  # they may stand in any order
        left = words
        words, name = take_name(words, name, most=0)
        words, releases = take_option(words, "--release", "a release of Ceph", most=0)
        words, shares = take_option(words, "--share", "a directory", most=0)
        release, share = (releases or [release])[-1], [*share, *shares]
    return words, name, release, share


def _image(release: str, shared: list[str]) -> str:
    """Return the directory of a release's image; empty for programs of this machine.

    Raises:
        LocalError: there is no such release, or a directory cannot be shared with its programs.
        Unsupported: there is no image, or this process is not root.
    """
    if not release:
        if shared:
            raise LocalError("exec --share needs --release: programs of this machine see all its directories")
        return ""
    from toolkit.cluster.chroot import check_shared, existing_image

    check_shared(Path(each) for each in shared)
    return str(existing_image(release))
