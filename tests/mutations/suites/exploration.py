"""The exploration: every schedule of small scopes, none of which may end badly."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import toolkit.exploration
from messenger.link import Protocol
from tests.mutations.code import digest_of
from tests.mutations.suites import Watch
from tests.mutations.suites.clock import at_most_s
from toolkit.exploration.explore import explore
from toolkit.exploration.scope import FaultKind, Grain, Scope

_CLIENT = Scope(pairing="lossless_client", grain=Grain.FRAME)
_ONE = Scope(pairing="lossless_peer-one", grain=Grain.SESSION)
_LOSSY = Scope(pairing="lossy_client", grain=Grain.SESSION, kinds=tuple(FaultKind))
_PEERS = Scope(pairing="lossless_peer", grain=Grain.SESSION, overtakes=0)
_SCOPES = {
    str(scope): scope
    for one in (_CLIENT, _ONE, _LOSSY, replace(_CLIENT, grain=Grain.SESSION, kinds=tuple(FaultKind)), _PEERS)
    for scope in (replace(one, protocol=Protocol.V2), replace(one, protocol=Protocol.V1))
}
_MOST_STATES = 8_000
_SCOPE_LIMIT_S = 120.0


def parts() -> list[str]:
    """The scopes."""
    return list(_SCOPES)


def digest(_part: str) -> str:
    """Return the digest of the exploration's source."""
    return _digest()


@cache
def _digest() -> str:
    (folder,) = toolkit.exploration.__path__
    return digest_of(path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.py")))


def play(chosen: Iterable[str], watch: Watch) -> None:
    """Explore scopes."""
    for part in chosen:
        if not watch.begin(part):
            return
        what = _failure(_SCOPES[part])
        if what:
            watch.notice(part, what)


def _failure(scope: Scope) -> str:
    try:
        with at_most_s(_SCOPE_LIMIT_S):
            result = explore(scope, max_states=_MOST_STATES)
    except Exception as error:  # noqa: BLE001 - of a core that breaks its contract
        return f"{type(error).__name__}: {error}"
    return result.violations[0].text if result.violations else ""
