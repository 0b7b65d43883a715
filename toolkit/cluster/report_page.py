"""The page of a cluster in the HTML report, also for a cluster whose supervisor has crashed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.live import check_so_far
from toolkit.checks.merge import in_order
from toolkit.checks.result import CheckResult
from toolkit.cluster.cluster import HISTORY_FILE
from toolkit.cluster.supervisor.client import NotKept, ask
from toolkit.machine.leases import Lease
from toolkit.report.html import ScenarioReport, Verdict, below


def cluster_report(lease: Lease, folder: Path, kept: Path | None = None) -> ScenarioReport:
    """Return the report of a cluster's history so far, with the verdicts of the invariants.

    Args:
        lease: lease of the cluster.
        folder: directory of the report, to which its links are relative.
        kept: directory that the cluster's files will be kept in; its own one unless given.
    """
    status = _asked(lease, "status")
    history = History(in_order(_written(lease.directory / HISTORY_FILE)))
    checks = check_so_far(history)
    if (stood := _asked(lease, "check")) is not None:
        checks = [_standing(check, stood) for check in checks]
    directory = kept or lease.directory
    files = sorted(path.name for path in lease.directory.iterdir() if path.name.endswith((".ndjson", ".pcapng")))
    nodes = {} if status is None else status["nodes"]
    facts = {name: f"{node['kind']}, {node['state']}, {node['address']}" for name, node in nodes.items()}
    return ScenarioReport(
        title=f"Cluster {lease.label.name}",
        id=lease.label.name,
        description="" if status is None else status["about"],
        backend="" if status is None else status["backend"],
        mode="",
        seed=None,
        verdict=Verdict.of(checks),
        duration_s=history.duration_s,
        checks=checks,
        history=history,
        replay_command="",
        artefacts={name: below(directory / name, folder) for name in files},
        reason="" if status is not None else "the cluster has no supervisor: this is what it left behind",
        lifelines=tuple(nodes),
        facts=facts,
    )


def _asked(lease: Lease, what: str) -> Any:  # noqa: ANN401 - as JSON
    """Return the supervisor's answer; None if there is no supervisor."""
    try:
        return ask(lease, what)
    except NotKept:
        return None


def _written(path: Path) -> History:
    """Read the records of a history file that may still grow; an incomplete last line is skipped."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return History()
    except (OSError, UnicodeDecodeError) as error:
        raise LocalError(f"{path}: {error}") from None
    return History.parse(text[: text.rfind("\n") + 1], str(path))


def _standing(check: CheckResult, stood: list[dict[str, Any]]) -> CheckResult:
    """Return the result without violations that the supervisor's check lacks: later records excuse them."""
    texts = {
        violation["text"] for result in stood if result["id"] == check.id for violation in result["violations"]
    }
    violations = [violation for violation in check.violations if violation.text in texts]
    return replace(check, ok=not violations, violations=violations)
