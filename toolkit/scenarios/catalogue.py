"""Every scenario there is."""

from messenger.errors import LocalError
from toolkit.scenarios import lossless
from toolkit.scenarios.scenario import Scenario

CATALOGUE: dict[str, Scenario] = {scenario.id: scenario for scenario in lossless.SCENARIOS}


def find(scenario_id: str) -> Scenario:
    """The scenario of that id.

    Raises:
        LocalError: there is none; the known ones are listed.
    """
    try:
        return CATALOGUE[scenario_id]
    except KeyError:
        raise LocalError(f"no scenario {scenario_id!r}; known: {', '.join(CATALOGUE)}") from None
