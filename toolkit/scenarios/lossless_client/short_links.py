"""LC: pauses of a client whose links are short, with a raw peer."""

from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR
from toolkit.scenarios.lossless_client import LC
from toolkit.scenarios.shared.by_hand import hang_up, opened
from toolkit.scenarios.shared.redial_delay import dial_after_fault_s

_SHORT_LINKS = 8
"""Number of links in a row that may break just after they opened before the next dial pauses."""


@LC.scenario("LC-11", "short_links_brake")
def short_links_brake(lab: Lab) -> None:
    """After eight links in a row that broke just after they opened, the next dial pauses, each time twice as long.

    A peer opens the session and hangs up at once, again and again, as happens where two processes share an address
    or a message breaks each link that it is replayed on. The node dials again at once eight times, then after
    ms_initial_backoff, twice that, and so on. After a link that stays open for longer than ms_initial_backoff, the
    next dial comes at once again.
    """
    pause_s = 1.0 if lab.real_time else 0.3
    at_once_s = 0.5 * pause_s
    peer, link = opened(lab, CONNECTOR, ms_initial_backoff=pause_s, ms_max_backoff=15.0)
    for broken in range(1, _SHORT_LINKS + 3):
        hang_up(lab, link)
        link, after_s = dial_after_fault_s(lab, peer, 4 * pause_s + 5.0)
        due_s = pause_s * 2 ** (broken - _SHORT_LINKS - 1)
        on_time = due_s - 0.001 <= after_s < 1.5 * due_s if broken > _SHORT_LINKS else after_s < at_once_s
        lab.require(on_time, f"behind {broken} short links the dial came after {after_s} s")
        link.handshake()
        lab.expect_state("a", "b", "READY")
    lab.wait(1.2 * pause_s)
    hang_up(lab, link)
    _, after_s = dial_after_fault_s(lab, peer, 2 * pause_s + 5.0)
    lab.require(after_s < at_once_s, f"behind a link that stayed open the dial came after {after_s} s")
