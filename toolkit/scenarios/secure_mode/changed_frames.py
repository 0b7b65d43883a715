"""SE: frames changed in transit: every change breaks the link, and nothing of the frame is delivered."""

from toolkit.dissect.regions import regions_of
from toolkit.faults.mangle import Change, Drop, Duplicate, Flip, Insert, Mangle, Reflect, Replay, Swap, Truncate
from toolkit.lab.lab import Lab
from toolkit.lab.ways import CRC_WAYS, SECURE_WAYS
from toolkit.scenarios.secure_mode import SE
from toolkit.scenarios.secure_mode.secure_peers import REVISIONS, breaks, peers, send_parts


def _reasons(features: int) -> tuple[str, ...]:
    """The possible faults; with msgr 2.0 the preamble is used before its tag, so its crc may fail first."""
    return ("AUTH_TAG",) if features else ("AUTH_TAG", "PREAMBLE_CRC", "FRAME", "OVERSIZE")


@SE.scenario("SE-01", "bit_flip_every_byte", ways=SECURE_WAYS, cases=REVISIONS, quick=False)
def bit_flip_every_byte(lab: Lab, features: int) -> None:
    """A bit that flips anywhere in a sealed frame breaks the link.

    One bit is flipped on the way in each byte of a message in turn: preamble, inline part, segments, padding,
    epilogue and tags. The tag of that part does not match, the receiver delivers nothing of the frame, and gets
    the message once after the reconnect.
    """
    peers(lab, features)
    send_parts(lab)
    lab.expect_delivered("a", "b", 1)
    size_bytes = lab.messages("a")[-1]["length"]
    chosen = range(0, size_bytes, 23 if lab.real_time else 1)
    for number, byte in enumerate(chosen):
        mangle = lab.mangle("a", "b", Mangle("a", "MESSAGE", change=Flip(byte, 1 << byte % 8)))
        send_parts(lab)
        breaks(lab, mangle, "b", *_reasons(features), since=number)
        lab.expect_delivered("a", "b", 2 + number)
    lab.settle()
    lab.require(len(lab.faults("b")) == len(chosen), "one fault per flipped byte")


@SE.scenario("SE-02", "truncate_extend", ways=SECURE_WAYS, cases=REVISIONS)
def truncate_extend(lab: Lab, features: int) -> None:
    """A sealed frame that is cut short or extended is never delivered.

    At each border between the parts of a message the rest is left out, or one byte is inserted. The receiver reads
    the bytes that follow on the link in place of the missing ones, and the tag does not match. Each message is
    delivered once after the reconnect.
    """
    peers(lab, features)
    probe = lab.mangle("a", "b", Mangle("a", "MESSAGE", change=Flip(-1)))
    send_parts(lab)
    breaks(lab, probe)
    lab.expect_delivered("a", "b", 1)
    assert probe.hit is not None
    borders = sorted({part.start for parts in regions_of(probe.hit).values() for part in parts})
    changes: list[Change] = [Truncate(border) for border in (*borders, len(probe.hit.raw) - 1)]
    changes += [Insert(b"\x5a", border) for border in (*borders, len(probe.hit.raw))]
    for number, change in enumerate(changes, 1):
        # Two messages: the receiver reads the second in place of the missing rest of the first.
        mangle = lab.mangle("a", "b", Mangle("a", "MESSAGE", change=change))
        send_parts(lab, 2)
        lab.expect_mangled(mangle)
        send_parts(lab, 10)
        lab.expect_broken("b", number + 1)
        reason = lab.faults("b")[-1]
        lab.require(reason in _reasons(features), f"{mangle} {change} broke the link by {reason}")
        lab.expect_delivered("a", "b", 1 + 12 * number)
    lab.settle()
    lab.expect_no_event("b", "a", "reset")


@SE.scenario(
    "SE-03",
    "replay_frame",
    ways=SECURE_WAYS,
    cases={
        f"{tag} {name}": {"tag": tag, **case}
        for name, case in REVISIONS.items()
        for tag in ("MESSAGE", "KEEPALIVE2")
    },
)
def replay_frame(lab: Lab, tag: str, features: int) -> None:
    """A repeated sealed frame breaks the link.

    A frame is repeated right behind itself, or after others have passed. Its nonce was used already: the tag does
    not match, and nothing is delivered twice.
    """
    peers(lab, features)
    for number, change in enumerate((Duplicate(), Replay(tag))):
        lab.exchange(count=1)  # a link is open
        mangle = lab.mangle("a", "b", Mangle("a", tag, nth=1 + 2 * number, change=change))
        for _ in range(1 + 2 * number):
            if tag == "MESSAGE":
                send_parts(lab)
            else:
                lab.keepalive("a", "b")
            lab.wait(0.05)
        lab.expect_mangled(mangle)
        lab.expect_broken("b", number + 1)
        lab.require(lab.faults("b")[-1] in _reasons(features), f"{mangle}: {lab.faults('b')}")
    send_parts(lab)
    lab.expect_delivered("a", "b", 7 if tag == "MESSAGE" else 3)
    lab.settle()


