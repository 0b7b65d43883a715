"""Names of clusters: the option ``--name NAME``, or in some commands the argument NAME. Shells complete both.

Commands that take an address or a keyring also take ``CLUSTER/NODE``, a node of a running cluster.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.errors import Unsupported

if TYPE_CHECKING:
    from toolkit.machine.leases import Lease

_NODE_PLACE = re.compile("([a-z][a-z0-9-]{0,29})/([a-z][a-z0-9]{0,7})")


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The address of a node of a running cluster, and a keyring to log in there."""

    addr: str
    """Protocol, host and port, for example ``v2:127.0.0.1:3300``."""
    keyring: Path | None
    """File with the key of ``client.admin``; None unless the node is a monitor."""


def node_place(text: str) -> NodePlace | None:
    """Return the place of the running node ``CLUSTER/NODE``; None for any other text.

    Raises:
        LocalError: no such cluster or node is up.
        Unsupported: the node is in its own network, which this process cannot reach.
    """
    if (match := _NODE_PLACE.fullmatch(text)) is None:
        return None
    from messenger.denc.address import AddrVec
    from toolkit.cluster.supervisor.client import ask
    from toolkit.machine.leases import Lease

    cluster, node = match.groups()
    lease = Lease.find(cluster)
    about = ask(lease, "status")
    if node not in about["nodes"]:
        raise LocalError(f"{text}: cluster {cluster!r} has no node {node!r}; it has {', '.join(about['nodes'])}")
    if about["backend"] != "process":
        raise Unsupported(
            f"{text}: nodes of the backend {about['backend']} are in their own network; run the command on "
            f"the host of a node, with HOST:PORT: msgrlab exec --name {cluster} {node} -- CMD"
        )
    addr = AddrVec.parse(about["nodes"][node]["address"]).front
    keyring = lease.directory / node / "keyring"
    is_monitor = about["nodes"][node]["kind"] == "mon" and keyring.exists()
    return NodePlace(str(addr).partition("/")[0], keyring if is_monitor else None)


def party(text: str, keyrings: Iterable[Path]) -> tuple[str, list[Path]]:
    """Return the address and the keyrings of a peer that a command connects to.

    Args:
        text: an address, or ``CLUSTER/NODE`` for the address of a running node, which also brings its keyring
            if ``keyrings`` is empty.
        keyrings: files, or ``CLUSTER/NODE`` for the keyring of a running monitor.

    Raises:
        LocalError: no such cluster or node is up, or a node named as a keyring has none for clients.
        Unsupported: the node is in its own network, as in :func:`node_place`.
    """
    files = [_keyring_file(path) for path in keyrings]
    if (place := node_place(text)) is None:
        return text, files
    return place.addr, files or [path for path in (place.keyring,) if path is not None]


def _keyring_file(path: Path) -> Path:
    if path.exists() or (place := node_place(str(path))) is None:
        return path
    if place.keyring is None:
        raise LocalError(f"--keyring {path}: the node has none; only monitors of a cluster with cephx have one")
    return place.keyring


def complete_clusters(incomplete: str) -> list[str]:
    """Complete the names of clusters that are up, or that a crash left behind."""
    from toolkit.machine.leases import leases

    try:
        return [lease.label.name for lease in leases() if lease.label.name.startswith(incomplete)]
    except LocalError:
        return []


def complete_nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the nodes of the cluster that the command line names, or of the only cluster."""
    return [node for node in _nodes(context.params.get("name") or "") if node.startswith(incomplete)]


def complete_releases(incomplete: str) -> list[str]:
    """Complete the releases of Ceph that there are images of."""
    from toolkit.cluster.images import RELEASES

    return [release for release in RELEASES if release.startswith(incomplete)]


def complete_fault(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a fault; after it, nodes."""
    if context.params.get("words"):
        return complete_nodes(context, incomplete)
    from toolkit.faults.language import words

    return [each.word for each in words() if each.word.startswith(incomplete)]


def complete_specs(incomplete: str) -> list[str]:
    """Complete ready-made specs and YAML files."""
    from toolkit.cluster.spec_lookup import ready_names

    files = Path().glob(f"{incomplete}*") if not Path(incomplete).is_absolute() else ()
    paths = [
        f"{path}/" if path.is_dir() else str(path) for path in files if path.is_dir() or path.suffix == ".yaml"
    ]
    return [name for name in ready_names() if name.startswith(incomplete)] + sorted(paths)


def complete_scenarios(incomplete: str) -> list[str]:
    """Complete ids and names of scenarios and families."""
    from toolkit.scenarios.index import FOLDERS, INDEX

    known = dict.fromkeys([*FOLDERS, *INDEX, *(entry.name for entry in INDEX.values())])
    return [name for name in known if name.startswith(incomplete)]


ClusterName = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        autocompletion=complete_clusters,
        help="Name of the cluster; not needed if only one is up.",
    ),
]
ClusterPlace = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]", autocompletion=complete_clusters, help="Name of the cluster, as with --name."
    ),
]


def one_name(place: str, option: str) -> str:
    """Return the name of a cluster that was given as an argument or with ``--name``; empty if neither was.

    Raises:
        LocalError: both were given, and they differ.
    """
    if place and option and place != option:
        raise LocalError(f"two clusters are named: {place} and --name {option}; give one")
    return place or option


def take_name(words: Sequence[str], option: str, most: int | None = None) -> tuple[list[str], str]:
    """Take ``--name NAME`` or ``--name=NAME`` out of the arguments that a command passes on; raises LocalError.

    ::

        take_name(["kill", "b", "--name", "lab"], "") == (["kill", "b"], "lab")

    Args:
        words: arguments after the options of the command; those from ``--`` on are passed on unread.
        option: the name given among the options; empty if none was.
        most: how many words may precede ``--name``; None for any number.

    Returns:
        The other words, and the name of the cluster; empty if none was given.
    """
    words, names = take_option(words, "--name", "the name of a cluster", most)
    for name in names:
        option = one_name(option, name)
    return words, option


def take_option(
    words: Sequence[str], flag: str, value: str, most: int | None = None
) -> tuple[list[str], list[str]]:
    """Take an option out of the arguments that a command passes on, every time that it is there.

    ::

        take_option(["--share", "/a", "--share=/b", "--", "ls"], "--share", "a directory", 0)
        == (["--", "ls"], ["/a", "/b"])

    Args:
        words: arguments after the options of the command; those from ``--`` on are passed on unread.
        flag: the option.
        value: what its value is, for the error message.
        most: how many words may precede the option; None for any number.

    Returns:
        The other words, and the values of the option in their order.

    Raises:
        LocalError: the option has no value.
    """
    words = list(words)
    found: list[str] = []
    while True:
        end = words.index("--") if "--" in words else len(words)
        place = next((at for at in range(end) if words[at].partition("=")[0] == flag), None)
        if place is None or (most is not None and place > most):
            return words, found
        _, equals, text = words[place].partition("=")
        behind = place + 1
        if not equals and behind < end:
            text, behind = words[behind], behind + 1
        if not text:
            raise LocalError(f"{flag} needs {value}")
        found.append(text)
        del words[place:behind]


def _nodes(name: str) -> list[str]:
    """Return the nodes of a cluster, found by their folders; empty if the name fits no cluster, or several."""
    from toolkit.machine.leases import leases

    try:
        found: list[Lease] = [lease for lease in leases() if name in {"", lease.label.name}]
        if len(found) != 1:
            return []
        return sorted(path.parent.name for path in found[0].directory.glob("*/*.log"))
    except (LocalError, OSError):
        return []
