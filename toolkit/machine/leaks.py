"""Find objects that a cluster has left behind on this machine."""

from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import labelled_processes
from toolkit.machine.journal import removed_name
from toolkit.machine.labels import DOCKER_LABEL, Label
from toolkit.machine.leases import Lease, leases
from toolkit.machine.mounts import mounts_below
from toolkit.machine.nft import tables
from toolkit.machine.numbers import holder_of

_NAMESPACES = Path("/run/netns")
_INTERFACES = Path("/sys/class/net")
_PROCESSES = Path("/proc")


def leftovers(lease: Lease, *, docker_url: str | None = None, network: bool = True) -> list[str]:
    """Return a line for each object of a cluster that still exists.

    Args:
        lease: lease of the cluster, which is down.
        docker_url: place of the Docker engine to search; empty for the default one, None to skip Docker.
        network: True to search for namespaces and interfaces. Their names have the cluster's number, which
            clusters of another state directory may have as well.
    """
    label = lease.label
    found = [f"process {pid}: {_command(pid)}" for pid in sorted(labelled_processes(str(label)))]
    if network:
        found += _network_names(lease)
    directories = (lease.directory, removed_name(lease.directory))
    found += [f"mount {path}" for each in directories for path in mounts_below(each)]
    found += [f"directory {each}" for each in directories if each.exists()]
    if docker_url is not None:
        found += _docker_objects(label, docker_url)
    return found


def _network_names(lease: Lease) -> list[str]:
    label = lease.label
    found = [f"namespace {name}" for name in _names(_NAMESPACES, label.prefix + "-")]
    found += [f"interface {name}" for name in _interfaces(label)]
    found += [f"nft table {name}" for name in _tables(label)]
    # If another cluster has got the number since, they belong to it.
    holder = holder_of(label.number)
    is_given = holder is not None and holder.token != label.token
    return [] if is_given or any(each.label.number == label.number for each in _others(label)) else found


def _others(label: Label) -> list[Lease]:
    return [lease for lease in leases() if lease.label != label]


def _names(directory: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in directory.glob(f"{prefix}*")) if directory.is_dir() else []


def _interfaces(label: Label) -> list[str]:
    """Return the interfaces of the label; another digit after its number means another cluster."""
    return [name for name in _names(_INTERFACES, label.prefix) if not name[len(label.prefix) :][:1].isdecimal()]


def _tables(label: Label) -> list[str]:
    """Return the tables of the label; none if nft cannot list them, because only root makes tables."""
    try:
        found = tables("netdev")
    except LocalError:
        return []
    return [name for name in found if name.startswith("msgrlab_") and name.endswith(f"_{label.prefix}")]


def _command(pid: int) -> str:
    try:
        words = (_PROCESSES / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone meanwhile"
    return b" ".join(words).decode(errors="replace").strip() or "no command line"


def _docker_objects(label: Label, base_url: str) -> list[str]:
    from toolkit.machine.docker_objects import labelled

    try:
        return labelled(f"{DOCKER_LABEL}={label}", base_url)
    except LocalError as error:
        return [str(error)]
