"""Our messenger in the place of each side of every recorded session."""

import gzip
from functools import cache
from pathlib import Path

import pytest

from messenger.errors import LocalError
from messenger.link import Link
from messenger.session.session import Session
from messenger.v2 import data
from messenger.v2.wire import SessionReconnect
from tests.support.clusters import ROOT
from toolkit.replay import Replayed, ReplayResult, Role, capture_replay, replay_capture
from toolkit.replay.capture_replay import NOTHING_SENT
from toolkit.replay.compare import ACK_TIMING, KEPT_AUTHORIZER
from toolkit.replay.player import Player

REPLACED = "reef-files"
"""A capture in which a daemon takes the address of one that died (docs/replay.md)."""
CAPTURES = sorted({path.parent.name for path in (ROOT / "captures").glob("*/capture.pcapng.gz")} - {REPLACED})
RESUMED = "tentacle-osds"
"""A capture with a session over three links: a race, a cut, messages sent again."""


def replayed(name: str, role: Role, *, keys: bool = True, session: int | None = None) -> ReplayResult:
    folder = ROOT / "captures" / name
    keyrings = [folder / "keyring"] if keys else []
    return replay_capture(folder / "capture.pcapng.gz", role, keyrings, session=session)


@cache
def unharmed(name: str, role: Role) -> ReplayResult:
    return replayed(name, role)


def differing_tags(result: ReplayResult) -> set[str]:
    """Tags of the frames that differ."""
    return {each.tag for session in result.sessions for each in session.comparison.differences}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", CAPTURES)
def test_real_daemons_and_clients_sent_what_ours_sends(name: str, role: Role) -> None:
    result = unharmed(name, role)
    assert result.problem is None
    assert [each for session in result.sessions for each in session.comparison.differences] == []
    for session in result.sessions:
        found = session.comparison
        assert session.not_replayed == ("" if found.compared else NOTHING_SENT)
        assert found.compared == found.equal + found.allowed.total()
        assert set(found.allowed) <= {ACK_TIMING, KEPT_AUTHORIZER}
    assert sum(not session.not_replayed for session in result.sessions) >= 3


def own_frames(session: Replayed) -> int:
    return session.comparison.compared


def test_every_frame_of_a_session_is_compared_in_one_of_the_roles() -> None:
    from toolkit.dissect.capture import Capture

    capture = Capture.folder(ROOT / "captures" / "tentacle-none")
    both = sum(own_frames(each) for role in Role for each in unharmed("tentacle-none", role).sessions)
    assert both == len(capture.frames)


def test_frames_that_never_arrived_are_not_acknowledged() -> None:
    """Five writes went into a cut network: SESSION_RECONNECT_OK announces what came before them."""
    result = unharmed("nautilus-osds", Role.SERVER)
    assert any(len(session.links) > 1 for session in result.sessions)
    assert not result.differs


def test_an_authorizer_of_the_link_before_is_a_choice_of_nautilus() -> None:
    allowed = [each.comparison.allowed for each in unharmed("nautilus-osds-v1", Role.CLIENT).sessions]
    assert sum(each[KEPT_AUTHORIZER] for each in allowed) == 1
    later = [each.comparison.allowed for each in unharmed("pacific-osds-v1", Role.CLIENT).sessions]
    assert sum(each[KEPT_AUTHORIZER] for each in later) == 0


@pytest.mark.parametrize("name", ["tentacle-crc", "tentacle-secure", "nautilus-crc"])
def test_our_own_cephx_computes_what_clients_send(name: str) -> None:
    sessions = unharmed(name, Role.CLIENT).sessions
    assert [each.authenticated for each in sessions] == [each.links for each in sessions]


@pytest.mark.parametrize("name", ["tentacle-osds", "nautilus-osds", "reef-osds-v1"])
def test_our_own_cephx_computes_what_services_answer(name: str) -> None:
    """The OSDs have fetched the services' keys in the capture; monitors make tickets, which are the record's."""
    for session in unharmed(name, Role.SERVER).sessions:
        between_osds = session.title.startswith("osd.") and "→ osd." in session.title
        if between_osds:
            assert session.authenticated
        elif session.title.endswith("mon.0"):
            assert not session.authenticated


# ---- a core with a defect


@pytest.mark.parametrize(("name", "tag"), [("tentacle-crc", "AUTH_REQUEST_MORE"), ("pacific-v1", "CONNECT")])
def test_a_wrong_answer_to_a_challenge_differs(monkeypatch: pytest.MonkeyPatch, name: str, tag: str) -> None:
    monkeypatch.setattr("messenger.cephx.authorizer_exchange.successor", lambda value: value ^ 2)
    differing = differing_tags(replayed(name, Role.CLIENT, session=2))
    assert tag in differing


