"""Writes docs/catalogue.md, every scenario with its title and description, from toolkit/scenarios.

Run ``python docs/catalogue.py`` after a scenario has changed.
"""

from pathlib import Path

from toolkit.scenarios.catalogue import families
from toolkit.scenarios.scenario import Scenario

HEAD = """# The catalogue

Written by `python docs/catalogue.py`. Every failure that a messenger must survive, as a scenario: `msgrlab run ID`
runs one, `msgrlab run FAMILY` a family, `msgrlab run all --every-way --jobs 2` all of them, and `ID[CASE]` one
case. A scenario runs in every protocol, mode and cipher that it applies to, and on shards. Its backends are *sim*
(virtual time), *local* (real sockets), *netns* (network namespaces) and *docker* (containers). Besides the
scenario's own assertions, the [invariants](checks.md) are checked on the history of each run.
"""


def entry(scenario: Scenario) -> str:
    """Return the paragraph of a scenario."""
    cases = f", {len(scenario.cases)} cases" if len(scenario.cases) > 1 else ""
    protocols = " and ".join(sorted({way.protocol.value for way in scenario.ways}))
    where = " and ".join(scenario.backends)
    return (
        f"\n**{scenario.id}** `{scenario.name}` · {protocols} · {where}{cases}  \n"
        f"**{scenario.title}.** {scenario.description}\n"
    )


def page() -> str:
    """Return the whole page."""
    blocks = [HEAD]
    for family in families().values():
        if family.scenarios:
            blocks.append(f"\n## {family.id}: {family.title}\n")
            blocks += [entry(scenario) for scenario in family.scenarios]
    return "".join(blocks).replace("``", "`")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
