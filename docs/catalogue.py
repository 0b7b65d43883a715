"""Writes docs/catalogue.md, every scenario with what it shows, from toolkit/scenarios.

Run ``python docs/catalogue.py`` after a scenario has changed.
"""

from pathlib import Path

from toolkit.scenarios.catalogue import families
from toolkit.scenarios.scenario import Scenario

HEAD = """# The catalogue of scenarios

Written by `python docs/catalogue.py`. A scenario is a failure, or another situation, that a messenger must
survive, together with what must hold afterwards. This page lists all of them, by family. After each run the
[invariants](checks.md) are checked as well.

| command | what it runs |
|---|---|
| `msgrlab run ID` | one scenario |
| `msgrlab run 'ID[CASE]'` | one case of it |
| `msgrlab run FAMILY` | all scenarios of a family |
| `msgrlab run all --every-way --jobs 2` | everything, in every way |

A scenario runs in every protocol, mode and cipher that it applies to, and on shards. Its first line names the
protocols and the backends: *sim* is virtual time, *local* uses real sockets, *netns* network namespaces, *docker*
containers, *rdma* [soft-RoCE devices](rdma.md#scenarios). What runs on *netns* or *rdma* also runs on
[`vm`](vm.md#scenarios), and what runs on *local* on *rdma*, unless it has a raw peer or faults of frames. To write
one, see [scenarios of your own](scenarios.md).
"""


def entry(scenario: Scenario) -> str:
    """A scenario's paragraph."""
    cases = f", {len(scenario.cases)} cases" if len(scenario.cases) > 1 else ""
    protocols = " and ".join(sorted({way.protocol.value for way in scenario.ways}))
    where = " and ".join(scenario.backends)
    return (
        f"\n**{scenario.id}** `{scenario.name}` · {protocols} · {where}{cases}  \n"
        f"**{scenario.title}.** {scenario.description}\n"
    )


def page() -> str:
    """The whole page."""
    blocks = [HEAD]
    for family in families().values():
        if family.scenarios:
            blocks.append(f"\n## {family.id}: {family.title}\n")
            blocks += [entry(scenario) for scenario in family.scenarios]
    return "".join(blocks).replace("``", "`")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
