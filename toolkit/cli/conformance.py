"""``msgrlab conformance``: test an implementation of the protocol, case by case."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.cluster_names import party
from toolkit.cli.report_files import Html, Junit, ReportFiles

if TYPE_CHECKING:
    from messenger.denc.address import EntityAddr
    from toolkit.conformance.case import Case, Level
    from toolkit.conformance.login import Login
    from toolkit.conformance.runner import Result
    from toolkit.report.html import ScenarioReport

DIFFERS = 1
_TITLE = "Conformance to the protocol"


def conformance(
    addr: Annotated[
        str,
        typer.Argument(
            metavar="ADDR",
            help="HOST or HOST:PORT, also with v1: or v2: before it, or a list of them in brackets; or "
            "CLUSTER/NODE, a node of a running cluster, with its keyring.",
        ),
    ] = "",
    v1: Annotated[bool, typer.Option("--v1", help="Run the cases of msgr v1; ADDR is a v1 port.")] = False,
    v2: Annotated[bool, typer.Option("--v2", help="Run the cases of msgr v2.")] = False,
    keyring: Annotated[Path | None, typer.Option(metavar="FILE", help="Keyring with the key of --name.")] = None,
    key_log: Annotated[
        Path | None, typer.Option("--key-log", metavar="FILE", help="Service keys, with which tickets are made.")
    ] = None,
    name: Annotated[
        str,
        typer.Option(metavar="TYPE.ID", help="Entity of the peer: osd.9, client.admin, or mon. for a monitor."),
    ] = "client.admin",
    monitor: Annotated[
        str | None,
        typer.Option("--mon", metavar="ADDR", help="Monitor that issues tickets if ADDR is another daemon."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Only these cases: v2/banner/1, v2/*, cephx/login. Repeatable."),
    ] = None,
    level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="strict: protocol requirements; tolerant: all other cases.")
    ] = None,
    destructive: Annotated[
        bool, typer.Option("--destructive", help="Also run cases that may disturb the target.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.05, max=60, metavar="SECONDS", help="Time limit of each answer.")
    ] = 2.0,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases; needs no ADDR.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    junit: Junit = None,
    html: Html = None,
) -> int:
    """Run the conformance cases against the messenger at ADDR; exit 1 if it differs from the protocol.

    In each case a scripted peer sends valid or invalid bytes and compares
    the reaction with docs/protocol.md. A known deviation of Ceph's classic
    messenger, of crimson or of the kernel client gets the verdict "as
    classic" and so on. A case that the target or the credentials rule out is
    skipped. See docs/conformance.md for the cases and results of real daemons.
    """
    from messenger.errors import LocalError
    from messenger.protocols import Protocol
    from toolkit.conformance.runner import select

    files = ReportFiles(html, junit)
    protocols = [one for one, chosen in ((Protocol.V1, v1), (Protocol.V2, v2)) if chosen] or list(Protocol)
    cases = select(only or (), _level(level), protocols)
    if list_cases:
        _list(cases, as_json=as_json)
        return 0
    if not addr:
        raise LocalError("no ADDR was given; only --list works without one")
    place, keyrings = party(addr, [keyring] if keyring else [])
    targets = _targets(place, v1=v1, v2=v2)
    login = _login(name, next(iter(keyrings), None), key_log, monitor, timeout)
    results = _run(targets, cases, login, timeout, destructive=destructive, quiet=as_json)
    again = _again(addr, keyring, key_log, name, monitor, v1=v1)
    if files:
        files.write([_report(result, target, again(result)) for target, result in results], _TITLE)
    print(json.dumps(_as_json(results), indent=2)) if as_json else _print(results, again)
    return DIFFERS if any(result.verdict.value == "differs" for _, result in results) else 0


def _level(text: str | None) -> "Level | None":
    from messenger.errors import LocalError
    from toolkit.conformance.case import Level

    if text is None or text in list(Level):
        return None if text is None else Level(text)
    raise LocalError(f"--level: unknown level {text!r}; known: {', '.join(Level)}")


def _targets(text: str, *, v1: bool, v2: bool) -> "list[EntityAddr]":
    """Return the addresses to test, without those of a protocol that --v1 or --v2 excludes."""
    from dataclasses import replace

    from messenger.denc.address import AddressType, AddrVec
    from messenger.errors import LocalError
    from messenger.protocols import Protocol
    from toolkit.network.host_names import numeric
    from toolkit.probe.findings import parse_target

    if text.startswith("[v"):
        found = list(AddrVec.parse(text))
    elif v1 and not text.startswith(("v1:", "v2:", "any:")):
        found = [parse_target(f"v1:{numeric(text)}")]
    else:
        found = [parse_target(text)]
    found = [replace(one, type=AddressType.MSGR2) if one.type is AddressType.ANY else one for one in found]
    wanted = [one for one in found if not (v1 or v2) or (v1 if Protocol.of(one) is Protocol.V1 else v2)]
    if not wanted:
        raise LocalError(f"{text} is not a {'v1' if v1 else 'v2'} address, as {'--v1' if v1 else '--v2'} requires")
    return wanted


def _login(
    name: str, keyring: Path | None, key_log: Path | None, monitor: str | None, timeout_s: float
) -> "Login":
    from messenger.denc.entity import AuthName
    from messenger.errors import LocalError
    from toolkit.conformance.login import Login
    from toolkit.probe.findings import parse_target

    if keyring is not None and key_log is not None:
        raise LocalError("--keyring and --key-log exclude each other: both authenticate")
    where = parse_target(monitor) if monitor else None
    return Login(AuthName.parse(name), keyring, key_log, where, max(timeout_s, 5.0))


def _run(
    targets: "Sequence[EntityAddr]",
    cases: "Sequence[Case]",
    login: "Login",
    timeout_s: float,
    *,
    destructive: bool,
    quiet: bool,
) -> "list[tuple[str, Result]]":
    """Run the cases at all targets; return each result with the address of its target."""
    from messenger.protocols import Protocol
    from toolkit.cli.progress import progress
    from toolkit.conformance.runner import run_cases
    from toolkit.conformance.survey import survey

    surveyed = [survey(addr, login, timeout_s) for addr in targets]
    chosen = [[case for case in cases if case.protocol is Protocol.of(target.addr)] for target in surveyed]
    results = []
    with progress("running", sum(map(len, chosen)), quiet=quiet) as steps:

        def report(result: "Result") -> None:
            steps.show(result.case.id)
            steps.advance()

        for last in (False, True):  # a crash would end the run at all addresses of the daemon: those cases go last
            for target, ours in zip(surveyed, chosen, strict=True):
                part = [case for case in ours if case.may_crash is last]
                done = run_cases(part, target, destructive=destructive, report=report)
                results += [(str(target.addr), result) for result in done]
    return results


def _again(
    addr: str, keyring: Path | None, key_log: Path | None, name: str, monitor: str | None, *, v1: bool
) -> "Callable[[Result], str]":
    """Return a function that maps a result to the command line that runs its case alone."""
    words = ["msgrlab", "conformance", addr]
    for option, value in (("--keyring", keyring), ("--key-log", key_log), ("--mon", monitor)):
        words += [option, str(value)] if value is not None else []
    words += ["--name", name] + (["--v1"] if v1 else [])

    def command(result: "Result") -> str:
        more = ["--destructive"] if result.case.destructive else []
        return shlex.join([*words, "--only", result.case.id, *more])

    return command


# ---- showing


def _list(cases: "Sequence[Case]", *, as_json: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from toolkit.conformance.runner import case_json

    if as_json:
        print(json.dumps({"cases": [case_json(case) for case in cases]}, indent=2))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("id", "level", "needs", "action: required reaction"):
        table.add_column(heading, no_wrap=heading in ("id", "level"))
    for case in cases:
        needs = " ".join([*sorted(case.needs), *(["--destructive"] if case.destructive else [])])
        table.add_row(case.id, case.level.value, needs, escape(f"{case.title} (§{case.section})"))
    Console().print(table)


def _as_json(results: "Sequence[tuple[str, Result]]") -> dict[str, object]:
    rows = [{"target": target, **result.as_json()} for target, result in results]
    return {"counts": _counts(results), "results": rows}


def _counts(results: "Sequence[tuple[str, Result]]") -> dict[str, int]:
    from collections import Counter

    return dict(Counter(result.verdict.value for _, result in results))


def _print(results: "Sequence[tuple[str, Result]]", again: "Callable[[Result], str]") -> None:
    from rich.console import Console

    from toolkit.report.terminal import shown_line

    console = Console(highlight=False)

    def line(text: str, style: str = "") -> None:
        console.print(shown_line(text), style=style, markup=False, soft_wrap=True)

    for target in dict.fromkeys(target for target, _ in results):
        ours = [result for where, result in results if where == target]
        counts = _counts([(target, result) for result in ours])
        line(f"{target}: {', '.join(f'{count} {word}' for word, count in counts.items())}", "bold")
        _print_skipped(ours, line)
        for result in ours:
            if result.verdict.value.startswith("as "):
                line(f"  {result.case.id}: {result.verdict.value}: {result.outcome}; {result.case.title}")
        for result in ours:
            if result.verdict.value == "differs":
                for text in failure_lines(result, again(result)):
                    line(text)


def _print_skipped(results: "Sequence[Result]", line: "Callable[[str], None]") -> None:
    from collections import Counter

    reasons = Counter(result.outcome for result in results if result.verdict.value == "skipped")
    for reason, count in reasons.items():
        line(f"  {count} skipped: {reason}")


def failure_lines(result: "Result", command: str) -> list[str]:
    """Return the lines that describe a case with the verdict "differs": rule, sequence, expected, observed."""
    case = result.case
    return [
        f"  {case.id} differs ({case.level}): {case.title}",
        f"    rule      {case.link}",
        f"    sequence  {'; '.join(result.log) or 'nothing was sent'}",
        f"    expected  {' or '.join(case.expect)}",
        f"    observed  {result.outcome}",
        f"    again     {command}",
    ]


def _report(result: "Result", target: str, command: str) -> "ScenarioReport":
    from toolkit.checks.history import History
    from toolkit.report.html import ScenarioReport, Verdict

    case = result.case
    verdicts = {"differs": Verdict.FAILED, "skipped": Verdict.UNSUPPORTED}
    differs = result.verdict.value == "differs"
    reason = f"expected {' or '.join(case.expect)}; observed {result.outcome}" if differs else ""
    facts = {
        "Rule": case.link,
        "Level": case.level.value,
        "Expected": " or ".join(case.expect),
        "Observed": result.outcome,
        "Verdict": result.verdict.value,
        "Sequence": "; ".join(result.log),
    }
    return ScenarioReport(
        case.title,
        case.id,
        "",
        "conformance",
        target,
        None,
        verdicts.get(result.verdict.value, Verdict.PASSED),
        result.duration_s,
        [],
        History(),
        command,
        reason=result.outcome if result.verdict.value == "skipped" else reason,
        facts=facts,
    )
