"""SE: nonces that are about to pass the end of their range."""

from dataclasses import replace
from random import Random
from struct import pack

from messenger.v2.wire import KeepAlive2, KeepAlive2Ack
from toolkit.lab.lab import Lab
from toolkit.lab.ways import SECURE_WAYS
from toolkit.node.raw.v2 import RawMessage
from toolkit.scenarios.secure_mode import SE
from toolkit.scenarios.secure_mode.secure_peers import REVISIONS

_FRAMES = 6
_SECRET_BYTES = 64


class _Secret(Random):
    """A source from which a connection secret has chosen nonces; its key and all other bytes are random.

    Args:
        fixed: first part of both nonces, u32; the second direction's is one less.
        counter: second part of both nonces, u64.
    """

    def __init__(self, fixed: int, counter: int) -> None:
        super().__init__(1)
        self._nonces = pack("<IQ", fixed, counter), pack("<IQ", fixed - 1, counter)

    def randbytes(self, n: int) -> bytes:
        """Return ``n`` bytes."""
        drawn = super().randbytes(n)
        return drawn if n != _SECRET_BYTES else b"".join((drawn[:16], *self._nonces, drawn[40:]))


@SE.scenario("SE-17", "nonce_passes_its_end", priority=2, ways=SECURE_WAYS, cases=REVISIONS)
def nonce_passes_its_end(lab: Lab, features: int) -> None:
    """A nonce counter that passes its largest value goes on at 0, and the link stays open.

    An acceptor gives a connection secret whose nonces begin two before the end: at 2^64 - 2 in the counter that
    msgr 2.1 advances, at 2^32 - 2 in the fixed part that msgr 2.0 does. Both sides send more frames than that in
    each direction. Every one opens with the next nonce, without a carry into the other part, and nothing breaks.
    """
    b = lab.raw("b")
    lab.node("a", "osd.1", "lossless_peer", msgr2_features=features)
    lab.start()
    lab.dial("a", "b")
    link = b.accept("a", features=features)
    end = (7, (1 << 64) - 2) if features else ((1 << 32) - 2, (1 << 64) - 1)
    link.me = replace(link.me, rng=_Secret(*end))
    link.handshake()
    for number in range(1, _FRAMES + 1):
        link.send(KeepAlive2(number, 7))
        lab.require(link.expect(KeepAlive2Ack) == KeepAlive2Ack(number, 7), f"stamp {number} does not come back")
        link.write(link.message(number, front=b"front", data=b"data"))
        lab.expect_delivered("b", "a", number)
        lab.send("a", "b")
        lab.require(link.skip_to(RawMessage).seq == number, f"message {number} is due")
    lab.require(lab.faults("a") == [], f"links broke: {lab.faults('a')}")
    link.hang_up()
    lab.wait_until(lambda: bool(lab.records("a", "usage")), "the record of the nonces that were used")
    usage = lab.records("a", "usage")[0]
    for way in "rx", "tx":
        lab.require(usage[f"{way}_nonces"] > 2 * _FRAMES, f"{usage[f'{way}_nonces']} nonces were used ({way})")
