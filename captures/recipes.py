"""The captures, and how each is recorded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from captures.file_workload import files
from captures.tcpdump import Tcpdump
from captures.workloads import client, manager_and_mds, osds
from toolkit.cluster.daemons import Auth, Mode
from toolkit.cluster.real import RealCluster


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of one capture."""

    release: str
    shows: str
    """One line that describes the contents of the capture."""
    work: Callable[[RealCluster, Tcpdump], None] = client
    mode: Mode = "crc"
    auth: Auth = "cephx"
    v1_only: bool = False
    osds: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the cluster's configuration, which also apply to clients."""


def _of_release(release: str) -> dict[str, Recipe]:
    return {
        f"{release}-daemons": Recipe(release, "a manager and an MDS start, in crc mode", manager_and_mds),
        f"{release}-crc": Recipe(release, "a client in crc mode"),
        f"{release}-secure": Recipe(release, "a client in secure mode", mode="secure"),
        f"{release}-v1": Recipe(release, "a client on msgr v1, with signatures", v1_only=True),
        f"{release}-none": Recipe(release, "a client without authentication", auth="none"),
        f"{release}-osds": Recipe(
            release, "OSDs start and replicate in secure mode; a cut and reconnect", osds, "secure", osds=2
        ),
        f"{release}-osds-v1": Recipe(
            release, "OSDs start and replicate on msgr v1; a cut and reconnect", osds, v1_only=True, osds=2
        ),
    }


def _compressed(release: str, algorithm: str, mode: Mode = "crc") -> Recipe:
    """Return a recipe with compression; OSDs compress only links between each other."""
    return Recipe(
        release,
        f"OSDs compress with {algorithm} in {mode} mode; a cut and reconnect",
        osds,
        mode,
        osds=2,
        options={
            "ms_osd_compress_mode": "force",
            "ms_osd_compress_min_size": "512",
            "ms_compress_secure": "true",
            "ms_osd_compression_algorithm": algorithm,
        },
    )


RECIPES: dict[str, Recipe] = {
    **_of_release("nautilus"),
    **_of_release("pacific"),
    **_of_release("reef"),
    **_of_release("tentacle"),
    "reef-files": Recipe("reef", "three active MDSs, one of which is replaced, in crc mode", files),
    "reef-compressed": _compressed("reef", "snappy"),
    "reef-compressed-zlib": _compressed("reef", "zlib"),
    "reef-compressed-lz4": _compressed("reef", "lz4"),
    "tentacle-compressed": _compressed("tentacle", "zstd", "secure"),
}
"""Recipes by the name of the capture, which is also the name of its directory."""
