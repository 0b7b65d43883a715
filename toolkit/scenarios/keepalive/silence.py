"""KA: keepalive, idle, timeouts."""

from typing import Any

from messenger.errors import FaultReason
from messenger.v1.wire import KeepAlive2 as V1KeepAlive2
from messenger.v1.wire import KeepAlive2Ack as V1KeepAlive2Ack
from messenger.v2.wire import KeepAlive2, KeepAlive2Ack
from toolkit.lab.lab import Lab
from toolkit.scenarios.keepalive import KA


def _pair(lab: Lab, **options: Any) -> None:  # noqa: ANN401 - Config options
    lab.two("lossless_peer", **options)
    lab.connect("a", "b")
    lab.exchange(count=1)


def _expect_answer(lab: Lab, newer_than_s: float = 0.0) -> float:
    """Wait until a has an answer to a keepalive later than ``newer_than_s``; returns its Unix time."""
    lab.wait_until(lambda: lab.session("a", "b")["keepalive_acked_s"] > newer_than_s, "a's keepalive answered")
    return float(lab.session("a", "b")["keepalive_acked_s"])


def _idle_faults(lab: Lab, node: str) -> int:
    return len(lab.records(node, "fault", reason=FaultReason.IDLE_TIMEOUT.name))


@KA.scenario("KA-01", "keepalive_roundtrip")
def keepalive_roundtrip(lab: Lab) -> None:
    """A KEEPALIVE2 is answered with its own timestamp and does not affect messages.

    One side sends keepalives between the messages of a stream. Each answer carries the timestamp of its
    KEEPALIVE2, the time of the last answer grows, and keepalives use none of the messages' seqs.
    """
    rounds = 10
    lab.two("lossless_peer")
    lab.connect("a", "b")
    acked_s = 0.0
    for _ in range(rounds):
        lab.send("a", "b", count=5)
        lab.keepalive("a", "b")
        lab.send("a", "b", count=5)
        lab.send("b", "a", count=2)
        acked_s = _expect_answer(lab, acked_s)
        lab.wait(0.01)
    lab.expect_delivered("a", "b", 10 * rounds)
    lab.expect_delivered("b", "a", 2 * rounds)
    asked = [frame["fields"] for frame in lab.frames("a", "KEEPALIVE2")]
    answered = [frame["fields"] for frame in lab.frames("a", "KEEPALIVE2_ACK", "rx")]
    lab.require(len(asked) == rounds, f"{rounds} keepalives were to be sent, {len(asked)} were")
    lab.require(answered == asked, f"each answer must have its question's timestamp: {answered} for {asked}")
    seqs = [record["seq"] for record in lab.records("b", "deliver")]
    lab.require(seqs == list(range(1, 10 * rounds + 1)), "keepalives must not touch the seqs of messages")
    lab.expect_events("a", "b", connect=1)
    lab.settle()


@KA.scenario(
    "KA-02",
    "idle_timeout",
    cases={
        "lossy client": {"a": "lossy_client", "b": "stateless_server"},
        "lossless client": {"a": "lossless_client", "b": "stateful_server"},
        "lossless peers": {"a": "lossless_peer", "b": "lossless_peer"},
    },
)
def idle_timeout(lab: Lab, a: str, b: str) -> None:
    """A link without traffic breaks after ms_connection_idle_timeout.

    The timeout is one second, and the link is closed within two and a half. A lossy session ends with a reset
    event on both sides, lossless peers go to STANDBY, a lossless client dials again at once.
    """
    lab.two(a, b, "client.1" if a.endswith("client") else "osd.1", ms_connection_idle_timeout=1.0)
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.wait(0.5)
    lab.require(not (_idle_faults(lab, "a") or _idle_faults(lab, "b")), "nobody has been idle for a second yet")
    lab.wait(2.0)
    lab.require(_idle_faults(lab, "a") + _idle_faults(lab, "b") > 0, "the idle link must have been given up")
    if a == "lossy_client":
        lab.expect_events("a", "b", connect=1, reset=1)
        lab.expect_events("b", "a", accept=1, reset=1)
        lab.expect_no_dial(0.5, "a")
    elif a == "lossless_peer":
        lab.expect_state("a", "b", "STANDBY")
        lab.expect_state("b", "a", "STANDBY")
        lab.expect_no_dial(0.5, "a", "b")
        lab.exchange(count=1)
    else:
        lab.expect_event("a", "b", "connect", 2)
        lab.exchange(count=1)
        lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@KA.scenario(
    "KA-03",
    "activity_definition",
    backends=("sim",),
    only="a socket takes bytes into its buffers while nothing arrives, and that is activity",
)
def activity_definition(lab: Lab) -> None:
    """Only bytes that move count as activity of a link, queued ones do not.

    The network drops everything between two peers without an error, while one of them keeps queueing messages. Its
    link is closed once no byte has moved for a second, and after the network is healed every message arrives.
    """
    _pair(lab, ms_connection_idle_timeout=1.0)
    lab.expect_acked("a")
    lab.expect_acked("b")
    began_s = lab.history[-1].time_s
    lab.partition("a", "b")
    for _ in range(8):
        lab.send("a", "b", size_bytes=10_000)
        lab.wait(0.2)
    idle = lab.records("a", "fault", reason=FaultReason.IDLE_TIMEOUT.name)
    lab.require(len(idle) == 1, f"a's link must be given up once, it was {len(idle)} times")
    after_s = idle[0].time_s - began_s
    lab.require(after_s <= 1.01, f"no byte has moved for a second, but the link lived for {after_s:g} s")
    lab.heal()
    lab.expect_delivered("a", "b", 9)
    lab.settle()


