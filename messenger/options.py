"""Options of services around sessions, under Ceph's names and with Ceph's defaults (docs/protocol.md §7).

:class:`messenger.config.Config` adds the options of the protocols.
"""

from dataclasses import dataclass

from messenger.denc.entity import EntityType
from messenger.errors import LocalError

_BLACKHOLES = (EntityType.OSD, EntityType.MON, EntityType.MDS, EntityType.MGR, EntityType.CLIENT)
TCP_TYPE, RDMA_TYPE = TRANSPORT_TYPES = ("async+posix", "async+rdma")
RDMA_RETRIES = 7
"""Most retries of a queue pair, which Ceph uses (§8)."""
_RDMA_LEAST = {
    "ms_async_rdma_port_num": 1,
    "ms_async_rdma_gid_idx": 0,
    "ms_async_rdma_sl": 0,
    "ms_async_rdma_dscp": 0,
    "ms_async_rdma_buffer_size": 1,
    "ms_async_rdma_send_buffers": 1,
    "ms_async_rdma_receive_buffers": 1,
    "rdma_queue_len": 1,
    "rdma_retries": 0,
    "rdma_rnr_retries": 0,
}
_RDMA_MOST = {
    "ms_async_rdma_port_num": 255,
    "ms_async_rdma_gid_idx": 255,
    "ms_async_rdma_sl": 15,
    "ms_async_rdma_dscp": 255,
    "ms_async_rdma_buffer_size": 1 << 30,
    "rdma_queue_len": 4096,
    "rdma_retries": RDMA_RETRIES,
    "rdma_rnr_retries": RDMA_RETRIES,
}


