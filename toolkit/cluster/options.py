"""Options of ceph.conf for throwaway clusters, by what they are for."""

from collections.abc import Mapping

_SIDES = ("cluster", "service", "client")
_MODES = (*_SIDES, *(f"mon_{side}" for side in _SIDES))
_STORE_BYTES = 1 << 30

SMALL = {
    # of one OSD alone, or of several on one host, pools must become clean, too
    "osd_pool_default_min_size": "1",
    "osd_pool_default_pg_autoscale_mode": "off",
    "osd_crush_chooseleaf_type": "0",
    "mon_allow_pool_size_one": "true",
    "mon_allow_pool_delete": "true",
    "mon_warn_on_pool_no_redundancy": "false",
    # of two OSDs one that is gone is reported by the other alone
    "mon_osd_min_down_reporters": "1",
    # changes of maps are not to wait for more changes: a second per step is most of what a start takes
    "paxos_propose_interval": "0.05",
    "paxos_min_wait": "0.02",
    # with msgr v1 every message is signed, and must be
    "cephx_require_signatures": "true",
    "cephx_sign_messages": "true",
}
"""Options of all daemons in a small cluster on one machine."""

MON = {
    "mon_cluster_log_to_file": "false",
    "mon_data_avail_warn": "1",
    "mon_data_avail_crit": "0",
    "ms_bind_retry_count": "1",
    "auth_allow_insecure_global_id_reclaim": "false",
    "debug_ms": "1",
    "debug_rocksdb": "0",
}
"""For monitors."""

OSD = {
    "memstore_device_bytes": str(_STORE_BYTES),
    "bluestore_block_size": str(_STORE_BYTES),
    "osd_fast_shutdown": "false",  # which would lose what a memstore holds
    "osd_class_load_list": "*",
    "osd_class_default_list": "*",
    "debug_ms": "1",
}
"""For OSDs."""


def identity(fsid: str, mon_host: str, *, v1: bool = True, v2: bool = True) -> dict[str, str]:
    """Which cluster it is, where its monitors are, and which protocols everybody binds."""
    binds = {"ms_bind_msgr1": v1, "ms_bind_msgr2": v2}
    return {"fsid": fsid, "mon_host": mon_host, **{option: str(on).lower() for option, on in binds.items()}}


def security(auth: str, mode: str) -> dict[str, str]:
    """The authentication methods of all daemons, and the modes of their connections."""
    required = {f"auth_{side}_required": auth for side in _SIDES}
    return required | {f"ms_{name}_mode": mode for name in _MODES}


def own_files(directory: object) -> dict[str, str]:
    """Where a daemon logs and listens for its administrator: ``NAME.log`` and ``NAME.asok``."""
    return {
        "log_file": f"{directory}/$name.log",
        "log_flush_on_exit": "true",
        "admin_socket": f"{directory}/$name.asok",
        "pid_file": f"{directory}/$name.pid",
    }


def section(name: str, options: Mapping[str, str]) -> str:
    """One section of a ceph.conf."""
    return "".join([f"[{name}]\n", *(f"{option} = {value}\n" for option, value in options.items())])
