"""Write docs/conformance.md from results: ``python docs/conformance.py [NAME=FILE...]``, with PYTHONPATH=. set.

Each FILE is the output of ``msgrlab conformance --json`` for the target NAME; it replaces NAME's results in
docs/conformance.json. Without arguments the page is written again from that file.
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

`msgrlab conformance ADDR` tests whether a messenger follows [the protocol](protocol.md). A scripted peer dials
ADDR and runs cases frame by frame: it sends correct or incorrect frames, as the case defines, and checks the
answers. Use it to test a messenger of your own, or a daemon of Ceph.

    msgrlab conformance --list                          the cases; no target is needed
    msgrlab conformance 10.1.2.3                        a monitor, without a key: up to AUTH_BAD_METHOD
    msgrlab conformance 10.1.2.3 --keyring FILE         the same with sessions, as client.admin
    msgrlab conformance v2:10.1.2.3:6802 --mon 10.1.2.3 --keyring FILE --name osd.9 --destructive
    msgrlab conformance ADDR --key-log FILE --name osd.9      a node of `msgrlab up`, with its service keys
    msgrlab conformance ADDR --only v2/resume --only 'v2/seq/*'

`v2/resume`, `v2/takeover` and `v1/resume` need sessions that outlive their links, as between OSDs. They need the
key of an OSD and the address of an OSD's cluster messenger. The nonce of an OSD is looked up in the OSD map of
`--mon`. For a node it is part of ADDR (`v2:10.1.2.3:6801/1001`), and the cluster's directory has its service
keys (`service.keys`).

| verdict | meaning |
|---|---|
| pass | the outcome is one that the rule allows |
| as classic, as crimson, as kernel | another outcome, known for that implementation ([disputes](disputes.md)) |
| differs | any other outcome; the output has what was sent, expected and received, and a command to repeat it |
| skipped | the target or the credentials do not allow the case; the reason is printed |

The protocol requires the outcome of a *strict* case; it leaves that of a *tolerant* case open. *Destructive* cases
leave a session behind in the target, announce gigabytes, or have crashed a release of Ceph; they run at the end.
Exit codes: 0 nothing differs, 1 something differs, 2 bad input, 3 the target cannot be reached. `--junit` and
`--html` write reports. Races are not covered, because the target would have to dial, nor is the connector's side.

In Python, `toolkit.conformance.try_address("v2:10.1.2.3:3300", ["v2/ack"], keyring=FILE)` runs cases and returns
`Results` (`table()`, `counts`, `differing`), and `toolkit.conformance.kept()` returns the table below as a
DataFrame: [the lesson](../notebooks/40-conformance.ipynb).

## Results

A cell has three numbers: passed / as another implementation / differs. A dash means skipped. The columns are
daemons of Ceph, except `node`, which is msgrlab's messenger; *cluster* is the messenger between OSDs.
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
    """Return the ids of the cases that passed, and verdict and outcome of the others that were run."""
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
    """Return the table of the cases that did not pass, with their targets."""
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
            "| case | level | action and required outcome | needs |",
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
