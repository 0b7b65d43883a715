"""Cases for the kernel's client on a real cluster: modes, and rules of the proxies."""

MODES = ("legacy", "crc", "secure")
POOL, IMAGE = "disks", "disk"


def _cuts(tag: str) -> dict[str, tuple[tuple[str, str], ...]]:
    return {
        "write": (("osd", f"-> {tag} osd_op #1: cut at 100000"),),
        "rename": (("mds", f"<- {tag} client_reply #1: cut before"),),
        "read": (("osd", f"<- {tag} osd_op_reply #1: cut before"),),
    }


CUTS = {"legacy": _cuts("MSG"), "crc": _cuts("MESSAGE"), "secure": _cuts("MESSAGE")}
"""The daemon whose link is cut and the rule, by mode and by what is done meanwhile."""