@KA.scenario(
    "KA-04", "peer_frozen", processes=True, cases={"waits": {"gives_up": False}, "gives up": {"gives_up": True}}
)
def peer_frozen(lab: Lab, gives_up: bool) -> None:  # noqa: FBT001 - a case
    """A frozen peer answers no keepalive, and handles unread messages when it thaws.

    The peer's process is stopped, while its kernel still accepts bytes: the age of the last answer grows. In one
    case the application waits until the peer goes on, and every message arrives; in the other it marks the session
    down, and the next session carries messages once the peer goes on.
    """
    _pair(lab)
    lab.keepalive("a", "b")
    acked_s = _expect_answer(lab)
    lab.freeze("b")
    lab.keepalive("a", "b")
    lab.send("a", "b", count=5)
    lab.wait(0.5 if lab.real_time else 20.0)
    lab.require(lab.session("a", "b")["keepalive_acked_s"] == acked_s, "a frozen peer cannot have answered")
    if gives_up:
        lab.mark_down("a", "b")
        lab.require(lab.snapshot("a")["registry"] == 0, "the session must be over at once")
    lab.thaw("b")
    if gives_up:
        lab.wait(0.5)
        before = lab.delivered("a", "b")
        lab.send("a", "b", count=2)
        lab.expect_delivered("a", "b", before + 2)
    else:
        _expect_answer(lab, acked_s)
        lab.expect_delivered("a", "b", 6)
        lab.require(lab.dials("a") == 1, "the link must have held")
    lab.settle()


