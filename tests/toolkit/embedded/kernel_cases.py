"""Cases for the kernel's client: modes, rules of the proxy by mode, and frames that it rejects."""

MODES = ("legacy", "crc", "secure", "prefer-crc", "prefer-secure")
CUT_MODES = ("legacy", "crc", "secure")

_V1_HANDSHAKE = (
    "<- BANNER #1: cut at 4",
    "-> IDENTIFY #1: cut before",
    "<- IDENTIFY #1: cut at 100",
    "-> CONNECT #1: cut before",
    "<- CONNECT_REPLY #1: cut before",
    "-> CONNECT #2: cut at 50",
    "<- CONNECT_REPLY #2: cut before",
    "-> SEQ #1: cut before",
)
_V2_HANDSHAKE = (
    "<- BANNER #1: cut at 4",
    "<- HELLO #1: cut before",
    "-> AUTH_REQUEST #1: cut at 60",
    "<- AUTH_REPLY_MORE #1: cut before",
    "<- AUTH_DONE #1: cut before",
    "-> AUTH_SIGNATURE #1: cut before",
    "-> CLIENT_IDENT #1: cut before",
    "<- SERVER_IDENT #1: cut before",
    "<- SERVER_IDENT #1: cut after",
)


def _data(tag: str) -> tuple[str, ...]:
    return (
        f"-> {tag} osd_op #1: cut before",
        f"-> {tag} osd_op #1: cut at 100000",
        f"-> {tag} osd_op #1: cut after",
        f"<- {tag} osd_op_reply #1: cut before",
        f"<- {tag} osd_op_reply #1: cut at 50",
        f"<- {tag} osd_op_reply #1: cut after",
    )


HANDSHAKE_CUTS = {"legacy": _V1_HANDSHAKE, "crc": _V2_HANDSHAKE, "secure": _V2_HANDSHAKE[4:]}
"""Rules for the link to the OSD, by mode; until AUTH_DONE, secure links are as those in crc mode."""
DATA_CUTS = {"legacy": _data("MSG"), "crc": _data("MESSAGE"), "secure": _data("MESSAGE")}
MONITOR_CUTS = {
    "legacy": ("<- MSG auth_reply #1: cut before", "<- MSG osd_map #1: cut at 60"),
    "crc": ("<- AUTH_DONE #1: cut before", "<- MESSAGE osd_map #1: cut at 60"),
}
"""Rules for the link to the monitor while an image is mapped, by mode."""

DISPUTED = {
    "legacy": {
        "skipped_seq": "<- MSG osd_op_reply #1: drop",
        "server_keepalive": "<- MSG osd_op_reply #1: inject KEEPALIVE2",
    },
    "crc": {
        "skipped_seq": "<- MESSAGE osd_op_reply #1: drop",
        "server_keepalive": "<- MESSAGE osd_op_reply #1: inject KEEPALIVE2",
        "server_wait": "<- SERVER_IDENT #1: inject WAIT before",
        "partial_reset": "<- SERVER_IDENT #1: inject SESSION_RESET full=false before",
        "aborted_message": "<- MESSAGE osd_op_reply #1: corrupt byte -13 mask 0x0f",
        "ack_beyond_sent": "<- MESSAGE osd_op_reply #1: inject ACK seq=1000000",
        "server_addresses": "<- SERVER_IDENT #1: set addrs=[v2:127.0.0.3:6800/8]",
        "server_number": "<- SERVER_IDENT #1: set gid=9",
    },
}
"""Rules of the proxy by which the kernel shows its setting of a rule of docs/disputes.md, by mode.

The last 13 bytes of a frame of msgr 2.1 in crc mode are its epilogue, which begins with the late status: 0x0e
complete, 0x01 aborted.
"""
BEFORE_A_SESSION = ("server_wait", "partial_reset", "server_addresses", "server_number")
"""Those at frames of a handshake: present links are cut first."""
