"""Plays scenarios over RDMA in a machine with soft-RoCE; prints a line of JSON for each."""

import json
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from messenger.compat import override
from messenger.errors import LocalError
from messenger.transport.rdma.verbs import pyverbs
from toolkit.cluster.backends.base import Backend
from toolkit.cluster.zygote import Zygote
from toolkit.faults.tap import Breakpoint
from toolkit.lab.real.real_lab import RealLab
from toolkit.lab.ways import Way
from toolkit.network import rdma
from toolkit.network.state import LinkState, RandomLoss
from toolkit.scenarios.catalogue import find
from toolkit.scenarios.runner import play_in, run_scenario

_HELLO = Breakpoint("a", "HELLO")


@dataclass(frozen=True, slots=True)
class Play:
    """One case of a scenario, in one way, with or without lost packets."""

    scenario: str
    case: str = ""
    way: str = "v2-crc"
    loss_percent: float = 0.0

    @property
    def name(self) -> str:
        """A name that is unique and usable for a file."""
        words = f"{self.scenario}-{self.case}-{self.way}-{self.loss_percent:g}"
        return "".join(char if char.isalnum() or char in "-." else "_" for char in words)


class LossyLab(RealLab):
    """Nodes over RDMA whose devices' packets are lost at random."""

    def __init__(self, way: Way, loss_percent: float) -> None:
        super().__init__("rdma", way, seed=1)
        self.packets: dict[str, int] = {}
        """Number of packets that each device has sent, once the lab is closed."""
        self._state = LinkState(loss=RandomLoss(percent=loss_percent) if loss_percent else None)

    @override
    def _launch(self, *names: str) -> None:
        self._impair()
        super()._launch(*names)

    @override
    def close(self) -> None:
        self.packets = {device.name: _packets(device.name) for device in rdma.devices()}
        super().close()

    @override
    def heal(self) -> None:
        super().heal()
        self._impair()

    def _impair(self) -> None:
        if not self._state.is_clear:
            for a, b in permutations(self._specs, 2):
                self.network.set_link(a, b, self._state)


def _packets(device: str) -> int:
    return int(Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts").read_text("ascii"))


def outcome(play: Play, directory: Path) -> dict[str, object]:
    """Play it, and keep its history in the directory."""
    began_s = time.monotonic()
    scenario, way = find(play.scenario), Way.parse(play.way)
    case = next(each for each in scenario.cases_in(way, "rdma") if each.name == play.case)
    lab = LossyLab(way, play.loss_percent)
    try:
        history, _, failure = play_in(lab, scenario, case.params)
        history.save(directory / f"{play.name}.ndjson")
    except LocalError as error:
        failure = f"{type(error).__name__}: {error}"
    left = [device.name for device in rdma.devices()]
    took_s = round(time.monotonic() - began_s, 1)
    return {"name": play.name, "failure": failure, "left": left, "packets": lab.packets, "took_s": took_s}


def refused() -> dict[str, object]:
    """Return a lab's errors over RDMA for scenarios that need raw peers, or faults of frames."""
    said = {}
    with closing(LossyLab(Way.parse("v2-crc"), 0.0)) as lab:
        for name, act in (("raw", lambda: lab.raw("b")), ("cut", lambda: lab.cut_at("a", "b", _HELLO))):
            try:
                act()
            except LocalError as error:
                said[name] = f"{type(error).__name__}: {error}"
    return {"name": "refused"} | said


def main(directory: str, wanted: str) -> None:
    run_scenario(find("LC-01"), "sim")  # imports what nodes need before they are forked
    pyverbs()
    Backend.zygote = Zygote(has_payloads=False)
    for each in json.loads(wanted):
        print(json.dumps(outcome(Play(*each), Path(directory))), flush=True)  # noqa: T201
    print(json.dumps(refused()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
