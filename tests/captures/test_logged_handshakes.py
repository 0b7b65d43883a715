"""The handshakes of msgr v2 in captures, as the daemons and clients that made them logged them.

The expected fields come from this project's decoder; the logs were written by Ceph itself.
"""

import gzip
import json
import re
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

import pytest

from captures.expected import EXPECTED, HERE
from captures.recipes import RECIPES

V2 = sorted(name for name, recipe in RECIPES.items() if not recipe.v1_only)
LOSSY = 1
"""Bit of SERVER_IDENT.flags."""
_READY = re.compile(
    r" --2- (?P<own>\S+) >> (?P<peer>\S+) conn\(\S+ \S+ (?P<mode>\w+) .*s=READY pgs=(?P<pgs>\d+) (?:gs=\d+ )?"
    r"cs=(?P<cs>\d+) l=(?P<lossy>\d) .*\.ready entity=\S+ "
    r"client_cookie=(?P<client>[0-9a-f]+) server_cookie=(?P<server>[0-9a-f]+)"
)
_HELLO = re.compile(r"handle_hello peer (?P<peer>\S+) says I am (?P<own>\S+) \(socket says (?P<socket>\S+)\)")


class Opened(NamedTuple):
    """What one end knows of a session that it has just opened."""

    own: str
    peer: str
    peer_global_seq: int
    client_cookie: int
    server_cookie: int
    lossy: bool
    mode: str


@cache
def lines_of(name: str) -> list[str]:
    lines: list[str] = []
    for path in sorted((HERE / name).glob("*.log.gz")):
        lines += gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines()
    return lines


@cache
def streams_of(name: str) -> list[dict[str, dict[str, Any]]]:
    """The fields of each stream's frames by tag, with the mode of the frame; of several frames the last."""
    streams: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for line in gzip.decompress((HERE / name / EXPECTED).read_bytes()).decode().splitlines():
        frame = json.loads(line)
        streams[frame["stream"]][frame["tag"]] = {**frame["fields"], "mode": frame["mode"], "src": frame["src"]}
    return list(streams.values())


def logged(name: str) -> set[Opened]:
    """Sessions that the logs say are open for the first time."""
    found = set()
    for line in lines_of(name):
        match = _READY.search(line)
        if match and match["cs"] == "0":
            cookies = int(match["client"], 16), int(match["server"], 16)
            found.add(
                Opened(
                    match["own"], match["peer"], int(match["pgs"]), *cookies, match["lossy"] == "1", match["mode"]
                )
            )
    return found


def decoded(name: str) -> list[tuple[Opened, Opened]]:
    """Of each stream that opens a session, what the connector and what the acceptor know."""
    found = []
    for stream in streams_of(name):
        if {"CLIENT_IDENT", "SERVER_IDENT"} <= stream.keys():
            client, server = stream["CLIENT_IDENT"], stream["SERVER_IDENT"]
            same = client["client_cookie"], server["server_cookie"], bool(server["flags"] & LOSSY), client["mode"]
            found.append(
                (
                    Opened(client["addrs"], server["addrs"], server["global_seq"], *same),
                    Opened(server["addrs"], client["addrs"], client["global_seq"], *same),
                )
            )
    return found


@pytest.mark.parametrize("name", V2)
def test_sessions_open_as_their_ends_logged(name: str) -> None:
    logs, sessions = logged(name), decoded(name)
    assert sessions
    unseen = [pair for pair in sessions if logs.isdisjoint(pair)]
    assert unseen == [], "no end logged that it opened so"


@pytest.mark.parametrize("name", V2)
def test_connectors_learn_the_address_that_they_logged(name: str) -> None:
    frames = map(json.loads, gzip.decompress((HERE / name / EXPECTED).read_bytes()).decode().splitlines())
    told = {
        (f"v2:{frame['src']}/0", frame["fields"]["peer_addr"], frame["dst"])
        for frame in frames
        if frame["tag"] == "HELLO" and not frame["error"]
    }
    matches = [match for line in lines_of(name) if (match := _HELLO.search(line))]
    said = {(re.sub(r"/\d+$", "/0", match["peer"]), match["own"], match["socket"]) for match in matches}
    assert said
    assert said & told, "nothing of what was logged is in the capture"
    dialled = {src for _, _, src in told}
    assert {one for one in said if one[2] in dialled} <= told
