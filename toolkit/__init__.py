"""Everything around the messenger: scenarios, faults, checks, reports, probes.

For notebooks and tests the short ways in are :func:`run`, :func:`catalogue`, :func:`live` and
:func:`read_capture`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pandas import DataFrame

    from toolkit.dissect.reading import Capture
    from toolkit.scenarios.runner import ScenarioRun
    from toolkit.simulation.swarm import Outcome

__all__ = ["catalogue", "live", "read_capture", "run"]


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
        scenario: its id, as ``msgrlab list`` shows it; of one that has several cases the first, or the one named
            as in ``HS-03[HELLO READ]``.
        backend: ``sim`` (virtual time, no sockets) or ``local`` (processes on loopback).
        mode: connection mode, ``crc``, ``secure`` or ``compressed``.
        seed: decides everything random.
        cuts: where to cut instead of the scenario's own places, each ``SENDER:TAG[:NTH[:BYTE]]``: at the NTH
            frame TAG from SENDER, after BYTE bytes of it, or behind it.
        workers: how many threads (in ``sim``: shards) of each node run its open connections.
        protocol: ``v1`` or ``v2``.
        cipher: type of the cephx key that the nodes share, ``aes`` or ``aes256k``.

    Raises:
        LocalError: there is no such scenario, or it cannot run that way.
    """
    from toolkit.scenarios.catalogue import find  # noqa: PLC0415 - importing toolkit costs nothing
    from toolkit.scenarios.runner import run_scenario  # noqa: PLC0415
    from toolkit.scenarios.ways import Way  # noqa: PLC0415

    way = Way.of(protocol, mode, cipher, workers)
    return run_scenario(find(scenario), backend, way, seed, cuts)


def catalogue() -> "DataFrame":
    """Every scenario: a row each, with its id, family, number of cases, where it runs and what it shows."""
    from pandas import DataFrame  # noqa: PLC0415 - importing toolkit costs nothing

    from toolkit.scenarios.catalogue import CATALOGUE  # noqa: PLC0415

    rows = [
        {
            "id": scenario.id,
            "name": scenario.name,
            "family": scenario.family,
            "cases": len(scenario.cases),
            "ways": len(scenario.ways),
            "backends": " ".join(scenario.backends),
            "title": scenario.title,
            "description": scenario.description,
        }
        for scenario in CATALOGUE.values()
    ]
    return DataFrame(rows).set_index("id")


def live(seed: int) -> "Outcome":
    """Live the life of a seed on the simulator: what it draws, what becomes of it, and what is wrong with that."""
    from toolkit.simulation.swarm import live as live_seed  # noqa: PLC0415 - as above

    return live_seed(seed)


def read_capture(
    path: "str | Path", keyrings: "Sequence[str | Path]" = (), key_logs: "Sequence[str | Path]" = ()
) -> "Capture":
    """A capture file, decoded with the keys given; it shows itself in a notebook.

    Args:
        path: of the file, pcap or pcapng, compressed by gzip or not; or of a folder as in ``captures/``, which has
            a keyring beside the capture.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; those inside the capture are used in any case.

    Raises:
        LocalError: a keyring or key log that is none.
    """
    from pathlib import Path  # noqa: PLC0415 - importing toolkit costs nothing

    from toolkit.dissect.reading import Capture  # noqa: PLC0415

    if Path(path).is_dir():
        return Capture.folder(path)
    return Capture(path, keyrings, key_logs)
