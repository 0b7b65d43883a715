"""Runs cases against a target and determines their verdicts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import ConMode
from messenger.denc.entity import EntityType
from messenger.denc.features import Msgr2Feature
from messenger.errors import LocalError, MsgrError
from messenger.protocols import Protocol
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CRASHED, Case, Level, Need, all_cases
from toolkit.conformance.target import Target, TargetLost

_DYING_S = 1.0
"""Seconds that a process may take to exit after a failed assertion."""


class Verdict(StrEnum):
    """The verdict on the outcome of a case."""

    PASS = "pass"  # noqa: S105 - a verdict
    AS_CLASSIC = "as classic"
    AS_CRIMSON = "as crimson"
    AS_KERNEL = "as kernel"
    DIFFERS = "differs"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case."""

    case: Case
    verdict: Verdict
    outcome: str = ""
    """The outcome observed; the reason if the case was skipped."""
    log: tuple[str, ...] = ()
    """Frames and bytes sent and received, one line each."""
    duration_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        case = self.case
        return {
            **case_json(case),
            "verdict": self.verdict.value,
            "outcome": self.outcome,
            "log": list(self.log),
            "seconds": round(self.duration_s, 3),
        }


def case_json(case: Case) -> dict[str, Any]:
    """Return a case as a JSON object."""
    return {
        "id": case.id,
        "title": case.title,
        "section": case.link,
        "level": case.level.value,
        "destructive": case.destructive,
        "needs": sorted(case.needs),
        "expect": list(case.expect),
        "variants": {name: list(words) for name, words in case.variants.items()},
    }


def select(
    only: Sequence[str] = (), level: Level | None = None, protocols: Sequence[Protocol] = tuple(Protocol)
) -> list[Case]:
    """Return the cases whose ids match one of the patterns; ``v2/banner`` stands for its whole area.

    Raises:
        LocalError: a pattern matches no case.
    """
    cases = all_cases()
    for pattern in only:
        if not any(_matches(case, pattern) for case in cases):
            areas = ", ".join(dict.fromkeys(case.area for case in cases))
            raise LocalError(f"--only {pattern!r} matches no case; areas are {areas}")
    return [
        case
        for case in cases
        if (not only or any(_matches(case, pattern) for pattern in only))
        and (level is None or case.level is level)
        and case.protocol in protocols
    ]


def _matches(case: Case, pattern: str) -> bool:
    return fnmatchcase(case.id, pattern) or fnmatchcase(case.id, f"{pattern.rstrip('/')}/*")


def skip_reason(case: Case, target: Target, *, destructive: bool) -> str:
    """Return the reason why a case cannot be run against a target; empty if it can."""
    facts, needs = target.facts, case.needs
    if case.protocol is not target.protocol:
        return f"the target speaks {target.protocol}"
    if case.destructive and not destructive:
        return "it may disturb the target; needs --destructive"
    opens = needs & {Need.SESSION, Need.LOSSLESS, Need.LOSSY, Need.REPLIES, Need.SIGNATURES}
    logs_in = opens or needs & {Need.LOGIN, Need.CEPHX, Need.SECURE, Need.MONITOR, Need.SERVICE, Need.CRC}
    hindrances = {
        facts.login_error: bool(logs_in),
        facts.session_error: bool(opens),
        "the target does not support compression": Need.COMPRESSION in needs
        and not facts.msgr2_features & Msgr2Feature.COMPRESSION,
        "the target does not authenticate by cephx": bool(needs & {Need.CEPHX, Need.MONITOR, Need.SERVICE})
        and not target.by_cephx,
        "the target is not a monitor": Need.MONITOR in needs and facts.entity_type is not EntityType.MON,
        "the peer makes its own tickets instead of logging in": Need.MONITOR in needs
        and not isinstance(target.auth_client, CephxClient),
        "the peer needs no authorizer for a monitor": Need.SERVICE in needs and not _wants_authorizer(target),
        "the target refuses secure mode": Need.SECURE in needs and ConMode.SECURE not in facts.modes,
        "the target refuses crc mode": Need.CRC in needs and ConMode.CRC not in facts.modes,
        "the target's policy is lossy for this peer": Need.LOSSLESS in needs and not facts.lossless,
        "the target's policy is lossless for this peer": Need.LOSSY in needs and facts.lossless,
        "the target neither acknowledges nor answers messages": Need.REPLIES in needs and not facts.replies,
        "messages are not signed": Need.SIGNATURES in needs and not facts.signed,
    }
    return next((reason for reason, hinders in hindrances.items() if reason and hinders), "")


def _wants_authorizer(target: Target) -> bool:
    to_monitor = target.facts.entity_type is EntityType.MON
    return not to_monitor or target.name.type is EntityType.MON


def run_case(case: Case, target: Target) -> Result:
    """Run a case once; a destructive case has the outcome CRASHED if the target refuses connections afterwards.

    Raises:
        TargetLost: the target accepts no connections.
    """
    began_s = time.monotonic()
    with Attempt(target) as attempt:
        try:
            outcome = case.run(attempt)
        except TargetLost:
            if not attempt.log:
                raise
            outcome = CRASHED
        except MsgrError as error:
            outcome = f"the exchange broke: {error}"
    if case.destructive and outcome != CRASHED and _has_ended(target, _DYING_S if case.may_crash else 0.0):
        outcome = CRASHED
    return Result(case, judge(case, outcome), outcome, tuple(attempt.log), time.monotonic() - began_s)


def _has_ended(target: Target, within_s: float) -> bool:
    """True if the target accepts no connection, sends no banner, or closes the connection within ``within_s``.

    After a failed assertion, the other threads of a daemon run on until its log is written.
    """
    try:
        stream, _ = target.connect()
    except TargetLost:
        return True
    banner = bytearray()

    def is_received() -> bool:
        banner.extend(stream.read())
        return bool(banner) or stream.closed

    try:
        stream.wait(is_received, target.patience_s)
        return not banner or bool(within_s and stream.wait(lambda: not stream.read() and stream.closed, within_s))
    finally:
        stream.close()


def judge(case: Case, outcome: str) -> Verdict:
    """Return the verdict on an outcome of a case."""
    if outcome in case.expect:
        return Verdict.PASS
    for name, words in case.variants.items():
        if outcome in words:
            return Verdict(f"as {name}")
    return Verdict.DIFFERS


def run_cases(
    cases: Sequence[Case],
    target: Target,
    *,
    destructive: bool = False,
    report: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Run cases one after the other; skip those that the target or the credentials rule out.

    Cases that are known to crash an implementation run last. Once the target accepts no connections, the remaining
    cases are skipped.

    Args:
        cases: the cases to run.
        target: the target, as :func:`~toolkit.conformance.survey.survey` returns it.
        destructive: True to also run cases that may disturb the target.
        report: called with each result.
    """
    results: list[Result] = []
    lost = ""
    for case in sorted(cases, key=lambda case: case.may_crash):
        reason = lost or skip_reason(case, target, destructive=destructive)
        if reason:
            result = Result(case, Verdict.SKIPPED, reason)
        else:
            try:
                result = run_case(case, target)
                if result.outcome == CRASHED:
                    lost = f"the target accepts no connections since {case.id}"
            except TargetLost as error:
                lost = f"the target accepts no connections: {error}"
                result = Result(case, Verdict.DIFFERS, f"{lost}; the last case before was {_last(results)}")
        results.append(result)
        report(result)
    return results


def _last(results: Sequence[Result]) -> str:
    return next((one.case.id for one in reversed(results) if one.verdict is not Verdict.SKIPPED), "none")
