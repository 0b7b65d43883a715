"""The table of ``msgrlab run --coverage``: the actions taken at each point of the interception grid."""

from typing import TYPE_CHECKING

from messenger.interception import Action
from messenger.link import Protocol

if TYPE_CHECKING:
    from toolkit.scenarios.coverage import Coverage


def print_coverage(coverage: "Coverage") -> None:
    """Print a table for each protocol that the runs used, and the points that they did not visit."""
    for protocol in coverage.protocols:
        _print_protocol(coverage, protocol)


def _print_protocol(coverage: "Coverage", protocol: Protocol) -> None:
    from rich.console import Console
    from rich.table import Table

    from toolkit.scenarios.coverage import NOT_THERE, actions, points

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"point of {protocol}")
    for action in Action:
        table.add_column(action.value, justify="right")
    for point in points(protocol):
        possible = actions(point)
        counts = [str(coverage.count(protocol, point, action)) if action in possible else "-" for action in Action]
        table.add_row(point, *(f"[red]{count}[/]" if count == "0" else count for count in counts))
    Console().print(table)
    total, missing = coverage.total(protocol), coverage.missing(protocol)
    print(f"{protocol}: {total - len(missing)} of {total} pairs of point and action visited")
    for point, why in NOT_THERE[protocol].items():
        print(f"{protocol}: {point} cannot be reached: {why}")
    for point in coverage.unknown(protocol):
        print(f"{protocol}: {point} was reached, although the grid lists it as unreachable")
