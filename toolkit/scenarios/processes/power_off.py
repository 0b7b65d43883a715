"""PK: a host that loses power, on backends with packets."""

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import Pair
from toolkit.scenarios.processes import PK
from toolkit.scenarios.scenario import ON_NETWORKS
from toolkit.scenarios.shared.packets import LOSSLESS, PACKETS


@PK.scenario("PK-07", "power_off", priority=3, backends=ON_NETWORKS, only=PACKETS, processes=True, cases=LOSSLESS)
def power_off(lab: Lab, pair: Pair) -> None:
    """A host that loses power sends neither FIN nor RST, and its peer times out.

    Nothing is acknowledged any more. The peer keeps its link until the idle timeout; the restarted host gets
    messages that are sent after that.
    """
    pair.start(lab, ms_connection_idle_timeout=3.0, ms_max_backoff=1.0)
    lab.connect("a", "b")
    lab.exchange(count=3)
    lab.partition("a", "b")
    lab.kill("b")
    lab.send("a", "b", 2)
    lab.wait(0.5)
    lab.require(lab.session_state("a", "b") == "READY", "a knows already")
    lab.wait_until(lambda: lab.session_state("a", "b") != "READY", "a finds out", within_s=30.0)
    lab.revive("b")
    lab.heal()
    lab.expect_state("a", "b", "READY", within_s=60.0)
    lab.expect_acked("a")
    before = lab.delivered("a", "b")
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", before + 3, within_s=60.0)
    lab.settle(within_s=60.0)
