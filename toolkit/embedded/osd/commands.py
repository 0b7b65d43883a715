"""Commands for an OSD: ``ceph tell osd.N`` (docs/protocol.md §6.3)."""

import errno
import json
from typing import Any

from messenger.messages.command import MCommand, MCommandReply
from toolkit.embedded.release import VERSION

_VERSION = {
    "sig": ["version"],
    "help": "report version of OSD",
    "module": "osd",
    "perm": "r",
    "flags": 0,
}


def answer(request: MCommand) -> tuple[MCommandReply, bytes]:
    """Return the reply to a command, and its output."""
    try:
        arguments: Any = json.loads("".join(request.cmd))
        prefix = arguments["prefix"]
    except (ValueError, TypeError, KeyError):
        return MCommandReply(-errno.EINVAL, "the command is not a JSON object with a prefix"), b""
    if prefix == "get_command_descriptions":
        return MCommandReply(0), json.dumps({"cmd000": _VERSION}).encode()
    if prefix == "version":
        number = VERSION.split()[2]
        value = {"version": number, "release": "pacific", "release_type": "stable"}
        return MCommandReply(0), json.dumps(value, indent=4).encode() + b"\n"
    return MCommandReply(-errno.EINVAL, f"command not known: {prefix!r}; an embedded OSD has: version"), b""
