"""Typed payloads of messages (docs/protocol.md §6), imported when they are first used."""

import lazy_loader  # type: ignore[import-untyped]  # it has no types

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "auth": ["MAuth", "MAuthReply"],
        "command": ["MCommand", "MCommandReply", "MMgrCommand", "MMgrCommandReply"],
        "config": ["MConfig", "MGetConfig", "MKVData"],
        "log": ["MLog", "MLogAck"],
        "mds_client": ["MClientReply", "MClientRequest", "MClientSession"],
        "mdsmap": ["MFSMapUser", "MMDSBeacon", "MMDSMap"],
        "mgr": ["MMgrBeacon", "MMgrClose", "MMgrConfigure", "MMgrOpen", "MMgrReport"],
        "mgrmap": ["MMgrMap", "MServiceMap"],
        "mon": [
            "MMonCommand",
            "MMonCommandAck",
            "MMonGetMap",
            "MMonGetOSDMap",
            "MMonGetVersion",
            "MMonGetVersionReply",
            "MMonSubscribe",
            "MMonSubscribeAck",
        ],
        "mon_peer": ["MForward", "MMonPing", "MMonUsedPendingKeys", "MRoute"],
        "monmap": ["MMonMap"],
        "osd": ["MOSDMap"],
        "osd_client": ["MOSDBackoff", "MWatchNotify"],
        "osd_op": ["MOSDOp"],
        "osd_op_reply": ["MOSDOpReply"],
        "osd_ping": ["MOSDPing"],
        "ping": ["MPing"],
        "pools": ["MGetPoolStats", "MGetPoolStatsReply", "MPoolOp", "MPoolOpReply", "MStatfs", "MStatfsReply"],
    },
)
