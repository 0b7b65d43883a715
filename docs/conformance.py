"""Write docs/conformance.md from results: ``python docs/conformance.py [NAME=FILE...]``, with PYTHONPATH=. set.

Each FILE is the output of ``msgrlab conformance --json`` for the target NAME; it replaces the results of NAME in
docs/conformance.json. Without arguments only the page is written, from that file.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from toolkit.conformance.case import Case, all_cases

HERE = Path(__file__).parent
RESULTS = HERE / "conformance.json"
PAGE = HERE / "conformance.md"
_INTRODUCTION = """# Conformance

`msgrlab conformance ADDR` tests a messenger against [the protocol](protocol.md): a scripted peer connects to ADDR
and runs cases frame by frame. In each case it sends valid or invalid bytes and checks the reaction.

    msgrlab conformance --list                          list the cases; needs no target
    msgrlab conformance 10.1.2.3                        a monitor without a key: cases up to AUTH_BAD_METHOD
    msgrlab conformance 10.1.2.3 --keyring FILE         the same, and sessions, as client.admin
    msgrlab conformance v2:10.1.2.3:6802 --mon 10.1.2.3 --keyring FILE --name osd.9 --destructive
    msgrlab conformance ADDR --key-log FILE --name osd.9      with service keys: a node of `msgrlab up`
    msgrlab conformance ADDR --only v2/resume --only 'v2/seq/*'

Sessions between OSDs outlive their links, so `v2/resume`, `v2/takeover` and `v1/resume` need an OSD's key and the
address of an OSD's cluster messenger. The nonce of an OSD is looked up in the OSD map of `--mon`; for a node it is
part of ADDR (`v2:10.1.2.3:6801/1001`), and the cluster's directory has its service keys (`service.keys`).

| verdict | meaning |
|---|---|
| pass | the outcome is one that the rule allows |
| as classic, as crimson, as kernel | a deviation that is known of this implementation ([disputes](disputes.md)) |
| differs | none of these; the sequence, both outcomes and a command that repeats the case are printed |
| skipped | the target or the credentials rule the case out; the reason is printed |

The protocol requires the outcome of a *strict* case, and leaves that of a *tolerant* one open. *Destructive* cases
leave a session behind in the target, announce gigabytes, or have crashed a release of Ceph; the last kind runs at
the end. Exit codes: 0 all as expected, 1 a case differs, 2 bad input, 3 the target cannot be reached. `--junit`
and `--html` write reports. Not covered: connection races, which need a target that connects, and the connector.

From Python, `toolkit.conformance.try_address("v2:10.1.2.3:3300", ["v2/ack"], keyring=FILE)` runs cases and returns
`Results` (`table()`, `counts`, `differing`), and `toolkit.conformance.kept()` is the table below as a DataFrame:
[the lesson](../notebooks/40-conformance.ipynb).

## Results

Number of cases by target and area: passed / as another implementation / differs; a dash if all were skipped. The
columns are daemons of Ceph, except `node`, which is the messenger of this project; *cluster* is the messenger
between OSDs.
"""


def main(arguments: Sequence[str]) -> None:
    """Store new results and write the page."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for argument in arguments:
        name, _, path = argument.partition("=")
        results[name] = _condensed(json.loads(Path(path).read_text()))
    rows = [f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items()]
    RESULTS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    PAGE.write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """Return the text of the page."""
    cases = all_cases()
    return _INTRODUCTION + "\n" + _table(results, cases) + "\n" + _others(results, cases) + "\n" + _list(cases)


def _condensed(report: dict[str, Any]) -> dict[str, Any]:
    """Return the ids of the cases that passed, and verdict and outcome of the others."""
    rows = report["results"]
    return {
        "passed": [row["id"] for row in rows if row["verdict"] == "pass"],
        "others": {
            row["id"]: [row["verdict"], row["outcome"]]
            for row in rows
            if row["verdict"] not in ("pass", "skipped")
        },
    }


def _table(results: dict[str, Any], cases: Sequence[Case]) -> str:
    lines = [f"| area | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    areas = dict.fromkeys(case.area for case in cases)
    lines += [f"| {area} | {' | '.join(_cell(one, area) for one in results.values())} |" for area in areas]
    return "\n".join(lines) + "\n"


def _cell(result: dict[str, Any], area: str) -> str:
    passed = sum(_area(id_) == area for id_ in result["passed"])
    verdicts = Counter(verdict for id_, (verdict, _) in result["others"].items() if _area(id_) == area)
    differs = verdicts.pop("differs", 0)
    varied = sum(verdicts.values())
    return f"{passed} / {varied} / {differs}" if passed + varied + differs else "-"


def _area(id_: str) -> str:
    return id_.rpartition("/")[0]


def _others(results: dict[str, Any], cases: Sequence[Case]) -> str:
    """Which cases did not pass, and where."""
    lines = ["### Cases that did not pass", "", "| case | verdict | outcome | targets |", "|---|---|---|---|"]
    for case in cases:
        found: dict[tuple[str, str], list[str]] = {}
        for name, result in results.items():
            if case.id in result["others"]:
                verdict, outcome = result["others"][case.id]
                found.setdefault((verdict, outcome), []).append(name)
        for (verdict, outcome), names in found.items():
            lines.append(f"| {case.id}: {case.title} | {verdict} | {outcome} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def _list(cases: Sequence[Case]) -> str:
    lines = ["## Cases", ""]
    for area, group in groupby(cases, key=lambda case: case.area):
        lines += [
            f"### {area}",
            "",
            "| case | level | action: required reaction | needs |",
            "|---|---|---|---|",
        ]
        lines += [_row(case) for case in group]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(case: Case) -> str:
    needs = ", ".join([*sorted(case.needs), *(["--destructive"] if case.destructive else [])])
    link = f"[§{case.section}]({case.link.removeprefix('docs/')})"
    return f"| {case.id} | {case.level} | {case.title} ({link}) | {needs} |"


if __name__ == "__main__":
    main(sys.argv[1:])
