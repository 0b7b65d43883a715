"""Commands for an embedded OSD."""

import asyncio
import errno
import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from messenger.messages.command import MCommand
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_operations import OpCode
from messenger.messages.pg import PgId
from tests.toolkit.embedded.osd.test_options import options
from tests.toolkit.embedded.osd.test_requests import Peer, watching
from toolkit.embedded.osd.commands import State, answer
from toolkit.embedded.osd.requests import Requests

FSID = UUID("6f3f2a54-3c0c-4a9e-9f55-0d3ac0a9b001")


def ask(requests: Requests, prefix: str, **arguments: Any) -> tuple[int, Any]:
    """Run a command on an OSD that is the primary of placement group 1.0; returns result and output."""
    state = State(2, FSID, 5, lambda pgid: pgid == PgId(1, 0), requests, options())
    reply, output = answer(MCommand(FSID, [json.dumps({"prefix": prefix, **arguments})]), state)
    return reply.r, json.loads(output or b"null")


def test_a_placement_group_is_queried_where_it_is() -> None:
    peer = Peer(Requests())
    peer.ask("a", operation(OpCode.WRITEFULL, b"12345"))
    for command in ({"prefix": "query"}, {"prefix": "pg", "cmd": "query"}):
        number, value = ask(peer.requests, **command, pgid="1.0")
        assert (number, value["state"], value["acting"]) == (0, "active+clean", [2])
        assert value["info"]["stats"]["stat_sum"] == {"num_bytes": 5, "num_objects": 1}
    for pgid in ("1.1", "7.0", "bogus", None):
        assert ask(peer.requests, "query", pgid=pgid) == (-errno.ENOENT, None)
    assert ask(peer.requests, "list_unfound", pgid="1.0")[1]["num_unfound"] == 0


def test_watchers_are_shown() -> None:
    async def watched() -> None:
        requests = Requests()
        watching(requests, 9)
        (shown,) = ask(requests, "dump_watchers")[1]
        assert (shown["object"], shown["cookie"], shown["timeout"]) == ("a", 9, 30)
        assert shown["entity_name"] == {"type": "client", "num": 4100}

    asyncio.run(watched())


def test_every_described_command_is_answered_and_no_other() -> None:
    described = ask(Requests(), "get_command_descriptions")[1]
    names = {" ".join(word for word in each["sig"] if isinstance(word, str)) for each in described.values()}
    assert {"pg", "config get", "config set", "config show", "injectargs"} <= names
    names -= {"pg", "config get", "config set"}  # these need arguments
    assert {"version", "status", "flush_pg_stats"} <= names
    assert {ask(Requests(), name, pgid="1.0")[0] for name in names} == {0}
    assert ask(Requests(), "status")[1]["whoami"] == 2
    assert ask(Requests(), "bench")[0] == -errno.EINVAL
    assert answer(MCommand(FSID, ["[]"]), SimpleNamespace())[0].r == -errno.EINVAL  # type: ignore[arg-type]


def test_options_are_shown_and_set() -> None:
    assert ask(Requests(), "config get", var="ms_crc_data") == (0, {"ms_crc_data": "true"})
    done = ask(Requests(), "config set", var="ms-inject-socket-failures", val=["500"])
    assert done == (0, {"success": "ms_inject_socket_failures = '500' "})
    assert ask(Requests(), "injectargs", injected_args=["--ms_inject_socket_failures", "500"]) == (0, {})
    assert ask(Requests(), "config show")[1]["name"] == "osd.2"
    assert ask(Requests(), "config get", var="nonsense")[0] == -errno.ENOENT
    assert ask(Requests(), "config set", var="osd_max_backfills", val=["3"])[0] == -errno.EINVAL
    assert ask(Requests(), "config set", var="ms_crc_data")[0] == -errno.EINVAL


@pytest.mark.parametrize("prefix", [None, 5, {}, []])
def test_a_prefix_is_a_text(prefix: Any) -> None:
    assert ask(Requests(), prefix)[0] == -errno.EINVAL