@SE.scenario("SE-04", "swap_frames", ways=SECURE_WAYS, cases=REVISIONS)
def swap_frames(lab: Lab, features: int) -> None:
    """Two swapped sealed frames break the link.

    The second and the third of five messages are swapped. The third, which arrives first, does not match the nonce
    of the second; all five are delivered in order after the reconnect.
    """
    peers(lab, features)
    mangle = lab.mangle("a", "b", Mangle("a", "MESSAGE", nth=2, change=Swap()))
    send_parts(lab, 5)
    lab.expect_mangled(mangle)
    lab.expect_broken("b", 1)
    lab.require(lab.faults("b")[0] in _reasons(features), f"{lab.faults('b')}")
    lab.expect_delivered("a", "b", 5)
    lab.settle()


@SE.scenario("SE-05", "drop_frame", ways=SECURE_WAYS, cases=REVISIONS)
def drop_frame(lab: Lab, features: int) -> None:
    """A sealed frame that is missing is noticed at the next one.

    The second of five messages is removed from the stream: the third breaks the link. Then the last message of a
    burst is removed, which only shows when the keepalive behind it breaks the link. Every message is delivered
    once.
    """
    peers(lab, features)
    mangle = lab.mangle("a", "b", Mangle("a", "MESSAGE", nth=2, change=Drop()))
    send_parts(lab, 5)
    lab.expect_mangled(mangle)
    lab.expect_broken("b", 1)
    lab.expect_delivered("a", "b", 5)
    lab.expect_acked("a")
    last = lab.mangle("a", "b", Mangle("a", "MESSAGE", change=Drop()))
    send_parts(lab)
    lab.expect_mangled(last)
    lab.wait(0.3)
    lab.require(len(lab.faults("b")) == 1, "nobody can miss the last frame")
    lab.require(lab.delivered("a", "b") == 5, "what was swallowed is not delivered")
    lab.keepalive("a", "b")
    lab.expect_broken("b", 2)
    lab.require(all(reason in _reasons(features) for reason in lab.faults("b")), f"{lab.faults('b')}")
    lab.expect_delivered("a", "b", 6)
    lab.settle()


@SE.scenario("SE-06", "reflect", ways=SECURE_WAYS, cases=REVISIONS)
def reflect(lab: Lab, features: int) -> None:
    """A sealed frame sent back to its sender breaks the sender's link.

    Both directions use one key but different nonces. A frame that ``a`` wrote comes back to ``a`` as if ``b`` had
    written it: its tag does not match, whether ``b`` received the frame as well or not.
    """
    peers(lab, features)
    for number, change in enumerate((Reflect(both=True), Reflect())):
        mangle = lab.mangle("a", "b", Mangle("a", "MESSAGE", change=change))
        send_parts(lab)
        breaks(lab, mangle, "a", *_reasons(features), since=number)
        lab.expect_delivered("a", "b", 1 + number)
        lab.expect_acked("a")
    lab.require(lab.delivered("b", "a") == 0, "a got a message of its own")
    lab.settle()


@SE.scenario("SE-07", "cross_session", ways=SECURE_WAYS, cases=REVISIONS)
def cross_session(lab: Lab, features: int) -> None:
    """A sealed frame of an earlier link does not fit the next one.

    A message is recorded and the link is cut; on the next link the recorded frame is inserted behind the first
    message, or replaces one. Every link has a key of its own: the frame breaks the link and is not delivered.
    """
    peers(lab, features)
    for number, instead in enumerate((False, True)):
        mangle = lab.mangle("a", "b", Mangle("a", "KEEPALIVE2", change=Replay("MESSAGE", instead=instead)))
        send_parts(lab)
        lab.expect_delivered("a", "b", 2 * number + 1)
        lab.expect_acked("a")
        before = len(lab.faults("b"))
        lab.cut("a", "b")
        lab.expect_broken("b", before + 1)
        send_parts(lab)
        lab.expect_delivered("a", "b", 2 * number + 2)
        lab.keepalive("a", "b")
        breaks(lab, mangle, "b", *_reasons(features), since=before + 1)
        lab.expect_acked("a")
    lab.settle()
    lab.require(lab.delivered("a", "b") == 4, "four messages were sent, and four delivered")


