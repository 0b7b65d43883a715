"""NF: a payload with a bit flipped on the way."""

from toolkit.faults.mangle import Flip, Mangle
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.scenarios.network_faults import NF


@NF.scenario(
    "NF-04",
    "corrupt_payload",
    priority=2,
    cases={"peers": {"pair": PAIRS["peers"]}, "client": {"pair": PAIRS["client"]}},
)
def corrupt_payload(lab: Lab, pair: Pair) -> None:
    """A flipped bit in a message breaks the link, and the replay delivers the message.

    A bit is flipped at several places of the messages' payloads, as an attacker can do without TCP noticing: the
    crc, or in secure mode the tag, does not match. No changed message is delivered, and every message arrives by
    the next link.
    """
    pair.start(lab)
    lab.connect("a", "b")
    lab.exchange(count=1)
    tag = "MSG" if lab.is_v1 else "MESSAGE"
    for number, back in enumerate((-40, -48, -56, -64)):
        mangle = lab.mangle("a", "b", Mangle("a", tag, 2, change=Flip(back, 1 << number)))
        lab.send("a", "b", 3, size_bytes=1000)
        lab.expect_mangled(mangle)
        lab.expect_fault_count("b", number + 1)
        reason = lab.faults("b")[number]
        lab.require(reason in {"SEGMENT_CRC", "AUTH_TAG", "COMPRESSION"}, f"why the link broke: {reason}")
        lab.expect_delivered("a", "b", 1 + 3 * (number + 1))
    lab.settle()
    tids = lab.tids("b")
    lab.require(tids == sorted(set(tids)), f"delivered were {tids}")
