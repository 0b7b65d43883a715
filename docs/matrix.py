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
_INTRODUCTION = """# Matrix: msgrlab with every release of Ceph

`msgrlab matrix` tests the messenger with the unmodified programs of four releases of Ceph, in every protocol,
mode and role. Look here to see whether a release and a mode work together, or run a cell to reproduce it. A cell
is RELEASE/WIRE/AUTH/ROLE/CASE. The programs come from [the image](docker.md) of their release. Cells that differ
only in role and case share a cluster, in network namespaces.

    msgrlab matrix --list                                  the cells, with reasons for those that cannot be run
    msgrlab matrix --only reef/v2-secure                   a part of an id selects all cells below it
    msgrlab matrix --only '*/v1/aes/server/re*' --out DIR  keep the files of each cell
    msgrlab matrix --release host --only '*/handshake'     the programs of this machine instead of images

| role | Ceph's side | msgrlab's side |
|---|---|---|
| server | a monitor and an OSD | [a RADOS client](rados.md), a lossy session |
| client | `rados` and `ceph` | [an embedded monitor and OSD](embedded.md) |
| peer | the cluster messenger of an OSD | a messenger that is osd.9, a lossless session |

| verdict | meaning |
|---|---|
| succeeded | the evidence below was found |
| failed | it was not found |
| unsupported, not applicable | not possible, because of Ceph, the protocol or this machine |
| not run | the run ended before the cell, or had no cluster for it |

A program that exits with 0 is not enough. A cell has *succeeded* only if all of this holds:

* its links, decoded from a capture with the keys of the cluster, have the protocol, mode and compression that the
  cell names, and every frame can be read;
* msgrlab's side has authenticated in the way that the cell names;
* the subject of the case is in the capture (SESSION_RECONNECT, a seq on two links, repeated segments);
* every acknowledged write can be read back;
* the [invariants](checks.md) hold for the history of msgrlab's side.

Without authentication, monitors of Ceph sometimes refuse v1 sessions of Ceph's own programs with EPERM, so an OSD
does not come up or `ceph` gets no answer. The command therefore tries this a few times.
In `rekey` the client has `mon_client_ping_interval = 1`, because by default it checks its tickets every 10 s.

With `--out DIR` each cell has a folder with `capture.pcapng`, `ceph.keyring`, the `history.ndjson` of msgrlab's
side, the logs of both sides for the time of the cell, and `outcome.txt` with what was seen and the command that
repeats it. `--json`, `--junit` and `--html` write reports. Exit codes: 0; 1 if a cell failed or had no cluster;
2 for bad input; 130 if interrupted, with a report of the cells that were run until then.

Network namespaces, images of releases and captures need root. What a machine lacks is given as the reason of its
cells.

## On several machines

`msgrlab matrix --dask ADDRESS` distributes the setups over [several
machines](simulation.md#on-several-machines). Each of them needs root, the images and the same source. `--dask
local` has a worker for each core of this machine. Progress is shown cell by cell. When all cells of a setup have
run, their files are copied to DIR. If a worker is lost, its setup starts again on another one. A setup that has
lost several workers is *not run*, and the others continue. Reports name the machine of each cell. After Ctrl-C
workers finish their setup and take its cluster down, but no longer send its files.

## From Python

`toolkit.matrix.results.kept()` returns the table below as a DataFrame, `toolkit.matrix.runner.Run` runs
the cells that `toolkit.matrix.table.select` selects, and `toolkit.matrix.evidence.Wire` checks a capture:
[the lesson](../notebooks/41-matrix.ipynb).
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
    lines = ["## Cases", "", "| case | what is tested |", "|---|---|"]
    return "\n".join([*lines, *(f"| {case} | {text} |" for case, text in ABOUT.items())]) + "\n"


def _verdict(results: dict[str, Any], cell: Cell) -> Verdict:
    if (reason := reason_of(cell)) is not None:
        return reason.verdict
    return Verdict(results[cell.id]["verdict"]) if cell.id in results else Verdict.NOT_RUN


def _counts(results: dict[str, Any]) -> str:
    counts = Counter(_verdict(results, cell) for cell in cells())
    shown = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    text = f"Of {counts.total()} cells: {shown}. Releases: 14.2.21, 16.2.15, 18.2.7 and 20.2.4, from Debian."
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
