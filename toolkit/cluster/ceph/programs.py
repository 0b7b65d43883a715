"""The Ceph programs of a host, and commands on its daemons' admin sockets."""

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.backends.base import Host
from toolkit.cluster.chroot import images_root, in_image, like_here
from toolkit.cluster.daemons import SOCKET_PATH_LIMIT, require_tools
from toolkit.cluster.images import find_or_build
from toolkit.errors import Unsupported
from toolkit.machine.leases import STATE_VARIABLE, state_root

PROGRAMS = (
    *("ceph-mon", "monmaptool", "ceph-osd", "ceph-mgr", "ceph-mds"),
    *("ceph", "rados", "rbd", "ceph-authtool", "ceph-conf"),
)
"""Programs that a host takes from its image."""

ON_THIS_MACHINE = ("host", "embedded")
"""Releases whose hosts use this machine's Ceph clients, if any are installed."""

_TOOLS = {
    "mon": ("ceph-mon", "monmaptool", "ceph"),
    "osd": ("ceph-osd",),
    "mgr": ("ceph-mgr",),
    "mds": ("ceph-mds",),
}
_WRITE_SCRIPTS = """\
inside=$1
shift
mkdir -p bin
for program in "$@"; do
    printf '#!/bin/sh\\nexec %s /usr/bin/%s "$@"\\n' "$inside" "$program" > "bin/$program"
    chmod 755 "bin/$program"
done
"""


def require_programs(kinds: set[str], release: str) -> None:
    """Check that daemons of these kinds are installed, unless they come from an image.

    Raises:
        Unsupported: they are not installed; the message names their packages.
    """
    if release == "host":
        require_tools([tool for kind in sorted(kinds) for tool in _TOOLS[kind]])


def furnish(host: Host, release: str, announce: Callable[[str], None]) -> None:
    """Give a host the Ceph programs of a release, configured for its cluster.

    Args:
        host: host to configure.
        release: ``host`` for this machine's programs, or a release that there is an image of.
        announce: called with a line before an image is built.

    Raises:
        LocalError: an image cannot be built.
        Unsupported: building it needs root, and more.
    """
    host.variables["CEPH_CONF"] = str(host.directory / "ceph.conf")
    host.variables["CEPH_ARGS"] = ""
    if host.is_container:
        host.run(
            "sh", "-ec", 'mkdir -p /etc/ceph; ln -sf "$1" /etc/ceph/ceph.conf', "sh", f"{host.directory}/ceph.conf"
        )
        return
    if release in ON_THIS_MACHINE:
        return
    image = find_or_build(release, images_root(), announce)
    inside = shlex.join(in_image(image, *_shared_with(host)))
    host.run("sh", "-ec", _WRITE_SCRIPTS, "sh", inside, *PROGRAMS)
    host.variables["PATH"] = f"{host.directory / 'bin'}:{os.environ['PATH']}"
    host.variables["LC_ALL"] = "C.UTF-8"


def out_of_image(host: Host, image: Path, argv: Sequence[str], shared: Sequence[Path] = ()) -> list[str]:
    """Return the command line that runs a program of an image on a host, which need not have that release itself.

    The program gets the host's network, variables and directory, and so the cluster's ceph.conf and keyring.

    Args:
        host: host to run it on.
        image: directory of the image.
        argv: the program and its arguments.
        shared: directories that the program sees besides those of clusters.

    Raises:
        Unsupported: the host is a container.
    """
    if host.is_container:
        raise Unsupported(
            f"{host.name}: containers have the programs of their image: --backend process or netns, or give the"
            " node an image in the spec"
        )
    return [*like_here(image, (*shared, *_shared_with(host)), host.directory), *argv]


def _shared_with(host: Host) -> list[Path]:
    """Return the directories that programs of an image see besides it: that of all clusters, and of devices."""
    root = state_root().absolute()
    devices = [Path("/sys")] if host.has_rdma else []
    return [root if host.directory.is_relative_to(root) else host.directory, *devices]


def check_socket(host: Host, daemon: str) -> None:
    """Check that the path of a daemon's admin socket is short enough.

    Raises:
        LocalError: it is too long for a socket.
    """
    path = host.directory / f"{daemon}.asok"
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise LocalError(f"{path} is too long a path for a socket; {STATE_VARIABLE} names a shorter directory")