@dataclass(slots=True, kw_only=True)
class InjectionOptions:
    """Faults that a messenger injects into itself (§7.2). All are off by default and then cost nothing."""

    ms_inject_socket_failures: int = 0
    """On average one in this many reads and writes shuts the socket down; 0 = none."""
    ms_inject_internal_delays: float = 0.0
    """Seconds to pause where connections are looked up, replaced and accepted, to provoke races."""
    ms_inject_delay_type: str = ""
    """Entity types of the peers whose messages may be delayed, for example ``osd client``."""
    ms_inject_delay_probability: float = 0.0
    """Probability (0 to 1) that a message of such a peer is delayed."""
    ms_inject_delay_max: float = 1.0
    """Longest delay in seconds; delays are uniform between 0 and this."""
    ms_inject_network_congestion: int = 0
    """Only one in this many attempts to write succeeds, the others are repeated; 0 = all succeed."""
    ms_blackhole_osd: bool = False
    """Drop messages to and from OSDs; connections stay open."""
    ms_blackhole_mon: bool = False
    """Drop messages to and from monitors."""
    ms_blackhole_mds: bool = False
    """Drop messages to and from metadata servers."""
    ms_blackhole_mgr: bool = False
    """Drop messages to and from managers."""
    ms_blackhole_client: bool = False
    """Drop messages to and from clients."""

    ms_die_on_bad_msg: bool = False
    """Raise DieError if a message cannot be decoded."""
    ms_die_on_unhandled_msg: bool = False
    """Raise DieError if no dispatcher takes a message."""
    ms_die_on_old_message: bool = False
    """Raise DieError if a message arrives twice although RECONNECT_SEQ was negotiated, which rules out replays."""
    ms_die_on_skipped_message: bool = False
    """Raise DieError if a message is missing from the sequence."""
    ms_die_on_bug: bool = False
    """Raise DieError if a peer exceeds ``max_preauth_bytes``, which no correct peer does."""

    def blackholes(self) -> frozenset[EntityType]:
        """Entity types of the peers whose messages are dropped."""
        return frozenset(peer for peer in _BLACKHOLES if getattr(self, f"ms_blackhole_{peer.label}"))

    def delays(self, peer: EntityType) -> bool:
        """True if messages of such a peer may be delayed. Like Ceph, this matches substrings of the option."""
        return peer.label in self.ms_inject_delay_type

    def check_injection(self) -> None:
        """Check the values of these options.

        Raises:
            LocalError: the probability is not within 0 to 1, or another value is negative.
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
    """Options of the transport: TCP, or RDMA with its devices and buffers (§8)."""

    ms_type: str = TCP_TYPE
    """``async+posix`` is TCP; ``async+rdma`` opens a queue pair of an RDMA device for each link."""
    ms_async_rdma_device_name: str = ""
    """RDMA device, for example ``mlx5_0``; empty takes the first one."""
    ms_async_rdma_port_num: int = 1
    """Port of the device."""
    ms_async_rdma_gid_idx: int = 0
    """Index of the port's address (GID) to use: it selects the network and the version of RoCE."""
    ms_async_rdma_sl: int = 3
    """Service level of sent packets."""
    ms_async_rdma_dscp: int = 96
    """Traffic class of sent packets."""
    ms_async_rdma_buffer_size: int = 128 << 10
    """Bytes of a buffer, and of the longest single send. Both peers need the same value."""
    ms_async_rdma_send_buffers: int = 1024
    """Most send buffers of all links together; a link that would exceed this is refused."""
    ms_async_rdma_receive_buffers: int = 32 << 10
    """Most receive buffers of all links together; a link that would exceed this is refused."""
    rdma_queue_len: int = 8
    """Buffers of a link for each direction (Ceph shares receive buffers between links)."""
    rdma_retries: int = RDMA_RETRIES
    """Times that a device sends an unacknowledged packet again before the link breaks (Ceph: always 7). For
    soft-RoCE, 7 means without limit."""
    rdma_rnr_retries: int = RDMA_RETRIES
    """Times that a device tries again if the peer has posted no receive buffer, before the link breaks (Ceph:
    always 7). 7 means without limit."""

    def check_transport(self) -> None:
        """Check the values of these options.

        Raises:
            LocalError: the transport is unknown, or a value is outside its range.
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
    """Options of addresses, sockets, throttles, dispatch, keepalives, shutdown. Times are seconds, sizes bytes."""

    ms_bind_msgr1: bool = True
    """Listen for msgr v1 peers too, if the messenger can speak both protocols."""
    ms_bind_msgr2: bool = True
    """Listen for msgr v2 peers."""
    ms_bind_ipv4: bool = True
    """Listen on IPv4 if no host is given."""
    ms_bind_ipv6: bool = False
    """Listen on IPv6 if no host is given."""
    ms_bind_prefer_ipv4: bool = False
    """With both families, put the IPv4 address first; otherwise the IPv6 address is the first one."""
    ms_bind_port_min: int = 6800
    """First port to try if no port is given."""
    ms_bind_port_max: int = 7568
    """Last port to try if no port is given."""
    ms_bind_retry_count: int = 3
    """Number of attempts to bind while the port, or every port of the range, is taken."""
    ms_bind_retry_delay: float = 5.0
    """Pause between two attempts to bind."""
    ms_bind_before_connect: bool = False
    """Dial from the IP address that this messenger is bound to."""
    ms_tcp_nodelay: bool = True
    """Set TCP_NODELAY on each socket."""
    ms_tcp_rcvbuf: int = 0
    """Value of SO_RCVBUF; 0 keeps the kernel's default."""
    ms_tcp_listen_backlog: int = 512
    """Length of the kernel's queue of connections that are not accepted yet."""
    max_half_open_links: int = 2048
    """Most accepted links with an unfinished handshake; beyond it the oldest is closed. 0 = no limit."""
    max_half_open_links_per_host: int = 512
    """Most such links from one IP address."""

    standby_timeout: float = 0.0
    """A session that stays in STANDBY for longer ends with a reset event; 0 = never."""
    max_queued_bytes: int = 0
    """A session with more bytes queued or unacknowledged ends with a reset event; the check may be late by a
    sixteenth of the limit. 0 = no limit."""

    osd_client_message_size_cap: int = 500 << 20
    """Limit of the throttle ``osd_client_bytes``: bytes of client messages that an OSD holds."""
    osd_client_message_cap: int = 256
    """Limit of the throttle ``osd_client_messages``: number of client messages that an OSD holds."""
    mon_client_bytes: int = 100 << 20
    """Limit of the throttle of that name: bytes of client messages that a monitor holds."""
    mon_daemon_bytes: int = 400 << 20
    """Limit of the throttle of that name: bytes of messages of OSDs and metadata servers that a monitor holds."""

    ms_pq_max_tokens_per_priority: int = 16 << 20
    """Most tokens that a priority of the dispatch queue collects, and the highest cost of a message."""
    ms_pq_min_cost: int = 64 << 10
    """Lowest cost of a message in the dispatch queue."""

    dispatch_by_priority: bool = False
    """Dispatch messages by priority, as Ceph always does, instead of in order of arrival."""

    mon_client_ping_interval: float = 10.0
    """Seconds between the keepalives that :class:`messenger.keepalive.Keepalive` sends."""
    mon_client_ping_timeout: float = 30.0
    """A link whose newest acknowledged keepalive is older than this is closed; 0 = never."""
    ms_shutdown_timeout: float = 120.0
    """How long a graceful shutdown waits for queues to drain and for acks (Ceph's value is in milliseconds)."""
