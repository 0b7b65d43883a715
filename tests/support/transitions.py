"""Transitions of handshakes: the steps that links take, with those that wait for the application in between."""

from collections.abc import Callable
from typing import Any

import pytest

from messenger.link import Link


def step_noter(steps: set[tuple[Any, Any, Any]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function of link, state and frame that notes, once the frame is handled, where it has led."""
    waiting: dict[int, tuple[Link, Any, Any]] = {}
    unblock = Link.unblock

    def note(link: Link, before: Any, key: Any) -> None:
        if link.held:
            waiting[id(link)] = link, before, key
        else:
            steps.add((before, key, type(before)(link.state)))

    def unblocked(link: Link, now: float) -> None:
        pending = waiting.pop(id(link), None)
        state_when_held = link.state
        unblock(link, now)
        if pending is not None and not link.closed:
            _, before, key = pending
            if link.held and link.state == state_when_held:
                waiting[id(link)] = pending
            else:
                note(link, before, key)

    monkeypatch.setattr(Link, "unblock", unblocked)
    return note
