"""Skips tests whose needs this machine lacks, with the doctor's finding and remedy; fails them in strict runs."""

import functools
from typing import TYPE_CHECKING

import pytest
from _pytest.outcomes import Skipped

if TYPE_CHECKING:
    from toolkit.machine.capability import Finding

REMEDY = "; to add it: "
"""In the reason of a skip, separates the missing capability from the command that adds it."""


class CannotBeAdded(Skipped):
    """A skip because a capability cannot be added to this machine; a skip in strict runs as well."""


class IsMissing(Skipped):
    """A skip because a capability is missing that can be added; a failure in strict runs."""


def require(*names: str, reason: str = "") -> None:
    """Skip the test, with the doctor's finding, unless the machine has these capabilities.

    Args:
        names: names of capabilities, as ``msgrlab doctor`` lists them.
        reason: reason why the test needs them.
    """
    why = f" ({reason})" if reason else ""
    for name in names:
        finding = _examined(name)
        if finding.available:
            continue
        if finding.remedy is None:
            raise CannotBeAdded(f"{name}: {finding.detail}{why}", _use_item_location=True)
        remedy = f"{REMEDY}{finding.remedy}"
        raise IsMissing(f"{name}: {finding.detail}{why}{remedy}", _use_item_location=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Require the capabilities that the test's ``needs`` markers name."""
    for marker in item.iter_markers("needs"):
        require(*marker.args, **marker.kwargs)


@functools.cache
def _examined(name: str) -> "Finding":
    from messenger.errors import LocalError  # noqa: PLC0415 - only tests with needs pay for it
    from toolkit.doctor import catalogue  # noqa: PLC0415

    try:
        capability = catalogue.find(name)
    except LocalError as error:
        mistake = str(error)
    else:
        return capability.examine()
    pytest.fail(f"needs({name!r}): {mistake}", pytrace=False)
