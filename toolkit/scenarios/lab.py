"""The vocabulary of scenarios: nodes, links between them, faults, and what is expected to happen."""

from toolkit.scenarios.lab_core import PATIENCE_S, NotIntercepted, ScenarioFailed
from toolkit.scenarios.verbs.auth import AuthVerbs
from toolkit.scenarios.verbs.faults import FaultVerbs
from toolkit.scenarios.verbs.life import LifeVerbs
from toolkit.scenarios.verbs.raw import RawVerbs

__all__ = ["PATIENCE_S", "Lab", "NotIntercepted", "ScenarioFailed"]


class Lab(AuthVerbs, RawVerbs, FaultVerbs, LifeVerbs):
    """Nodes and links of one run, and what a scenario can do with them; a backend makes it real."""

    def finish(self) -> None:
        """The scenario is over: take what the nodes still have to tell, and compare it with their histories."""
        for name in self._specs:
            if self._running(name):
                self._collect_visits(name)
                self.expect_calls(name)
