"""Everything around the messenger: scenarios, faults, checks, reports, probes.

For notebooks and tests the short way in is :func:`run`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.scenarios.runner import ScenarioRun

__all__ = ["run"]


def run(
    scenario: str,
    backend: str = "sim",
    mode: str = "crc",
    *,
    seed: int = 1,
    cuts: "Sequence[str]" = (),
    workers: int = 0,
    protocol: str = "v2",
    cipher: str = "aes",
) -> "ScenarioRun":
    """Run a scenario and judge what happened.

    Args:
        scenario: its id, as ``msgrlab list`` shows it.
        backend: ``sim`` (virtual time, no sockets) or ``local`` (processes on loopback).
        mode: connection mode, ``crc`` or ``secure``.
        seed: decides everything random.
        cuts: where to cut instead of the scenario's own places, each ``SENDER:TAG[:NTH[:BYTE]]``: at the NTH
            frame TAG from SENDER, after BYTE bytes of it, or behind it.
        workers: how many threads (in ``sim``: shards) of each node run its open connections.
        protocol: ``v1`` or ``v2``.
        cipher: type of the cephx key that the nodes share, ``aes`` or ``aes256k``.

    Raises:
        LocalError: there is no such scenario, or it cannot run that way.
    """
    from messenger.cephx.ciphers import KeyType  # noqa: PLC0415 - importing toolkit costs nothing
    from messenger.errors import LocalError  # noqa: PLC0415
    from messenger.link import Protocol  # noqa: PLC0415
    from toolkit.scenarios.catalogue import find  # noqa: PLC0415
    from toolkit.scenarios.runner import run_scenario  # noqa: PLC0415

    if protocol not in list(Protocol):
        raise LocalError(f"unknown protocol {protocol!r}; known: {', '.join(Protocol)}")
    spoken, key_type = Protocol(protocol), KeyType.from_label(cipher)
    return run_scenario(
        find(scenario), backend, mode, seed, cuts, workers=workers, protocol=spoken, key_type=key_type
    )
