"""Options of the services around sessions, under Ceph's own names and defaults (docs/protocol.md §7).

:class:`messenger.config.Config` is these and those of the protocols together.
"""

from dataclasses import dataclass

from messenger.denc.entity import EntityType
from messenger.errors import LocalError

_BLACKHOLES = (EntityType.OSD, EntityType.MON, EntityType.MDS, EntityType.MGR, EntityType.CLIENT)
TCP_TYPE, RDMA_TYPE = TRANSPORT_TYPES = ("async+posix", "async+rdma")
_RDMA_LEAST = {
    "ms_async_rdma_port_num": 1,
    "ms_async_rdma_gid_idx": 0,
    "ms_async_rdma_sl": 0,
    "ms_async_rdma_dscp": 0,
    "ms_async_rdma_buffer_size": 1,
    "ms_async_rdma_send_buffers": 1,
    "ms_async_rdma_receive_buffers": 1,
    "rdma_queue_len": 1,
}
_RDMA_MOST = {
    "ms_async_rdma_port_num": 255,
    "ms_async_rdma_gid_idx": 255,
    "ms_async_rdma_sl": 15,
    "ms_async_rdma_dscp": 255,
    "ms_async_rdma_buffer_size": 1 << 30,
    "rdma_queue_len": 4096,
}


