"""Write docs/matrix.md from results: ``python docs/matrix.py [FILE...]``, with PYTHONPATH=. set.

Each FILE is what ``msgrlab matrix --json`` has printed; the cells that it has run replace their results in
docs/matrix.json. Without arguments the page is written anew from that file.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from toolkit.matrix.table import ABOUT, Case, Cell, Role, Verdict, cells, reason_of

HERE = Path(__file__).parent
RESULTS = HERE / "matrix.json"
PAGE = HERE / "matrix.md"
_RAN = (Verdict.SUCCEEDED, Verdict.FAILED)
_INTRODUCTION = """# Releases of Ceph

`msgrlab matrix` tries every release of Ceph against our messenger. A cell is RELEASE/WIRE/AUTH/ROLE/CASE; each
release's programs are unmodified, out of [its image](docker.md), and cells that differ in role and case only
share a cluster, in network namespaces.

    msgrlab matrix --list                                  the cells, with reasons for those that cannot be run
    msgrlab matrix --only reef/v2-secure                   a part of an id stands for all below it
    msgrlab matrix --only '*/v1/aes/server/re*' --out DIR  keep what each cell leaves
    msgrlab matrix --release host --only '*/handshake'     what is installed on this machine instead of images

| role | their side | our side |
|---|---|---|
| server | a monitor and an OSD | [a RADOS client](rados.md), a lossy session |
| client | `rados` and `ceph` | [an embedded monitor and OSD](embedded.md) |
| peer | the cluster messenger of an OSD | a messenger that is osd.9, a lossless session |

A cell has *succeeded* if its evidence is there, not because a program ended with 0: its links, decoded from a
capture with the keys of the cluster, have the protocol, mode and compression that the cell names, and every
frame of them can be read; our side has authenticated as the cell says; what the case is about is in the capture
(SESSION_RECONNECT, a seq on two links, repeated segments); what was acknowledged is read back; and the
[invariants](checks.md) hold for our side's history. *Unsupported* and *not applicable* have a reason and whose
it is: Ceph's, the protocol's or this machine's. *Not run* is what the run did not come to, or had no
cluster for. Without authentication, monitors of Ceph refuse some v1 sessions of Ceph's own programs with EPERM,
so that an OSD does not come up or `ceph` cannot ask; the command tries that a few times. In `rekey` their client
has `mon_client_ping_interval = 1`: by default it looks at its tickets every 10 seconds only.

With `--out DIR` each cell has a folder with `capture.pcapng`, `ceph.keyring`, `history.ndjson` of our side,
logs of both sides for the time of the cell, and `outcome.txt` with what was seen and the command that repeats
it. Exit codes: 0, 1 if a cell failed or had no cluster, 2 bad input, 130 interrupted; what was run by then is
reported. `--json`, `--junit` and `--html` write reports.

`msgrlab matrix --dask ADDRESS` shares the setups among [several machines](simulation.md#on-several-machines), each
of which needs what one machine needs: root, the images, the same source. `--dask local` has a worker for each core
of this machine. Progress is shown cell by cell; when all cells of a setup have run, their files come into DIR. The
setup of a lost worker begins again on another one; a setup that has lost several workers is *not run*, and the
others go on. Reports name the machine of each cell. After Ctrl-C workers finish their setup and take
its cluster down, but no longer send what it left.

From Python, `toolkit.matrix.results.kept()` is the table below as a DataFrame, `toolkit.matrix.runner.Run` runs
cells that `toolkit.matrix.table.select` has chosen, and `toolkit.matrix.evidence.Wire` judges a capture:
[the lesson](../notebooks/41-matrix.ipynb).

Network namespaces, images of releases and captures take root. What a machine lacks is a reason of its cells.
"""


def main(arguments: Sequence[str]) -> None:
    """Take over new results and write the page."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for argument in arguments:
        for row in json.loads(Path(argument).read_text())["results"]:
            if row["verdict"] in _RAN:
                results[row["id"]] = {name: row[name] for name in ("verdict", "reason", "evidence")}
    known = [cell.id for cell in cells() if cell.id in results]
    rows = [f"{json.dumps(id_)}: {json.dumps(results[id_])}" for id_ in known]
    RESULTS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    PAGE.write_text(page({id_: results[id_] for id_ in known}))


def page(results: dict[str, Any]) -> str:
    """The text of the page."""
    parts = [_INTRODUCTION, _cases(), _counts(results)]
    parts += [_role(results, role) for role in Role]
    return "\n".join([*parts, _failures(results)])


def _cases() -> str:
    lines = ["## Cases", "", "| case | what is tried |", "|---|---|"]
    return "\n".join([*lines, *(f"| {case} | {text} |" for case, text in ABOUT.items())]) + "\n"


def _verdict(results: dict[str, Any], cell: Cell) -> Verdict:
    if (reason := reason_of(cell)) is not None:
        return reason.verdict
    return Verdict(results[cell.id]["verdict"]) if cell.id in results else Verdict.NOT_RUN


def _counts(results: dict[str, Any]) -> str:
    counts = Counter(_verdict(results, cell) for cell in cells())
    shown = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    text = f"Of {counts.total()} cells: {shown}. Releases: 14.2.21, 16.2.15, 18.2.7 and 20.2.4, of Debian."
    return f"## Results\n\n{text}\n"


def _role(results: dict[str, Any], role: Role) -> str:
    """A row for each setup in which something can be run; the others with their reasons below."""
    lines = [f"### {role.name.capitalize()}", "", f"| | {' | '.join(Case)} |", "|---|" + "---|" * len(Case)]
    idle: dict[str, list[str]] = {}
    for setup, group in groupby((cell for cell in cells() if cell.role is role), key=lambda cell: cell.setup):
        ours = list(group)
        name = " ".join(setup[:3])
        reasons = [reason_of(cell) for cell in ours]
        shared = reasons[0]
        if shared is not None and shared.verdict is Verdict.UNSUPPORTED and all(reasons):
            idle.setdefault(str(shared), []).append(name)
        else:
            lines.append(f"| {name} | {' | '.join(_shown(_verdict(results, cell)) for cell in ours)} |")
    lines += ["", "ok: succeeded; n/a: not applicable; a dot: not run.", ""]
    lines += [f"* Unsupported ({reason}): {', '.join(names)}." for reason, names in idle.items()]
    return "\n".join([*lines, *_single_reasons(role)]) + "\n"


def _single_reasons(role: Role) -> list[str]:
    """Reasons of single cases, each once."""
    found: dict[tuple[str, str], list[str]] = {}
    for case in Case:
        reason = reason_of(Cell("reef", "v2-crc", "aes", role, case))
        if reason is not None:
            found.setdefault((reason.verdict, str(reason)), []).append(case)
    return [f"* {', '.join(names)}: {verdict} ({reason})." for (verdict, reason), names in found.items()]


def _shown(verdict: Verdict) -> str:
    short = {
        Verdict.SUCCEEDED: "ok",
        Verdict.FAILED: "**failed**",
        Verdict.NOT_APPLICABLE: "n/a",
        Verdict.NOT_RUN: "·",
    }
    return short.get(verdict, verdict)


def _failures(results: dict[str, Any]) -> str:
    failed = [(id_, row) for id_, row in results.items() if row["verdict"] == Verdict.FAILED]
    lines = ["## What failed", ""]
    if not failed:
        return "\n".join([*lines, "Nothing."]) + "\n"
    lines += ["| cell | reason |", "|---|---|"]
    return "\n".join([*lines, *(f"| {id_} | {_one_line(row['reason'])} |" for id_, row in failed)]) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]


if __name__ == "__main__":
    main(sys.argv[1:])
