"""The catalogue visits the whole interception grid, and the report lists the rest."""

import pytest

from messenger.interception import Action
from messenger.link import Protocol
from toolkit.lab.ways import Way
from toolkit.scenarios.batch import jobs
from toolkit.scenarios.catalogue import CATALOGUE, find
from toolkit.scenarios.coverage import NOT_THERE, Coverage, actions, points

GRID_ROWS = {Protocol.V2: ("HS-08", "GRID-01", "GRID-02"), Protocol.V1: ("GRID-01", "GRID-02", "GRID-06")}
"""What visits it; all others together do not."""


@pytest.mark.parametrize("protocol", Protocol)
def test_the_catalogue_visits_the_whole_grid(protocol: Protocol) -> None:
    rows = [CATALOGUE[name] for name in GRID_ROWS[protocol]]
    coverage = Coverage()
    for job in jobs(rows, ways=[Way(protocol)]):
        run = job.run()
        assert run.passed, f"{run.replay_command}: {run.complaints}"
        coverage.add(run)
    assert coverage.missing(protocol) == []
    assert coverage.unknown(protocol) == []
    assert coverage.protocols == [protocol]


def test_the_grid_of_v2_is_that_of_crimson_and_the_compression_exchange() -> None:
    assert len(points(Protocol.V2)) == 45 + 4
    assert Coverage().total(Protocol.V2) == 48 * 4 + 1  # SOCKET_ACCEPTED can only go on
    assert actions("SOCKET_ACCEPTED") == (Action.CONTINUE,)


def test_points_that_do_not_exist_are_named_with_a_reason() -> None:
    assert all(NOT_THERE[Protocol.V1].values())
    assert not set(NOT_THERE[Protocol.V1]) & set(points(Protocol.V1))


def test_missing_points_are_listed() -> None:
    (job,) = jobs([find("HS-08[b AUTH_REPLY_MORE WRITE FAULT]")])
    coverage = Coverage([job.run()])
    assert coverage.count(Protocol.V2, "AUTH_REPLY_MORE WRITE", Action.FAULT) == 1
    assert ("AUTH_REPLY_MORE WRITE", Action.BLOCK) in coverage.missing(Protocol.V2)
    assert ("AUTH_REPLY_MORE WRITE", Action.FAULT) not in coverage.missing(Protocol.V2)
    result = coverage.as_json()["v2"]
    assert result["pairs"] == 193
    assert result["visited"] == 193 - len(result["missing"])
    assert result["points"]["AUTH_REPLY_MORE WRITE"] == {
        "CONTINUE": coverage.count(Protocol.V2, "AUTH_REPLY_MORE WRITE", Action.CONTINUE),
        "FAULT": 1,
        "BLOCK": 0,
        "STALL": 0,
    }