@KA.scenario("KA-05", "unsolicited_ack", priority=2)
def unsolicited_ack(lab: Lab) -> None:
    """Unsolicited and outdated KEEPALIVE2_ACKs are harmless.

    A peer sends answers that nobody asked for, with a later, an older and a future timestamp. The recorded time of
    the last answer never goes back, and a timestamp in the future does not keep the link alive: the keepalive
    timeout still breaks it.
    """
    peer = lab.raw("b", "osd.2")
    lab.node("a", "osd.1", "lossless_peer", ms_max_backoff=0.2)
    lab.start()
    lab.dial("a", "b")
    link = peer.accept("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
    answer = V1KeepAlive2Ack if lab.is_v1 else KeepAlive2Ack
    seen = []
    for seconds in (2_000_000_000, 1_000, 4_000_000_000):
        link.send(answer(seconds, 0))
        lab.wait(0.05)
        seen.append(lab.session("a", "b")["keepalive_acked_s"])
    lab.require(seen == [2e9, 2e9, 4e9], f"the time of the last answer must never go back: {seen}")
    lab.require(not lab.faults("a"), f"an answer is no reason to fault: {lab.faults('a')}")
    lab.keep_alive("a", "b", 0.2, 0.5)
    lab.wait_until(lambda: lab.session_state("a", "b") != "READY", "the silent link given up", within_s=3.0)
    why = lab.records("a", "state")[-1]["why"]
    lab.require(FaultReason.KEEPALIVE_TIMEOUT.value in why, f"the link must break for its silence, not: {why}")
    lab.mark_down("a", "b")


@KA.scenario(
    "KA-06",
    "clock_jumps",
    priority=2,
    backends=("sim",),
    only="an hour of it takes a virtual clock",
    cases={"forward": {"jump_s": 3600.0}, "back": {"jump_s": -3600.0}},
)
def clock_jumps(lab: Lab, jump_s: float) -> None:
    """Setting the wall clock disturbs no timer.

    The hosts' clocks are set an hour forward or back while keepalives run, a link is idle, and dials pause. No
    link breaks, the pauses keep their lengths, and sessions go on.
    """
    _pair(lab, ms_connection_idle_timeout=50.0)
    lab.keep_alive("a", "b", 1.0, 3.0)
    lab.wait(5.0)
    for name in "ab":
        lab.jump_clock(name, jump_s)
    lab.wait(10.0)
    lab.require(not lab.records("a", "fault"), f"no link may fault: {lab.records('a', 'fault')}")
    asked = len(lab.frames("a", "KEEPALIVE2"))
    lab.require(14 <= asked <= 15, f"one keepalive a second, {asked} in 15 s")
    lab.refuse("a", "b")
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.wait(0.1)
    for name in "ab":
        lab.jump_clock(name, -jump_s)
    lab.wait(1.0)
    pauses = [round(pause_s, 2) for pause_s in lab.dial_pauses_s("a")[-2:]]
    lab.require(all(0.2 <= pause_s < 0.9 for pause_s in pauses), f"dials must pause for 0.2 s and 0.4 s: {pauses}")
    lab.heal()
    lab.expect_delivered("a", "b", 2)
    lab.exchange(count=2)
    lab.settle()


@KA.scenario("KA-07", "keepalive_during_big_message", priority=2)
def keepalive_during_big_message(lab: Lab) -> None:
    """A keepalive waits for the end of a message on the wire, and neither disturbs the other.

    A message takes most of a second on a slow path when its sender sends a keepalive. KEEPALIVE2 is written behind
    the message's frame, and its answer arrives after the peer has read both.
    """
    size_bytes, bytes_per_s = 200_000, 400_000.0
    _pair(lab)
    lab.slow("a", "b", bytes_per_s)
    lab.send("a", "b", size_bytes=size_bytes)
    lab.wait(0.05)
    asked_s = lab.history[-1].time_s
    lab.keepalive("a", "b")
    _expect_answer(lab)
    taken_s = lab.history[-1].time_s - asked_s
    lab.expect_delivered("a", "b", 2)
    if lab.way.mode != "compressed":
        lab.require(0.2 < taken_s < 2.0, f"the answer must come behind the message, it took {taken_s:g} s")
    order = [record["tag"] for record in lab.records("b", "frame", direction="rx")][-2:]
    lab.require(order[-1] == "KEEPALIVE2", f"the keepalive must come behind the message, last came {order}")
    lab.require(lab.dials("a") == 1, "the link must have held")
    lab.settle()


_FLOOD, _TOGETHER = 5_000, 100
_MOST_ANSWERS = _FLOOD // 5
"""A write of 100 keepalives may arrive in several reads, and each read is answered once."""


@KA.scenario("KA-08", "keepalive_flood", priority=2)
def keepalive_flood(lab: Lab) -> None:
    """A flood of keepalives gets one answer for each read, and bounded memory while the peer does not read.

    A peer sends 5000 keepalives, 100 in each write. It gets at most a fifth as many answers, and the last one
    answers its last keepalive. In simulation it then sends as many again without reading: at most
    ``write_ahead_bytes`` of answers wait to be written, and once it reads, its last keepalive is answered.
    Messages still pass, and the link stays open.
    """
    ahead_bytes = 256
    peer = lab.raw("b", "osd.2")
    lab.node("a", "osd.1", "lossless_peer", write_ahead_bytes=ahead_bytes)
    lab.start()
    lab.dial("a", "b")
    link = peer.accept("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
    _ask(lab, link, 0)
    answers = _answers(link)
    lab.require(0 < len(answers) <= _MOST_ANSWERS, f"1 to {_MOST_ANSWERS} answers are due, {len(answers)} came")
    lab.require(answers[-1] == _FLOOD, f"the last answer is to question {answers[-1]} of {_FLOOD}")
    if not lab.real_time:
        lab.slow("a", "b", 10.0)
        most_bytes = _ask(lab, link, _FLOOD)
        frame_bytes = 128  # of the answer that exceeds the limit
        lab.require(
            ahead_bytes <= most_bytes <= ahead_bytes + frame_bytes, f"{most_bytes} bytes of answers have waited"
        )
        lab.heal()
        answers = _answers(link)
        lab.require(answers[-1] == 2 * _FLOOD, f"the last answer is to question {answers[-1]} of {2 * _FLOOD}")
    link.send_messages(1)
    lab.expect_delivered("b", "a", 1)
    lab.require(not lab.faults("a"), f"the link must hold: {lab.faults('a')}")
    lab.mark_down("a", "b")


def _ask(lab: Lab, link: Any, before: int) -> int:  # noqa: ANN401 - of either protocol
    """Send the flood of keepalives, numbered by their timestamps; returns the most bytes waiting at a."""
    question = V1KeepAlive2 if lab.is_v1 else KeepAlive2
    most_bytes = 0
    for first in range(before + 1, before + _FLOOD, _TOGETHER):
        link.send(*(question(1_700_000_000, number) for number in range(first, first + _TOGETHER)))
        lab.wait(0.002)
        most_bytes = max(most_bytes, lab.holdings("a")["unwritten_bytes"])
    read = before + _FLOOD
    lab.wait_until(lambda: len(lab.frames("a", "KEEPALIVE2", "rx")) == read, "every keepalive read")
    return most_bytes


def _answers(link: Any) -> list[int]:  # noqa: ANN401 - of either protocol
    """The numbers of the keepalives that were answered."""
    return [frame.nanoseconds for frame in link.rest(0.5) if isinstance(frame, KeepAlive2Ack | V1KeepAlive2Ack)]


@KA.scenario("KA-09", "fastclose", priority=2)
def fastclose(lab: Lab) -> None:
    """Lossless sessions lose nothing if each short idle time breaks their link.

    Traffic comes in bursts, with pauses shorter and longer than the idle timeout, so that links break at any
    moment around a burst.
    """
    idle_s = 0.2
    _pair(lab, ms_connection_idle_timeout=idle_s)
    rounds = 8 if lab.real_time else 40
    for _ in range(rounds):
        lab.send("a", "b", count=2)
        if lab.rng.random() < 0.5:
            lab.send("b", "a", count=2, size_bytes=3000)
        lab.wait(idle_s * lab.rng.choice([0.2, 0.9, 1.0, 1.01, 1.5]))
    lab.expect_delivered("a", "b", 1 + 2 * rounds)
    for node, other in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, other, "reset")
        lab.expect_no_event(node, other, "remote_reset")
    lab.require(_idle_faults(lab, "a") + _idle_faults(lab, "b") > 1, "links must have been idle in between")
    # the last link times out as well, so that nothing changes while the counters are read
    lab.wait_until(lambda: not (lab.snapshot("a")["links"] or lab.snapshot("b")["links"]), "the last link is idle")
    lab.settle()


@KA.scenario("KA-10", "sending_is_activity")
def sending_is_activity(lab: Lab) -> None:
    """A link on which only one side sends is not idle, on either side.

    A lossy client sends a message every 0.3 s for three seconds to a server that sends nothing back, not even an
    ACK. With ms_connection_idle_timeout at one second neither side breaks the link.
    """
    lab.two("lossy_client", "stateless_server", "client.1", ms_connection_idle_timeout=1.0)
    lab.connect("a", "b")
    opened_s = lab.history[-1].time_s
    for sent in range(1, 11):
        lab.send("a", "b")
        lab.wait(0.3)
        lab.expect_delivered("a", "b", sent)
    lab.require(not (_idle_faults(lab, "a") or _idle_faults(lab, "b")), "a link that carries messages is not idle")
    lab.require(lab.dials("a") == 1, "the link must have held")
    answers = [frame for frame in lab.records("a", "frame", direction="rx") if frame.time_s > opened_s + 0.1]
    lab.require(not answers, f"the server must not send anything: {answers}")
    lab.settle()
