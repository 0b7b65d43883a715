"""LP: takeovers of a session by a new link: faults around them, negotiated features, unread bytes."""

from typing import Any

from messenger.interception import Action
from toolkit.lab.lab import Lab
from toolkit.lab.ways import CRC_WAYS
from toolkit.scenarios.lossless_peer import LP

_MOMENTS = {
    # name: point at the acceptor on v2, on v1, which pass of it on v1
    "before": ("SESSION_RECONNECT READ", "CONNECT READ", 2),
    "during": ("SESSION_RECONNECT_OK WRITE", "CONNECT_REPLY WRITE", 2),
    "after": ("SESSION_RECONNECT_OK WRITE", "SEQ READ", 1),
}


@LP.scenario(
    "LP-19",
    "fault_during_handover",
    cases={
        f"{link} link {moment}{', unsent data' if data else ''}": {
            "at": at,
            "link": link,
            "late": moment == "after",
            "data": data,
        }
        for moment, at in _MOMENTS.items()
        for link in ("old", "new", "both")
        for data in (False, True)
    },
)
def fault_during_handover(lab: Lab, at: tuple[str, str, int], link: str, late: bool, data: bool) -> None:  # noqa: FBT001 - a case
    """A session survives a fault of either link at any moment of a takeover.

    One side has lost its socket and dials again, while the other still takes the old link for open. The old link,
    the new one, or both break before the takeover is decided, during it, or right after it. The session ends up on
    one link, and every message arrives once.
    """
    point, nth = (at[1], at[2]) if lab.is_v1 else (at[0], 1)
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("a")
    lab.expect_acked("b")
    lab.arm("b", point, Action.STALL if late and not lab.is_v1 else Action.BLOCK, nth=nth)
    lab.half_open("b", "a")
    lab.expect_state("a", "b", "STANDBY")
    lab.send("a", "b", count=2)
    lab.expect_hit("b", point)
    sent = 0
    if link in {"old", "both"}:
        sent = 3
        lab.send("b", "a", count=sent)  # writes into the old link, if it is still there
        lab.wait(0.05)
    if link in {"new", "both"}:
        lab.cut("a", "b")
        lab.wait(0.05)
    if data:
        lab.send("b", "a")
        lab.send("a", "b")
    lab.unblock("b", point)
    lab.expect_delivered("a", "b", 4 + data)
    lab.expect_delivered("b", "a", 2 + sent + data)
    lab.exchange(count=2)
    for name, peer in ("a", "b"), ("b", "a"):
        lab.expect_state(name, peer, "READY")
        lab.expect_no_event(name, peer, "reset")
        lab.expect_no_event(name, peer, "remote_reset")
    lab.settle()
    held = lab.holdings("b")
    lab.require((held["links"], held["held_bytes"]) == (1, 0), f"one link and nothing unread may be left: {held}")


_Options = dict[str, Any]
_TERMS: dict[str, tuple[_Options, _Options]] = {
    "revision": ({"msgr2_features": 0}, {"msgr2_features": 3}),
    "mode": ({"ms_cluster_mode": "crc"}, {"ms_cluster_mode": "secure"}),
    "compression": ({}, {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1}),
    "all": (
        {"msgr2_features": 0, "ms_cluster_mode": "crc"},
        {
            "msgr2_features": 3,
            "ms_cluster_mode": "secure",
            "ms_osd_compress_mode": "force",
            "ms_osd_compress_min_size": 1,
            "ms_compress_secure": True,
        },
    ),
}


def _turned(terms: tuple[_Options, _Options]) -> tuple[_Options, _Options]:
    low, high = terms
    back = {"ms_osd_compress_mode": "none"} if "ms_osd_compress_mode" in high else {}
    return high, low | back


