"""Hunts: cells, verdicts and results on a cluster of the test's, and a few cells on real ones."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from messenger.errors import LocalError
from toolkit.cli.main import run as msgrlab
from toolkit.faults.script import Rule
from toolkit.hunt import Cell, Hunt, LinkKind, Outcome, Verdict, cells, runner
from toolkit.hunt.cells import POINTS, Action
from toolkit.hunt.runner import RESULTS_FILE, by_cause

CUT, DROP = "client/AUTH_DONE-WRITE/cut", "client/AUTH_DONE-WRITE/drop"


class Fake:
    """A cluster whose client does what the test wants of it, cell by cell."""

    def __init__(self) -> None:
        self.opened = 0
        self.behaviour: dict[str, str] = {}
        self.expected = ""
        self.cell: Cell | None = None
        self._pieces = 0
        self._content = ""
        self._waiting: Future[str] | None = None

    @contextmanager
    def open(self, release: str) -> Iterator["Fake"]:
        self.opened += release == "fake"
        self.expected = self._content = ""
        yield self

    @contextmanager
    def watched(self, directory: Path, _link: LinkKind) -> Iterator[None]:
        directory.mkdir(parents=True, exist_ok=True)
        yield

    @contextmanager
    def struck(self, cell: Cell) -> Iterator[list[SimpleNamespace]]:
        self.cell = cell
        yield [SimpleNamespace(hits=int(self._behaviour != "not there"))]

    @property
    def _behaviour(self) -> str:
        assert self.cell is not None
        return self.behaviour.get(self.cell.id, "")

    @property
    def last_piece(self) -> str:
        return f"<{self._pieces}>"

    def append(self) -> "Future[str]":
        self._pieces += 1
        done: Future[str] = Future()
        if self._behaviour in {"hangs", "stuck"}:
            self._waiting = done
            return done
        if self._behaviour == "fails":
            done.set_exception(LocalError("rados: error writing"))
            return done
        self._content += self.last_piece * {"lost": 0, "twice": 2}.get(self._behaviour, 1)
        done.set_result("")
        return done

    def read(self) -> "Future[str]":
        done: Future[str] = Future()
        done.set_result(self._content)
        return done

    def cut(self, _link: LinkKind) -> None:
        if self._waiting is not None and self._behaviour == "stuck":
            self._content += self.last_piece
            self._waiting.set_result("")
            self._waiting = None

    def ended(self) -> str:
        return "a daemon ended: FAILED ceph_assert(false)" if self._behaviour == "ends" else ""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(runner, "PATIENCE_S", 0.01)
    return Fake()


def test_the_grid_has_45_points_and_each_cell_a_rule_of_the_proxy() -> None:
    assert len(POINTS) == 45
    found = cells()
    assert len({cell.id for cell in found}) == len(found)
    assert {str(cell.point) for cell in found} == {str(point) for point in POINTS} - {"SOCKET_ACCEPTED"}
    assert [str(Rule.parse(cell.rule)) for cell in found if cell.rule]


def test_no_two_cells_of_a_link_do_the_same() -> None:
    rules = Counter((cell.link, cell.rule) for cell in cells())
    assert [rule for rule, count in rules.items() if count > 1] == []


def test_seed_changes_only_the_order_of_cells() -> None:
    assert cells(seed=3) == cells(seed=3)
    assert cells(seed=3) != cells(seed=4)
    assert set(cells(seed=3)) == set(cells())


def test_cells_are_chosen_by_parts_of_their_ids() -> None:
    assert {cell.action for cell in cells(only=["cut"])} == {Action.CUT}
    assert {cell.point.tag for cell in cells(only=["AUTH_DONE-*"])} == {"AUTH_DONE"}
    with pytest.raises(LocalError, match=r"no cell matches 'AUTH_GONE'.*--list"):
        cells(only=["AUTH_GONE"])


@pytest.mark.parametrize(
    ("behaviour", "verdict", "cause"),
    [
        ("", Verdict.HELD, ""),
        ("not there", Verdict.NOT_PASSED, ""),
        ("stuck", Verdict.STUCK, "after drop of AUTH_DONE a write waits until the link is cut"),
        ("lost", Verdict.FOUND, "an acknowledged write is lost"),
        ("twice", Verdict.FOUND, "a write is done twice"),
        ("fails", Verdict.FOUND, "a write fails: rados: error writing"),
        ("hangs", Verdict.FOUND, "a write hangs, also after the link was cut"),
        ("ends", Verdict.FOUND, "a daemon ended: FAILED ceph_assert(false)"),
    ],
)
def test_a_verdict_follows_from_what_the_client_sees(
    behaviour: str, verdict: Verdict, cause: str, fake: Fake, tmp_path: Path
) -> None:
    fake.behaviour[DROP] = behaviour
    (outcome,) = Hunt(cells(only=[DROP]), "fake", tmp_path, grounds=fake.open).go()
    assert (outcome.verdict, outcome.cause) == (verdict, cause)
    assert (outcome.directory is not None) == bool(cause)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [DROP.replace("/", "-")] * bool(cause)


def test_write_stuck_after_a_cut_is_a_finding(fake: Fake, tmp_path: Path) -> None:
    fake.behaviour[CUT] = "stuck"
    (outcome,) = Hunt(cells(only=[CUT]), "fake", tmp_path, grounds=fake.open).go()
    assert (outcome.verdict, outcome.cause) == (
        Verdict.FOUND,
        "after cut of AUTH_DONE a write waits until the link is cut",
    )


def test_after_a_finding_the_cluster_is_another_one(fake: Fake, tmp_path: Path) -> None:
    fake.behaviour[CUT] = "lost"
    outcomes = Hunt(cells(only=["client/AUTH_DONE-*"]), "fake", tmp_path, grounds=fake.open).go()
    assert fake.opened == 2
    assert [outcome.cell.id for outcome in outcomes if outcome.verdict is not Verdict.HELD] == [CUT]


def test_interrupted_hunt_continues_where_it_ended(fake: Fake, tmp_path: Path) -> None:
    chosen = cells(only=["client/AUTH_DONE-*"])

    def interrupt(_outcome: Outcome) -> None:
        raise KeyboardInterrupt

    first = Hunt(chosen, "fake", tmp_path, interrupt, fake.open)
    with pytest.raises(KeyboardInterrupt):
        first.go()
    assert Counter(each.verdict for each in first.so_far())[Verdict.NOT_RUN] == len(chosen) - 1
    second = Hunt(chosen, "fake", tmp_path, grounds=fake.open)
    assert {each.verdict for each in second.go()} == {Verdict.HELD}
    assert len((tmp_path / RESULTS_FILE).read_text().splitlines()) == len(chosen)


def test_findings_are_grouped_by_cause(fake: Fake, tmp_path: Path) -> None:
    chosen = cells(only=["client/AUTH_DONE-*"])
    fake.behaviour = {cell.id: "lost" for cell in chosen[1:]} | {chosen[0].id: "twice"}
    groups = by_cause(Hunt(chosen, "fake", tmp_path, grounds=fake.open).go())
    assert [(cause, len(group)) for cause, group in groups.items()] == [
        ("an acknowledged write is lost", len(chosen) - 1),
        ("a write is done twice", 1),
    ]


def test_hunt_refuses_an_invalid_results_file(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / RESULTS_FILE).write_text("{}\n")
    with pytest.raises(LocalError, match="not the results of a hunt"):
        Hunt(cells(only=[CUT]), "fake", tmp_path, grounds=fake.open).go()


def test_the_list_has_cells_with_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["hunt", "--list", "--only", CUT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cells": [{"id": CUT, "rule": "<- AUTH_DONE #1: cut before"}]}


def test_bad_input_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, complaint in (
        (["--release", "jewel"], "--release: unknown release 'jewel'; known: host, embedded, nautilus"),
        (["--only", "nothing"], "no cell matches 'nothing'"),
        (["--out", f"{tmp_path}/no/folder"], "--out "),
    ):
        assert msgrlab(["hunt", *words]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"msgrlab: {complaint}")
        assert error.count("\n") == 1


FEW = ("client/SERVER_IDENT-WRITE/cut", "client/MESSAGE-READ/cut")


@pytest.mark.needs("ceph", "netns")
@pytest.mark.xdist_group("embedded")
def test_real_clients_of_embedded_daemons_come_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["hunt", "--release", "embedded", "--out", f"{tmp_path}/out", "--html", f"{tmp_path}/report.html"]
    code = msgrlab([*line, "--json", *(word for cell in FEW for word in ("--only", cell))])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["counts"]) == (0, {"held": len(FEW)}), result
    assert all(cell in (tmp_path / "report.html").read_text() for cell in FEW)


@pytest.mark.needs("ceph-osd", "netns")
@pytest.mark.xdist_group("real_cluster")
def test_daemons_of_ceph_lose_no_write_after_a_cut(tmp_path: Path) -> None:
    (outcome,) = Hunt(cells(only=["daemons/MESSAGE-READ/cut"]), "host", tmp_path).go()
    assert (outcome.verdict, outcome.cause) == (Verdict.HELD, "")