_NIBBLE_COMPLETE, _NIBBLE_ABORTED = 0xE, 0x1


@SE.scenario(
    "SE-12",
    "late_status_codewords",
    ways=CRC_WAYS,
    cases={"low nibble": {"shift": 0}, "high nibble": {"shift": 4}, "msgr 2.0": {"shift": None}},
)
def late_status_codewords(lab: Lab, shift: int | None) -> None:
    """Flipped bits of the late status never turn a whole message into an aborted one.

    In crc mode nothing covers the late status of a frame. With msgr 2.1 its low nibble is 0xe for complete and 0x1
    for aborted, which differ in four bits: with one to three bits flipped it is neither, and the link breaks. The
    high nibble is reserved and ignored. All messages are delivered. With msgr 2.0 a single bit stands for aborted:
    a keepalive in which it flips gets no answer, and the link goes on; the protocol cannot detect that.
    """
    if shift is None:
        _one_bit_aborts(lab)
        return
    peers(lab)
    delivered = faults = 0
    for mask in range(1, 15):
        if _NIBBLE_COMPLETE ^ mask == _NIBBLE_ABORTED and not shift:
            continue
        lab.mangle("a", "b", Mangle("a", "MESSAGE", change=Flip(0, mask << shift, "epilogue")))
        send_parts(lab)
        delivered += 1
        lab.expect_delivered("a", "b", delivered)
        faults += not shift
        lab.require(lab.faults("b") == ["FRAME"] * faults, f"0x{mask << shift:02x}: {lab.faults('b')}")
    lab.settle()


def _one_bit_aborts(lab: Lab) -> None:
    peers(lab, features=0)
    lab.mangle("a", "b", Mangle("a", "KEEPALIVE2", change=Flip(0, 1, "epilogue")))
    lab.keepalive("a", "b")
    lab.wait(0.3)
    lab.require(not lab.frames("b", "KEEPALIVE2", "rx"), "an aborted frame was handed on")
    for bit in range(1, 8):
        lab.mangle("a", "b", Mangle("a", "KEEPALIVE2", change=Flip(0, 1 << bit, "epilogue")))
        lab.keepalive("a", "b")
        lab.wait(0.3)
    lab.require(len(lab.frames("a", "KEEPALIVE2_ACK", "rx")) == 7, "the other seven were answered")
    lab.require(lab.faults("b") == [], "and the link held")
    lab.exchange()
    lab.settle()


_HANDSHAKE = {
    "server signature": ("b", "AUTH_SIGNATURE"),
    "client signature": ("a", "AUTH_SIGNATURE"),
    "compression request": ("a", "COMPRESSION_REQUEST"),
    "compression done": ("b", "COMPRESSION_DONE"),
    "client ident": ("a", "CLIENT_IDENT"),
    "server ident": ("b", "SERVER_IDENT"),
    "reconnect": ("a", "SESSION_RECONNECT"),
    "reconnect ok": ("b", "SESSION_RECONNECT_OK"),
    "keepalive": ("a", "KEEPALIVE2"),
    "keepalive ack": ("b", "KEEPALIVE2_ACK"),
    "ack": ("b", "ACK"),
    "message": ("a", "MESSAGE"),
}


@SE.scenario(
    "SE-14",
    "decrypt_error_faults",
    priority=2,
    ways=SECURE_WAYS,
    cases={name: {"sender": sender, "tag": tag} for name, (sender, tag) in _HANDSHAKE.items()},
)
def decrypt_error_faults(lab: Lab, sender: str, tag: str) -> None:
    """A frame that fails authentication breaks the link at once, in every state.

    One bit is flipped in a sealed frame, of each kind from the first AUTH_SIGNATURE on. The receiver breaks the
    link at once, not by a timeout, and the session goes on with another link.
    """
    lab.two()
    receiver = "b" if sender == "a" else "a"
    reconnecting = tag.startswith("SESSION_RECONNECT")
    if reconnecting:
        lab.connect("a", "b")
        lab.exchange(count=1)
        lab.expect_acked("a")
        lab.expect_acked("b")
        lab.cut("a", "b")
        lab.expect_state("a", "b", "STANDBY")
        lab.expect_state("b", "a", "STANDBY")
    before = len(lab.faults(receiver))
    mangle = lab.mangle("a", "b", Mangle(sender, tag, change=Flip(40)))
    lab.send("a", "b")
    if tag.startswith("KEEPALIVE2"):
        lab.expect_delivered("a", "b", 1)
        lab.expect_acked("a")
        lab.keepalive("a", "b")
    breaks(lab, mangle, receiver, since=before)
    lab.expect_delivered("a", "b", 2 if reconnecting else 1)
    lab.exchange()
    lab.settle()
