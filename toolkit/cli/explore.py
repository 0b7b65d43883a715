"""``msgrlab explore``: check every schedule of two nodes, a few messages and a few faults."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.report_files import Html, Junit, ReportFiles

if TYPE_CHECKING:
    from toolkit.exploration.replay import Replay
    from toolkit.exploration.scope import Scope
    from toolkit.exploration.search import Result, Violation
    from toolkit.report.html import ScenarioReport

CHECK_FAILED = 1
INTERRUPTED = 130
_MAX_STATES = 1_000_000


def explore(
    proto: Annotated[str, typer.Option(metavar="LIST", help="Protocol: v1 or v2, or both: v1,v2.")] = "v2",
    policy: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Policies, with commas: lossless_peer (both nodes connect), lossless_peer-one (one does), "
            "lossless_peer_reuse, lossless_client, lossy_client, lossy_peer, or all.",
        ),
    ] = "lossless_peer",
    messages: Annotated[
        str,
        typer.Option(
            metavar="N[+M]", help="Messages that each node sends (N), or the first and second node (N+M)."
        ),
    ] = "1",
    faults: Annotated[int, typer.Option(min=0, max=9, help="Maximum number of faults in a schedule.")] = 1,
    kinds: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Kinds of faults, separated by commas: break, refuse, half-open, crash, mark-down.",
        ),
    ] = "break,refuse",
    grain: Annotated[
        str, typer.Option(help="frame: every frame is a step; session: the frames of the handshake are one step.")
    ] = "session",
    overtakes: Annotated[
        int, typer.Option(min=0, max=9, help="How often a reconnect pause may end while frames are in flight.")
    ] = 1,
    max_states: Annotated[int, typer.Option(min=1, help="Stop after this number of states.")] = _MAX_STATES,
    violations: Annotated[int, typer.Option(min=1, help="Stop after this number of different violations.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Processes, each of which explores one scope.")] = 1,
    choices: Annotated[
        str | None,
        typer.Option("--replay", metavar="CHOICES", help="Run only this schedule, and print its steps."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write history and sequence chart of each violation to a new folder."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    html: Html = None,
    junit: Junit = None,
) -> int:
    """Explore every schedule of two nodes, a few messages and a few faults; exit 1 on a violation.

    A step is one event: a frame or the end of a stream arrives, a connection
    attempt arrives or is answered, the earliest timer fires, an application
    connects or sends, or a fault occurs. In every state safety is checked:
    messages are delivered exactly once and in order, no event or message comes
    unexpectedly, no exception is raised. From every state a fair schedule
    without further faults must deliver all messages and bring both nodes to
    rest. See docs/exploration.md.
    """
    files = ReportFiles(html, junit)
    scopes = _scopes(proto, policy, messages, faults, kinds, grain, overtakes)
    _check_out(out)
    if choices is not None:
        return _replay(scopes, choices, out, files, as_json=as_json)
    return _explore_all(scopes, max_states, violations, jobs, out, files, as_json=as_json)


def _check_out(out: Path | None) -> None:
    from messenger.errors import LocalError

    if out is not None and out.exists():
        raise LocalError(f"--out {out} exists already, and nothing is overwritten")


def _scopes(
    proto: str, policy: str, messages: str, faults: int, kinds: str, grain: str, overtakes: int
) -> "list[Scope]":
    from messenger.errors import LocalError
    from messenger.link import Protocol
    from toolkit.exploration.scope import PAIRINGS, FaultKind, Grain, Scope

    counts = messages.split("+")
    if len(counts) > 2 or not all(count.isdecimal() and len(count) < 3 for count in counts):
        raise LocalError(f"--messages: {messages!r} is not N or N+M, with numbers below 100")
    sent = (int(counts[0]), int(counts[-1]))
    policies = tuple(PAIRINGS) if policy == "all" else tuple(policy.split(","))
    chosen = tuple(FaultKind(_one_of("--kinds", kind, FaultKind)) for kind in kinds.split(","))
    return [
        Scope(
            Protocol(_one_of("--proto", one, Protocol)),
            name,
            sent,
            faults,
            chosen,
            Grain(_one_of("--grain", grain, Grain)),
            overtakes,
        )
        for one in proto.split(",")
        for name in policies
    ]


def _one_of(option: str, word: str, known: Sequence[str] | type) -> str:
    from messenger.errors import LocalError

    words = [str(value) for value in known]  # type: ignore[union-attr]
    if word not in words:
        raise LocalError(f"{option}: unknown value {word!r}; known: {', '.join(words)}")
    return word


# ---- exploring


def _explore_all(
    scopes: "Sequence[Scope]",
    max_states: int,
    most_violations: int,
    jobs: int,
    out: Path | None,
    files: ReportFiles,
    *,
    as_json: bool,
) -> int:
    results, interrupted = _explore(scopes, max_states, most_violations, jobs)
    if as_json:
        print(json.dumps({"results": [result.as_json() for result in results]}, indent=2))
    else:
        _print_table(results)
    found = [(result.scope, violation) for result in results for violation in result.violations]
    pages = []
    for number, (scope, violation) in enumerate(found, 1):
        again = _show(scope, violation, None if out is None else out / str(number), quiet=as_json)
        command = shlex.join(replay_command(scope, violation.choices))
        pages.append(schedule_report(scope, again, command, f"violation {number}"))
    if files:
        files.write([*map(scope_report, results), *pages], "Every schedule of a small scope")
    if interrupted:
        print(f"msgrlab: interrupted: {len(results)} of {len(scopes)} scopes were finished", file=sys.stderr)
    if found:
        return CHECK_FAILED
    return INTERRUPTED if interrupted else 0


def _explore(
    scopes: "Sequence[Scope]", max_states: int, most_violations: int, jobs: int
) -> "tuple[list[Result], bool]":
    """Explore the scopes; return the results in their order, and True if Ctrl-C ended it early."""
    from functools import partial

    from toolkit.cli.progress import progress
    from toolkit.cli.streams import interrupted_by_sigterm
    from toolkit.exploration.explore import explore as explore_scope

    run = partial(explore_scope, max_states=max_states, most_violations=most_violations)
    results: list[Result] = []
    with interrupted_by_sigterm(), progress("exploring", len(scopes)) as steps:

        def shown(result: "Result", waiting: int) -> None:
            steps.show(f"{result.scope}, {result.states:,} states, {result.depth} deep, {waiting:,} waiting")

        try:
            if jobs == 1 or len(scopes) == 1:
                for scope in scopes:
                    results.append(run(scope, progress=shown))
                    steps.advance()
            else:
                for result in _shared(scopes, run, jobs):
                    results.append(result)
                    steps.advance()
        except KeyboardInterrupt:
            return results, True
    return results, False


def _shared(scopes: "Sequence[Scope]", run: "Callable[[Scope], Result]", jobs: int) -> "Iterator[Result]":
    """Explore the scopes in ``jobs`` processes; yield the results in the order of the scopes."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from toolkit.machine.interpreters import safe_workers
    from toolkit.machine.workers import begin_worker

    with safe_workers():
        workers = min(jobs, len(scopes))
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=begin_worker)
        try:
            yield from pool.map(run, scopes)
        except KeyboardInterrupt:
            for process in pool._processes.values():  # noqa: SLF001 - a scope may take hours
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


