"""Options of ceph.conf for short-lived clusters, by purpose."""

from collections.abc import Mapping

_SIDES = ("cluster", "service", "client")
_MODES = (*_SIDES, *(f"mon_{side}" for side in _SIDES))
_STORE_BYTES = 1 << 30

SMALL = {
    # pools must become clean with a single OSD, and with several on one host
    "osd_pool_default_min_size": "1",
    "osd_pool_default_pg_autoscale_mode": "off",
    "osd_crush_chooseleaf_type": "0",
    "mon_allow_pool_size_one": "true",
    "mon_allow_pool_delete": "true",
    "mon_warn_on_pool_no_redundancy": "false",
    # with two OSDs only one is left to report the failure of the other
    "mon_osd_min_down_reporters": "1",
    # propose map changes at once: waiting a second for more changes takes most of the start time
    "paxos_propose_interval": "0.05",
    "paxos_min_wait": "0.02",
    # require signatures on msgr v1, which would otherwise be optional
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
"""Options of monitors."""

OSD = {
    "memstore_device_bytes": str(_STORE_BYTES),
    "bluestore_block_size": str(_STORE_BYTES),
    "osd_fast_shutdown": "false",  # a fast shutdown would lose the content of a memstore
    "osd_class_load_list": "*",
    "osd_class_default_list": "*",
    "debug_ms": "1",
}
"""Options of OSDs."""

RDMA = {
    # the defaults take 640 MiB for each process, and keep a processor busy
    "ms_async_rdma_receive_queue_len": "64",
    "ms_async_rdma_receive_buffers": "256",
    "ms_async_rdma_send_buffers": "64",
    "ms_async_rdma_polling_us": "0",
    "ms_async_op_threads": "1",
}
"""Options of programs that communicate by RDMA, besides those that name their device."""


def identity(fsid: str, mon_host: str, *, v1: bool = True, v2: bool = True) -> dict[str, str]:
    """Return the options for the cluster's id, its monitors' addresses, and the protocols that daemons bind."""
    binds = {"ms_bind_msgr1": v1, "ms_bind_msgr2": v2}
    return {"fsid": fsid, "mon_host": mon_host, **{option: str(on).lower() for option, on in binds.items()}}


def security(auth: str, mode: str) -> dict[str, str]:
    """Return the options for authentication methods and for connection modes."""
    required = {f"auth_{side}_required": auth for side in _SIDES}
    return required | {f"ms_{name}_mode": mode for name in _MODES}


def own_files(directory: object) -> dict[str, str]:
    """Return the options that put a daemon's log and admin socket at ``NAME.log`` and ``NAME.asok``."""
    return {
        "log_file": f"{directory}/$name.log",
        "log_flush_on_exit": "true",
        "admin_socket": f"{directory}/$name.asok",
        "pid_file": f"{directory}/$name.pid",
    }


def section(name: str, options: Mapping[str, str]) -> str:
    """Return one section of a ceph.conf."""
    return "".join([f"[{name}]\n", *(f"{option} = {value}\n" for option, value in options.items())])
