"""The verbs of scenarios: nodes, links between them, faults, and expectations."""

from toolkit.lab.core import NotIntercepted
from toolkit.lab.verbs.auth import AuthVerbs
from toolkit.lab.verbs.faults import FaultVerbs
from toolkit.lab.verbs.life import LifeVerbs
from toolkit.lab.verbs.raw import RawVerbs
from toolkit.lab.verbs.views import Views

__all__ = ["Lab", "NotIntercepted"]


class Lab(AuthVerbs, RawVerbs, FaultVerbs, LifeVerbs, Views):
    """Nodes and links of one run, with the verbs that a scenario calls; a subclass for each backend runs them."""

    def finish(self) -> None:
        """End the scenario: collect the nodes' last records and compare their counters with their histories."""
        for name in self._specs:
            if self._running(name):
                self._collect_visits(name)
                self.expect_calls(name)