# ---- showing


def _print_table(results: "Sequence[Result]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("proto", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in ("msgs", "faults", "states", "steps", "at rest", "depth", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for result in results:
        scope = result.scope
        whole = "complete" if result.is_complete else "cut off"
        table.add_row(
            scope.protocol.value,
            scope.pairing,
            "+".join(map(str, scope.messages)),
            str(scope.faults),
            str(result.states),
            str(result.transitions),
            str(result.terminals),
            str(result.depth),
            f"{result.seconds:.0f}",
            f"[red]{len(result.violations)} violated[/]" if result.violations else f"[green]{whole}[/]",
        )
    Console().print(table)


def _show(scope: "Scope", violation: "Violation", out: Path | None, *, quiet: bool) -> "Replay":
    from toolkit.exploration.replay import replay

    again = replay(scope, violation.steps)
    if not quiet:
        print(f"\n{violation.text}\n  after {len(violation.steps)} steps: {violation.choices}")
        print(f"  again: {shlex.join(replay_command(scope, violation.choices))}")
    if out is not None:
        _save(again, out)
    return again


def replay_command(scope: "Scope", choices: str) -> list[str]:
    """Return the words of the command that runs a schedule again."""
    words = ["msgrlab", "explore", "--proto", scope.protocol.value, "--policy", scope.pairing]
    words += ["--messages", "+".join(map(str, scope.messages)), "--faults", str(scope.faults)]
    words += ["--kinds", ",".join(scope.kinds), "--grain", scope.grain.value]
    return [*words, "--overtakes", str(scope.overtakes), "--replay", choices]


def _replay(
    scopes: "Sequence[Scope]", choices: str, out: Path | None, files: ReportFiles, *, as_json: bool
) -> int:
    from messenger.errors import LocalError
    from toolkit.exploration.replay import parse_choices, replay

    if len(scopes) > 1:
        raise LocalError("--replay needs exactly one --proto and one --policy")
    steps = parse_choices(choices)
    again = replay(scopes[0], steps, to_rest=True)
    if as_json:
        records = len(again.history)
        print(json.dumps({"steps": len(steps), "wrong": again.wrong, "records": records}, indent=2))
    else:
        for record in again.history.records:
            line = _line(record.node, record.kind, record.fields)
            if line:
                print(line)
        for text in again.wrong or ["no violation"]:
            print(text)
    if out is not None:
        _save(again, out)
    if files:
        command = shlex.join(replay_command(scopes[0], choices))
        files.write([schedule_report(scopes[0], again, command, "schedule")], "One schedule")
    return CHECK_FAILED if again.wrong else 0


def _line(node: str, kind: str, fields: dict[str, object]) -> str:
    """Describe a record of the history in words; empty for records that the text output omits."""
    if kind == "step":
        return f"{fields['verb']}"
    if kind == "frame" and fields["direction"] == "rx":
        return f"    {node} receives {fields['tag']} on {fields['link']}"
    if kind == "state":
        return f"    {node} session {fields['session']} {fields['state']}: {fields['why']}"
    if kind == "event":
        return f"    {node} event {fields['event']}"
    if kind == "decision":
        return f"    {node} decides {fields['verdict']}: {fields['why']}"
    if kind in {"send", "deliver"}:
        return f"    {node} {kind}s message {fields['tid']}"
    return ""


def _save(again: "Replay", out: Path) -> None:
    from messenger.errors import LocalError

    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise LocalError(f"{out}: {error.strerror}") from None
    again.history.save(out / "history.ndjson")
    (out / "chart.svg").write_text(again.chart.svg(), encoding="utf-8")


# ---- reports


def scope_report(result: "Result") -> "ScenarioReport":
    """Return the report page of an explored scope."""
    from toolkit.checks.history import History
    from toolkit.report.html import ScenarioReport, Verdict

    verdict = Verdict.FAILED if result.violations else Verdict.PASSED
    facts = {
        "States": f"{result.states:,}",
        "Steps": f"{result.transitions:,}",
        "States at rest": f"{result.terminals:,}",
        "Depth": f"{result.depth:,}",
        "Scope": "complete" if result.is_complete else "cut off at --max-states",
    }
    reason = "; ".join(violation.text for violation in result.violations)
    way, took_s = f"{result.scope.protocol} {result.scope.pairing}", result.seconds
    return ScenarioReport(
        str(result.scope),
        way,
        "",
        "explore",
        way,
        None,
        verdict,
        took_s,
        [],
        History(),
        "",
        reason=reason,
        facts=facts,
    )


def schedule_report(scope: "Scope", again: "Replay", command: str, name: str) -> "ScenarioReport":
    """Return the report page of a schedule that was run."""
    from toolkit.report.html import ScenarioReport, Verdict

    way = f"{scope.protocol} {scope.pairing}"
    verdict = Verdict.FAILED if again.wrong else Verdict.PASSED
    took_s, reason = again.history.duration_s, "; ".join(again.wrong)
    return ScenarioReport(
        str(scope), name, "", "explore", way, None, verdict, took_s, [], again.history, command, reason=reason
    )
