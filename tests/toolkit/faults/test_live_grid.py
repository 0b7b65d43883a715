"""The grid against a real monitor: disturbed at every frame, both ways, everybody comes through."""

from collections.abc import Callable

import pytest

from toolkit.cluster.daemons import Mode
from toolkit.cluster.monitor import RealMonitor
from toolkit.faults.grid import ACTIONS, Cell, Grid

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool")

V2 = {
    "BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE", "AUTH_SIGNATURE",
    "CLIENT_IDENT", "SERVER_IDENT", "MESSAGE", "KEEPALIVE2", "KEEPALIVE2_ACK",
}  # fmt: skip
V1 = {"BANNER", "IDENTIFY", "CONNECT", "CONNECT_REPLY", "MSG", "KEEPALIVE2", "KEEPALIVE2_ACK"}


def _wrong(cells: list[Cell]) -> list[str]:
    return [
        f"{cell.protocol} {cell.direction} {cell.tag}, {cell.action}: {cell.outcome} {cell.faults} {cell.hits}"
        for cell in cells
        if not cell.right
    ]


@pytest.mark.parametrize("mode", ["crc", "secure"])
@pytest.mark.parametrize("action", ACTIONS)
def test_v2(real_monitor: Callable[[Mode], RealMonitor], mode: str, action: str) -> None:
    monitor = real_monitor("secure crc")
    grid = Grid(f"127.0.0.1:{monitor.port_v2}", monitor.keyring, modes=[mode], actions=[action])
    cells = list(grid.run())
    assert {cell.tag for cell in cells} >= V2
    assert not _wrong(cells)


@pytest.mark.parametrize("action", [action for action in ACTIONS if action != "corrupt, fixed"])
def test_v1(real_monitor: Callable[[Mode], RealMonitor], action: str) -> None:
    monitor = real_monitor("secure crc")
    grid = Grid(f"v1:127.0.0.1:{monitor.port_v1}", monitor.keyring, actions=[action])
    cells = list(grid.run())
    assert {cell.tag for cell in cells} >= V1
    assert not _wrong(cells)


def test_grid_names_faults_as_the_protocol_checks_do(real_monitor: Callable[[Mode], RealMonitor]) -> None:
    """The words for what a monitor's damaged frames do to us are those of the protocol's checks."""
    monitor = real_monitor("secure crc")
    grid = Grid(f"127.0.0.1:{monitor.port_v2}", monitor.keyring, actions=["corrupt"])
    found = {(cell.protocol, cell.tag): cell.faults for cell in grid.run() if cell.direction == "<-"}
    assert found["v2 crc", "SERVER_IDENT"] == ["SEGMENT_CRC"]
    assert found["v2 secure", "SERVER_IDENT"] == ["AUTH_TAG"]
    assert found["v2 secure", "HELLO"] == ["SEGMENT_CRC"]