@LP.scenario(
    "LP-23",
    "feature_change_on_replace",
    ways=CRC_WAYS,
    cases={
        **{f"{name} up": {"terms": terms} for name, terms in _TERMS.items()},
        **{f"{name} down": {"terms": _turned(terms)} for name, terms in _TERMS.items()},
    },
)
def feature_change_on_replace(lab: Lab, terms: tuple[_Options, _Options]) -> None:
    """A session goes on with the features that its new link negotiated.

    Two peers change their options, and one of them loses its socket: its new link, with another protocol revision,
    mode or compression, replaces the old one, which the other side still takes for open. Messages not acknowledged
    on the old link are replayed on the new one, and both directions decode.
    """
    before, after = terms
    lab.two("lossless_peer")
    for name in "ab":
        lab.configure(name, **before)
    lab.connect("a", "b")
    lab.exchange(count=3)
    lab.arm("a", "MESSAGE READ", Action.BLOCK)
    lab.send("b", "a", count=3)
    lab.expect_hit("a", "MESSAGE READ")
    for name in "ab":
        lab.configure(name, **after)
    lab.half_open("b", "a")
    lab.wait(0.1)
    lab.unblock("a", "MESSAGE READ")
    lab.send("a", "b", count=3)
    lab.expect_delivered("a", "b", 6)
    lab.expect_delivered("b", "a", 6)
    lab.exchange(count=3, size_bytes=5000)
    terms_of_links = [_terms(lab, number) for number in (1, -1)]
    lab.require(terms_of_links[0] != terms_of_links[1], f"the new link must have other terms: {terms_of_links}")
    lab.expect_no_event("a", "b", "remote_reset")
    lab.expect_no_event("b", "a", "remote_reset")
    lab.settle()


def _terms(lab: Lab, number: int) -> tuple[object, ...]:
    """Mode, revision and compression of a's first link (1) or last one (-1)."""
    links = [record["link"] for record in lab.records("a", "link", action="open")]
    links += [record["link"] for record in lab.records("a", "link", action="accept")]
    link = links[0] if number == 1 else links[-1]
    auth = lab.records("a", "auth", link=link)
    compressions = [
        record["fields"]["is_compress"] for record in lab.records("a", "frame", tag="COMPRESSION_DONE", link=link)
    ]
    return (auth[-1]["mode"], auth[-1]["revision"], compressions)


@LP.scenario(
    "LP-24",
    "leftover_bytes_on_replace",
    cases={"unread data": {"handshake": False}, "handshake": {"handshake": True}},
)
def leftover_bytes_on_replace(lab: Lab, handshake: bool) -> None:  # noqa: FBT001 - a case
    """Unread bytes and signature buffers of a replaced link are freed.

    The old link is blocked with bytes in its buffer: in the data phase, or in the handshake of a dial that loses a
    race. The new link replaces it; those bytes are never parsed, and none are held once both sides are at rest.
    """
    lab.two("lossless_peer")
    winner, loser = lab.race_winner("a", "b")
    if handshake:
        point = "CONNECT_REPLY READ" if lab.is_v1 else "AUTH_DONE READ"
        lab.arm(loser, point, Action.BLOCK)
        lab.dial(loser, winner)
        lab.expect_hit(loser, point)
        lab.send(loser, winner, count=3)
        lab.send(winner, loser, count=3)
        lab.expect_delivered(loser, winner, 3)
    else:
        lab.connect(loser, winner)
        lab.exchange(count=1)
        lab.expect_acked("a")
        lab.expect_acked("b")
        point = lab.point("MESSAGE", "READ")
        lab.arm(loser, point, Action.BLOCK)
        lab.send(winner, loser, count=5, size_bytes=20_000)
        lab.expect_hit(loser, point)
        lab.wait(0.1)
        lab.half_open(loser, winner)
        lab.send(winner, loser)
        lab.expect_delivered(winner, loser, 7)
    lab.exchange(count=2)
    for name in "ab":
        lab.expect_memory(name, 0)
        lab.expect(name, "links", 1)  # on sockets the replaced one ends a moment later
    closings = _closings(lab, loser)
    lab.require(any("replaced" in detail for detail in closings), f"the old link must be replaced: {closings}")
    lab.settle()


def _closings(lab: Lab, node: str) -> list[str]:
    return [record["detail"] for record in lab.records(node, "link", action="close")]
