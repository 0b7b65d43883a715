"""Conformance for Python and notebooks: run cases against an address, or load the results in docs/."""

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName
from toolkit.conformance.case import all_cases
from toolkit.conformance.login import Login
from toolkit.conformance.runner import Result, Verdict, run_cases, select
from toolkit.conformance.survey import survey
from toolkit.probe.findings import parse_target
from toolkit.tables import data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

_KEPT = (Path(__file__).parents[2] / "docs" / "conformance.json", Path(__file__).parent / "kept.json")
"""The file of results in a checkout, and in an installed wheel."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the cases that were run against one address."""

    address: EntityAddr
    all: Sequence[Result]

    @property
    def counts(self) -> dict[str, int]:
        """Number of cases by verdict."""
        return dict(Counter(result.verdict.value for result in self.all))

    @property
    def differing(self) -> list[Result]:
        """Results that neither the rule allows nor a known implementation has."""
        return [result for result in self.all if result.verdict is Verdict.DIFFERS]

    def table(self) -> "DataFrame":
        """Return a DataFrame with a row for each case; raises MissingExtra without pandas."""
        rows = [
            (one.case.id, one.case.title, ", ".join(one.case.expect), one.outcome, one.verdict.value)
            for one in self.all
        ]
        return data_frame(rows, ("case", "title", "expected", "outcome", "verdict"))

    def __repr__(self) -> str:
        return f"<Results {self.address}: {', '.join(f'{count} {word}' for word, count in self.counts.items())}>"

    def _repr_html_(self) -> str:
        html: str = self.table().to_html(index=False)
        return html


def try_address(
    address: str,
    only: Sequence[str] = (),
    *,
    name: str = "client.admin",
    keyring: Path | str | None = None,
    key_log: Path | str | None = None,
    destructive: bool = False,
    patience_s: float = 2.0,
) -> Results:
    """Run cases against a messenger, as ``msgrlab conformance`` does.

    ::

        try_address("v2:127.0.0.1:3300", ["v2/ack"], keyring="ceph.client.admin.keyring").table()

    Args:
        address: ``v2:127.0.0.1:3300``; sessions with a node also need its nonce (``/1001``).
        only: patterns of case ids; ``v2/ack`` stands for its whole area. Empty for all cases.
        name: entity that the peer authenticates as.
        keyring: file with the key of ``name``.
        key_log: file with service keys, from which the peer makes its own tickets.
        destructive: True to also run cases that may disturb the target.
        patience_s: time limit of each answer.

    Raises:
        LocalError: a pattern matches no case, or a file cannot be used.
        Unsupported: no messenger of that protocol can be reached at the address.
    """
    cases = select(only)
    target_addr = parse_target(address)
    key, keys = (None if path is None else Path(path) for path in (keyring, key_log))
    login = Login(AuthName.parse(name), key, keys)
    with ThreadPoolExecutor(1) as pool:  # the survey runs an event loop, and a notebook's thread already has one
        target = pool.submit(survey, target_addr, login, patience_s).result()
    chosen = [case for case in cases if case.protocol is target.protocol]
    return Results(target.addr, run_cases(chosen, target, destructive=destructive))


def kept() -> "DataFrame":
    """Return the results of docs/conformance.md: a row for each case that was run against a target.

    Raises:
        MissingExtra: pandas is not installed.
    """
    titles = {case.id: case.title for case in all_cases()}
    rows = []
    for target, found in json.loads(next(path for path in _KEPT if path.exists()).read_text()).items():
        verdicts = dict.fromkeys(found["passed"], (Verdict.PASS.value, "")) | found["others"]
        rows += [
            (target, id_.rpartition("/")[0], id_, verdict, outcome, titles.get(id_, ""))
            for id_, (verdict, outcome) in verdicts.items()
        ]
    return data_frame(rows, ("target", "area", "case", "verdict", "outcome", "title"))