@dataclass(slots=True, kw_only=True)
class InjectionOptions:
    """Faults that a messenger does to itself (§7.2); off unless asked for, and without cost while off."""

    ms_inject_socket_failures: int = 0
    """One in so many reads and writes finds its socket shut down; 0 = none."""
    ms_inject_internal_delays: float = 0.0
    """Pause, in seconds, where connections are looked up, replaced and accepted, to provoke races."""
    ms_inject_delay_type: str = ""
    """Peers whose messages may be delayed: names of entity types, as in ``osd client``."""
    ms_inject_delay_probability: float = 0.0
    """Probability that a message of such a peer is delayed, 0 to 1."""
    ms_inject_delay_max: float = 1.0
    """Delays are uniform between 0 and this, in seconds."""
    ms_inject_network_congestion: int = 0
    """Only one in so many attempts to write gets through, the others must be repeated; 0 = all do."""
    ms_blackhole_osd: bool = False
    """Messages to and from OSDs vanish, while the connections live on."""
    ms_blackhole_mon: bool = False
    """The same for monitors."""
    ms_blackhole_mds: bool = False
    """The same for metadata servers."""
    ms_blackhole_mgr: bool = False
    """The same for managers."""
    ms_blackhole_client: bool = False
    """The same for clients."""

    ms_die_on_bad_msg: bool = False
    """Raise where a message cannot be decoded."""
    ms_die_on_unhandled_msg: bool = False
    """Raise where no dispatcher takes a message."""
    ms_die_on_old_message: bool = False
    """Raise where a message comes again although RECONNECT_SEQ was negotiated: without it replays may."""
    ms_die_on_skipped_message: bool = False
    """Raise where a message is missing."""
    ms_die_on_bug: bool = False
    """Raise where a peer exceeds ``max_preauth_bytes``, which no real one does."""

    def blackholes(self) -> frozenset[EntityType]:
        """Types of peers whose messages vanish."""
        return frozenset(peer for peer in _BLACKHOLES if getattr(self, f"ms_blackhole_{peer.label}"))

    def delays(self, peer: EntityType) -> bool:
        """True if messages of such a peer may be delayed; Ceph looks for the name anywhere in the text."""
        return peer.label in self.ms_inject_delay_type

    def check_injection(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            LocalError: a probability beyond 0 to 1, or something negative.
        """
        if not 0 <= self.ms_inject_delay_probability <= 1:
            raise LocalError(f"ms_inject_delay_probability = {self.ms_inject_delay_probability}: give 0 to 1")
        for option in (
            "ms_inject_socket_failures",
            "ms_inject_internal_delays",
            "ms_inject_delay_max",
            "ms_inject_network_congestion",
        ):
            if getattr(self, option) < 0:
                raise LocalError(f"{option} = {getattr(self, option)}: it cannot be negative")


@dataclass(slots=True, kw_only=True)
class TransportOptions(InjectionOptions):
    """What carries the links: TCP, or RDMA with its devices and buffers (§8)."""

    ms_type: str = TCP_TYPE
    """``async+posix`` is TCP, ``async+rdma`` a queue pair of an RDMA device for each link."""
    ms_async_rdma_device_name: str = ""
    """RDMA device, for example ``mlx5_0``; empty takes the first one."""
    ms_async_rdma_port_num: int = 1
    """Port of the device."""
    ms_async_rdma_gid_idx: int = 0
    """Index of the port's address (GID) to use: it selects the network and the version of RoCE."""
    ms_async_rdma_sl: int = 3
    """Service level of what is sent."""
    ms_async_rdma_dscp: int = 96
    """Traffic class of what is sent."""
    ms_async_rdma_buffer_size: int = 128 << 10
    """Length of a buffer, and of the longest piece that is sent. Both peers need the same."""
    ms_async_rdma_send_buffers: int = 1024
    """Most buffers for sending, of all links together; a link that would need more is refused."""
    ms_async_rdma_receive_buffers: int = 32 << 10
    """The same for receiving."""
    rdma_queue_len: int = 8
    """Buffers of a link in each direction (Ceph shares receive buffers between links)."""

    def check_transport(self) -> None:
        """Refuse a transport that there is not, and buffers that no link could use.

        Raises:
            LocalError: so it is.
        """
        if self.ms_type not in TRANSPORT_TYPES:
            raise LocalError(f"ms_type = {self.ms_type!r}: give {' or '.join(TRANSPORT_TYPES)}")
        for option, least in _RDMA_LEAST.items():
            if getattr(self, option) < least:
                raise LocalError(f"{option} = {getattr(self, option)}: give {least} or more")
        for option, most in _RDMA_MOST.items():
            if getattr(self, option) > most:
                raise LocalError(f"{option} = {getattr(self, option)}: give {most} or less")


@dataclass(slots=True, kw_only=True)
class ServiceOptions(TransportOptions):
    """Addresses and sockets, throttles, dispatching, keepalives and shutdown. Times are seconds, sizes bytes."""

    ms_bind_msgr1: bool = True
    """Listen for msgr v1 peers, where both protocols can be had."""
    ms_bind_msgr2: bool = True
    """Listen for msgr v2 peers."""
    ms_bind_ipv4: bool = True
    """Listen on IPv4 where no host is given."""
    ms_bind_ipv6: bool = False
    """Listen on IPv6 where no host is given."""
    ms_bind_prefer_ipv4: bool = False
    """With both families, put the IPv4 address first; otherwise the IPv6 address is the first one."""
    ms_bind_port_min: int = 6800
    """First port tried where none is given."""
    ms_bind_port_max: int = 7568
    """Last port tried."""
    ms_bind_retry_count: int = 3
    """How often binding is tried when the port, or every port of the range, is taken."""
    ms_bind_retry_delay: float = 5.0
    """Pause between two tries."""
    ms_bind_before_connect: bool = False
    """Dial from the IP that this messenger is bound to."""
    ms_tcp_nodelay: bool = True
    """Set TCP_NODELAY."""
    ms_tcp_rcvbuf: int = 0
    """SO_RCVBUF; 0 leaves it to the kernel."""
    ms_tcp_listen_backlog: int = 512
    """Connections the kernel accepts ahead."""
    max_half_open_links: int = 2048
    """Accepted links whose handshake is not finished: of more than that the oldest is closed; 0 = no limit."""
    max_half_open_links_per_host: int = 512
    """The same of those from one IP address."""

    standby_timeout: float = 0.0
    """A session that is in STANDBY for longer ends with a reset event; 0 = never."""
    max_queued_bytes: int = 0
    """A session with more than that queued or unacknowledged ends with a reset event, within a sixteenth; 0 = none
    does."""

    osd_client_message_size_cap: int = 500 << 20
    """Limit of throttle ``osd_client_bytes``: what an OSD holds of client messages."""
    osd_client_message_cap: int = 256
    """Limit of throttle ``osd_client_messages``: how many client messages an OSD holds."""
    mon_client_bytes: int = 100 << 20
    """Limit of the throttle of that name: what a monitor holds of client messages."""
    mon_daemon_bytes: int = 400 << 20
    """Limit of the throttle of that name: what a monitor holds of messages of OSDs and metadata servers."""

    ms_pq_max_tokens_per_priority: int = 16 << 20
    """Most tokens a priority saves up in the dispatch queue, and the highest cost of a message."""
    ms_pq_min_cost: int = 64 << 10
    """Lowest cost of a message in the dispatch queue."""

    dispatch_by_priority: bool = False
    """Queue what has arrived and dispatch it by priority, as Ceph always does, rather than in order of arrival."""

    mon_client_ping_interval: float = 10.0
    """Pause between the keepalives that :class:`messenger.keepalive.Keepalive` sends."""
    mon_client_ping_timeout: float = 30.0
    """A link on which the newest answer to a keepalive is older than this is closed; 0 = never."""
    ms_shutdown_timeout: float = 120.0
    """How long a graceful shutdown waits for queues to empty and for acks (Ceph counts it in milliseconds)."""
