"""The handshakes of captures, as the daemons and clients that made them logged them.

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
    """Return the sessions that the logs show as opened for the first time."""
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
    """Return, for each stream that opens a session, what the connector and what the acceptor know of it."""
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
    decoded = {
        (f"v2:{frame['src']}/0", frame["fields"]["peer_addr"], frame["dst"])
        for frame in frames
        if frame["tag"] == "HELLO" and not frame["error"]
    }
    matches = [match for line in lines_of(name) if (match := _HELLO.search(line))]
    logged = {(re.sub(r"/\d+$", "/0", match["peer"]), match["own"], match["socket"]) for match in matches}
    assert logged
    assert logged & decoded, "nothing of what was logged is in the capture"
    dialled = {src for _, _, src in decoded}
    assert {one for one in logged if one[2] in dialled} <= decoded


# ---- v1

V1 = sorted(name for name, recipe in RECIPES.items() if recipe.v1_only)
_OPENED = re.compile(
    r" --1- (?P<own>\S+) >> (?P<peer>\S+) conn\(\S+ \S+ \S+ s=OPENED "
    r"pgs=(?P<pgs>\d+) (?:gs=\d+ )?cs=(?P<cs>\d+) l=(?P<lossy>\d)\)"
)
_IDENTIFY = re.compile(r"handle_server_banner_and_identify peer (?P<peer>\S+) says I am (?P<own>\S+) \(socket")
_ACCEPT = re.compile(r" --1- (?P<own>\S+) >> (?P<peer>\S+) .*accept connect_seq (?P<cs>\d+) vs existing csq=")


class OpenedV1(NamedTuple):
    """What one end of a v1 link knows of its session: everything that Ceph logs of it."""

    own: str
    peer: str
    peer_global_seq: int
    connect_seq: int
    lossy: bool


@cache
def v1_streams_of(name: str) -> list[list[dict[str, Any]]]:
    """The frames of each stream in which both ends give their address."""
    streams: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in gzip.decompress((HERE / name / EXPECTED).read_bytes()).decode().splitlines():
        frame = json.loads(line)
        streams[frame["stream"]].append(frame)
    return [frames for frames in streams.values() if [frame["tag"] for frame in frames].count("IDENTIFY") == 2]


def ends_of(frames: list[dict[str, Any]]) -> tuple[str, str]:
    """The addresses that the connector and the acceptor of a stream give."""
    named = [frame["fields"] for frame in frames if frame["tag"] == "IDENTIFY"]
    server = next(fields for fields in named if "server_addr" in fields)
    client = next(fields for fields in named if "server_addr" not in fields)
    return client["client_addr"], server["server_addr"]


def decoded_v1(name: str) -> set[OpenedV1]:
    """Return, for each stream that opens a session, what both ends know of it."""
    found = set()
    for frames in v1_streams_of(name):
        replies = [frame["fields"] for frame in frames if frame["tag"] == "CONNECT_REPLY"]
        if replies and replies[-1]["tag"] in {"READY", "SEQ"}:
            client, server = ends_of(frames)
            connect = [frame["fields"] for frame in frames if frame["tag"] == "CONNECT"][-1]
            same = replies[-1]["connect_seq"], bool(replies[-1]["flags"] & LOSSY)
            found.add(OpenedV1(client, server, replies[-1]["global_seq"], *same))
            found.add(OpenedV1(server, client, connect["global_seq"], *same))
    return found


@pytest.mark.parametrize("name", V1)
def test_v1_sessions_are_open_as_their_ends_logged(name: str) -> None:
    matches = [match for line in lines_of(name) if (match := _OPENED.search(line))]
    logs = {
        OpenedV1(match["own"], match["peer"], int(match["pgs"]), int(match["cs"]), match["lossy"] == "1")
        for match in matches
    }
    assert len(logs) >= 3, "the daemons log the sessions of their clients"
    assert logs <= decoded_v1(name)


@pytest.mark.parametrize("name", V1)
def test_v1_connectors_learn_the_address_that_they_logged(name: str) -> None:
    named = {
        (frame["fields"]["server_addr"], frame["fields"]["client_addr"])
        for frames in v1_streams_of(name)
        for frame in frames
        if frame["tag"] == "IDENTIFY" and "server_addr" in frame["fields"]
    }
    logs = {(match["peer"], match["own"]) for line in lines_of(name) if (match := _IDENTIFY.search(line))}
    assert len(logs & named) >= 2, "the links of the client"
    in_capture = {own for _, own in named}
    assert {pair for pair in logs if pair[1] in in_capture} <= named


@pytest.mark.parametrize("name", [name for name in V1 if "osds" in name])
def test_v1_acceptors_judge_the_connect_seq_that_they_logged(name: str) -> None:
    """Logged only where there is a session already: at races and reconnects."""
    asked = {
        (*ends_of(frames), frame["fields"]["connect_seq"])
        for frames in v1_streams_of(name)
        for frame in frames
        if frame["tag"] == "CONNECT"
    }
    logs = {
        (match["peer"], match["own"], int(match["cs"]))
        for line in lines_of(name)
        if (match := _ACCEPT.search(line))
    }
    assert logs
    assert logs <= asked