def test_a_wrong_reply_of_a_service_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messenger.cephx.service.successor", lambda value: value)
    assert "AUTH_DONE" in differing_tags(replayed("nautilus-osds", Role.SERVER))


def test_a_wrong_flag_of_messages_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FLAGS", 1)
    result = replayed("tentacle-none", Role.CLIENT)
    (kind, *others) = result.sessions[0].comparison.kinds()
    assert not others
    assert (kind[0].frame, kind[0].tag, kind[0].what) == (12, "MESSAGE", "flags=3 ours=1")


def test_a_wrong_number_in_a_handshake_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SessionReconnect.encode

    def wrong(frame: SessionReconnect) -> bytes:
        frame.connect_seq += 1
        return right(frame)

    monkeypatch.setattr(SessionReconnect, "encode", wrong)
    result = replayed(RESUMED, Role.CLIENT)
    assert differing_tags(result) == {"SESSION_RECONNECT"}
    (found,) = (each for session in result.sessions for each in session.comparison.differences)
    assert found.what == "connect_seq=1 ours=2"


@pytest.mark.parametrize("role", Role)
def test_acks_that_are_not_sent_differ(monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    monkeypatch.setattr(Link, "ack_is_due", lambda _link, _session: False)
    assert differing_tags(replayed(RESUMED, role)) == {"ACK"}


def test_messages_that_are_not_sent_again_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "requeue_sent", lambda session: session.queue.sent.clear())
    assert "MESSAGE" in differing_tags(replayed(RESUMED, Role.CLIENT))


def test_a_wrong_signature_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messenger.v2.handshake.hmac_sha256", lambda _key, _covered: bytes(32))
    result = replayed("tentacle-crc", Role.SERVER, session=0)
    assert "AUTH_SIGNATURE" in differing_tags(result)
    ours = [each for each in result.sessions[0].comparison.differences if "had closed the link" in each.what]
    assert ours, "the peer's signature, which is right, does not fit what ours expects"


def test_a_session_that_a_disputed_rule_explains_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Differs(Player):
        def play(self) -> None:
            super().play()
            if self._rules != {"server_wait": "fault"}:
                self.links[0].frames.pop()

    monkeypatch.setattr(capture_replay, "Player", Differs)
    (session,) = replayed("tentacle-none", Role.CLIENT, session=2).sessions
    assert session.comparison.allowed == {"server_wait=fault": 1}
    assert session.comparison.differences == []


# ---- what cannot be replayed


def test_sealed_links_without_keys_are_not_replayed() -> None:
    result = replayed("tentacle-secure", Role.SERVER, keys=False)
    assert [each.comparison.compared for each in result.sessions] == [0] * len(result.sessions)
    assert all("missing: " in each.not_replayed for each in result.sessions)


def test_signatures_need_keys_too() -> None:
    result = replayed("tentacle-crc", Role.CLIENT, keys=False)
    assert all("missing: " in each.not_replayed for each in result.sessions)


def test_authentication_by_none_needs_no_keys() -> None:
    assert not replayed("tentacle-none", Role.CLIENT, keys=False).differs


def test_a_session_that_began_before_the_capture_is_not_replayed(tmp_path: Path) -> None:
    from toolkit.capture.formats import open_capture

    whole = ROOT / "captures" / "tentacle-none" / "capture.pcapng.gz"
    later = tmp_path / "later.pcapng"
    later.write_bytes(without_packets(gzip.decompress(whole.read_bytes()), 6))
    with open_capture(later) as reader:
        assert sum(len(batch.times_ns) for batch in reader) > 6
    result = replay_capture(later, Role.CLIENT)
    assert {each.links[0]: each.not_replayed for each in result.sessions} == {
        0: "link 0 began before the capture",
        1: "",
        2: "",
    }


def without_packets(pcapng: bytes, count: int) -> bytes:
    """A capture without its first packets."""
    kept, at = [], 0
    while at < len(pcapng):
        kind, size = (int.from_bytes(pcapng[at + place : at + place + 4], "little") for place in (0, 4))
        if kind == 6 and count:  # an enhanced packet block
            count -= 1
        else:
            kept.append(pcapng[at : at + size])
        at += size
    return b"".join(kept)


def test_replay_refuses_an_unknown_session() -> None:
    with pytest.raises(LocalError, match="no session 9: the capture has 3, counted from 0"):
        replayed("tentacle-none", Role.CLIENT, session=9)
