"""How commands name a cluster: ``--name NAME``, and where that stands alone, NAME. Both complete in a shell.

A node of a cluster that is up is ``CLUSTER/NODE`` where a command takes an address or a keyring.
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
    """Where a node of a cluster listens, and the keyring to enter the cluster there."""

    addr: str
    """Its address as HOST:PORT with a protocol, for example ``v2:127.0.0.1:3300``."""
    keyring: Path | None
    """With the key of ``client.admin``; None unless the node is a monitor."""


def node_place(text: str) -> NodePlace | None:
    """The place of a node that is up, by ``CLUSTER/NODE``; None for any other text.

    Raises:
        LocalError: no such cluster or node is up.
        Unsupported: its network is not this machine's.
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
            f"{text}: on {about['backend']} nodes have a network of their own; "
            f"give HOST:PORT to a command on a host of it: msgrlab exec --name {cluster} {node} -- CMD"
        )
    addr = AddrVec.parse(about["nodes"][node]["address"]).front
    keyring = lease.directory / node / "keyring"
    is_monitor = about["nodes"][node]["kind"] == "mon" and keyring.exists()
    return NodePlace(str(addr).partition("/")[0], keyring if is_monitor else None)


def party(text: str, keyrings: Iterable[Path]) -> tuple[str, list[Path]]:
    """Address and keyrings of a party that a command dials; ``CLUSTER/NODE`` stands for either.

    Args:
        text: an address, or a node that is up: its address is taken, and its keyring unless others are given.
        keyrings: files, or monitors that are up.

    Raises:
        LocalError: no such cluster or node is up, or a node named as a keyring has none for clients.
        Unsupported: as :func:`node_place`.
    """
    files = [_keyring_file(path) for path in keyrings]
    if (place := node_place(text)) is None:
        return text, files
    return place.addr, files or [path for path in (place.keyring,) if path is not None]


def _keyring_file(path: Path) -> Path:
    if path.exists() or (place := node_place(str(path))) is None:
        return path
    if place.keyring is None:
        raise LocalError(f"--keyring {path}: only a monitor of a cluster with cephx has one")
    return place.keyring


def complete_clusters(incomplete: str) -> list[str]:
    """Clusters that are up, or were left behind."""
    from toolkit.machine.leases import leases

    try:
        return [lease.label.name for lease in leases() if lease.label.name.startswith(incomplete)]
    except LocalError:
        return []


def complete_nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Nodes of the cluster that the command line names, or of the only one."""
    return [node for node in _nodes(context.params.get("name") or "") if node.startswith(incomplete)]


def complete_fault(context: typer.Context, incomplete: str) -> list[str]:
    """The words of faults; behind the first of them, nodes."""
    if context.params.get("words"):
        return complete_nodes(context, incomplete)
    from toolkit.faults.language import words

    return [each.word for each in words() if each.word.startswith(incomplete)]


def complete_specs(incomplete: str) -> list[str]:
    """Ready-made specs, and YAML files."""
    from toolkit.cluster.choosing import ready_names

    files = Path().glob(f"{incomplete}*") if not Path(incomplete).is_absolute() else ()
    paths = [
        f"{path}/" if path.is_dir() else str(path) for path in files if path.is_dir() or path.suffix == ".yaml"
    ]
    return [name for name in ready_names() if name.startswith(incomplete)] + sorted(paths)


def complete_scenarios(incomplete: str) -> list[str]:
    """Ids and names of scenarios, and of families."""
    from toolkit.scenarios.index import FOLDERS, INDEX

    known = dict.fromkeys([*FOLDERS, *INDEX, *(entry.name for entry in INDEX.values())])
    return [name for name in known if name.startswith(incomplete)]


ClusterName = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        autocompletion=complete_clusters,
        help="Of the cluster; may be left out if one is up.",
    ),
]
ClusterPlace = Annotated[
    str,
    typer.Argument(metavar="[NAME]", autocompletion=complete_clusters, help="The cluster, as with --name."),
]


def one_name(place: str, option: str) -> str:
    """The name that was given, as an argument or with ``--name``.

    Raises:
        LocalError: both were given, and they differ.
    """
    if place and option and place != option:
        raise LocalError(f"two clusters are named: {place} and --name {option}; give one")
    return place or option


def take_name(words: Sequence[str], option: str, most: int | None = None) -> tuple[list[str], str]:
    """Take ``--name NAME`` or ``--name=NAME`` from behind a command's first word, where a user types it, too.

    Args:
        words: what stands there; from ``--`` on it is not this command's.
        option: the name given ahead of them; may be empty.
        most: how many words may stand ahead of it; None for any number.

    Returns:
        The other words, and the cluster's name.

    Raises:
        LocalError: an option without a name, or two names that differ.
    """
    end = words.index("--") if "--" in words else len(words)
    place = next((at for at in range(end) if words[at].partition("=")[0] == "--name"), None)
    if place is None or (most is not None and place > most):
        return list(words), option
    _, equals, name = words[place].partition("=")
    behind = place + 1
    if not equals and behind < end:
        name, behind = words[behind], behind + 1
    if not name:
        raise LocalError("--name takes the name of a cluster")
    return take_name([*words[:place], *words[behind:]], one_name(option, name), most)


def _nodes(name: str) -> list[str]:
    """The nodes of a cluster, by their folders; none if no cluster is meant."""
    from toolkit.machine.leases import leases

    try:
        found: list[Lease] = [lease for lease in leases() if name in {"", lease.label.name}]
        if len(found) != 1:
            return []
        return sorted(path.parent.name for path in found[0].directory.glob("*/*.log"))
    except (LocalError, OSError):
        return []
