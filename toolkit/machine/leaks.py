"""What a cluster has left behind, as read from the machine itself."""

from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import labelled_processes
from toolkit.machine.journal import removed_name
from toolkit.machine.labels import DOCKER_LABEL, Label
from toolkit.machine.leases import Lease, leases
from toolkit.machine.mounts import mounts_below
from toolkit.machine.numbers import holder_of

_NAMESPACES = Path("/run/netns")
_INTERFACES = Path("/sys/class/net")
_PROCESSES = Path("/proc")


def leftovers(lease: Lease, *, docker_url: str | None = None, network: bool = True) -> list[str]:
    """What is still there of a cluster, a line each; empty when nothing is.

    Args:
        lease: of the cluster, which is down.
        docker_url: the Docker engine to ask as well; empty for the default one, None for none.
        network: whether to look at namespaces and interfaces as well. Their names have the cluster's number, which
            clusters of another state directory may have, too.
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
    # They are another cluster's, if one has been given the number since.
    holder = holder_of(label.number)
    is_given = holder is not None and holder.token != label.token
    return [] if is_given or any(each.label.number == label.number for each in _others(label)) else found


def _others(label: Label) -> list[Lease]:
    return [lease for lease in leases() if lease.label != label]


def _names(directory: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in directory.glob(f"{prefix}*")) if directory.is_dir() else []


def _interfaces(label: Label) -> list[str]:
    """Those of the label: behind its number comes no other digit."""
    return [name for name in _names(_INTERFACES, label.prefix) if not name[len(label.prefix) :][:1].isdecimal()]


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
