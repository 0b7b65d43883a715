"""Everything around the messenger: scenarios, faults, checks, reports, probes.

For notebooks and tests use :func:`run`, :func:`open_lab`, :func:`catalogue`, :func:`live`, :func:`read_capture`
and :func:`top`; files of scenarios import ``Lab`` and ``scenario``.
"""

from typing import TYPE_CHECKING

from toolkit.form import TOOLKIT as _HOT_MODULES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from pandas import DataFrame

    from toolkit.dissect.capture import Capture
    from toolkit.dissect.top import CaptureTop, LiveTop
    from toolkit.lab.lab import Lab
    from toolkit.scenarios.own import scenario
    from toolkit.scenarios.runner import ScenarioRun
    from toolkit.scenarios.scenario import Script
    from toolkit.simulation.swarm import Outcome

_HOT_MODULES.choose()

__all__ = ["Lab", "catalogue", "live", "open_lab", "read_capture", "run", "scenario", "top"]


def __getattr__(name: str) -> object:
    """Import ``Lab`` and ``scenario`` on first use, so that importing toolkit alone costs nothing."""
    if name == "Lab":
        from toolkit.lab.lab import Lab  # noqa: PLC0415

        return Lab
    if name == "scenario":
        from toolkit.scenarios.own import scenario  # noqa: PLC0415

        return scenario
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(
    scenario: "str | Script",
    backend: str = "sim",
    mode: str = "crc",
    *,
    seed: int = 1,
    cuts: "Sequence[str]" = (),
    workers: int = 0,
    protocol: str = "v2",
    cipher: str = "aes",
) -> "ScenarioRun":
    """Run a scenario and judge its history.

    Args:
        scenario: its id, as ``msgrlab list`` shows it, ``FILE::NAME``, or a function with ``@scenario``; of
            several cases the first, unless named as in ``HS-03[HELLO READ]``.
        backend: ``sim`` (virtual time, no sockets), ``local`` (processes on loopback), ``netns``, ``docker`` or
            ``vm``.
        mode: connection mode, ``crc``, ``secure`` or ``compressed``.
        seed: decides everything random.
        cuts: where to cut instead of the scenario's own places, each ``SENDER:TAG[:NTH[:BYTE]]``: at the NTH frame
            TAG from SENDER, after BYTE bytes of it, or after it.
        workers: number of threads (in ``sim``: shards) of each node that run its open connections.
        protocol: ``v1`` or ``v2``.
        cipher: type of the cephx key that the nodes share, ``aes`` or ``aes256k``.

    Raises:
        LocalError: there is no such scenario, or it cannot run in that way.
    """
    from toolkit.lab.ways import Way  # noqa: PLC0415
    from toolkit.scenarios.catalogue import wanted  # noqa: PLC0415 - importing toolkit costs nothing
    from toolkit.scenarios.runner import run_scenario  # noqa: PLC0415

    way = Way.of(protocol, mode, cipher, workers)
    return run_scenario(wanted(scenario), backend, way, seed, cuts)


def open_lab(
    backend: str = "sim",
    mode: str = "crc",
    *,
    seed: int = 1,
    protocol: str = "v2",
    cipher: str = "aes",
) -> "Lab":
    """Open a lab: nodes, links and faults, driven by the same verbs as the scenarios of the catalogue.

    In simulation, time passes only inside verbs that wait::

        lab = toolkit.open_lab(mode="secure")
        lab.two()  # lossless peers a and b
        lab.exchange(count=3)
        lab.cut("a", "b")
        lab.sessions()  # a DataFrame
        lab.chart()

    Args:
        backend: ``sim`` (virtual time, no sockets) or ``local`` (sockets on loopback), ``netns``, ``docker``.
        mode: connection mode, ``crc``, ``secure`` or ``compressed``.
        seed: decides everything random.
        protocol: ``v1`` or ``v2``.
        cipher: type of the cephx key that the nodes share, ``aes`` or ``aes256k``.

    Raises:
        LocalError: an unknown backend, mode, protocol or cipher.
        Unsupported: this machine does not have the backend, or the protocol not the mode.
    """
    from toolkit.lab.ways import Way  # noqa: PLC0415 - importing toolkit costs nothing
    from toolkit.scenarios import runner  # noqa: PLC0415

    return runner.open_lab(backend, Way.of(protocol, mode, cipher, 0), seed)


def catalogue() -> "DataFrame":
    """A table of every scenario, those of the user's project included, one row each.

    Columns: id (the index), name, family, number of cases and ways, backends, title and description.
    """
    from toolkit.scenarios.catalogue import select  # noqa: PLC0415 - importing toolkit costs nothing
    from toolkit.tables import data_frame  # noqa: PLC0415

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
        for scenario in select("all")
    ]
    return data_frame(rows).set_index("id")


def live(seed: int, keep: "Collection[int] | None" = None) -> "Outcome":
    """Run the random life of a seed on the simulator, from drawing its schedule to judging its history.

    Args:
        seed: decides everything random.
        keep: indices of the operations of its schedule to carry out, as in ``keep=[0, 3]``; None: all.
    """
    from toolkit.simulation.swarm import live as live_seed  # noqa: PLC0415 - as above

    return live_seed(seed, keep=keep)


def read_capture(
    path: "str | Path",
    keyrings: "str | Path | Sequence[str | Path]" = (),
    key_logs: "str | Path | Sequence[str | Path]" = (),
) -> "Capture":
    """Decode a capture file with the keys given; in a notebook the result shows itself.

    Args:
        path: a capture file, pcap or pcapng, compressed by gzip or not; or a folder as in ``captures/``, which has
            a keyring beside the capture; or the name of such a folder of this project, as in
            ``read_capture("tentacle-osds")``.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; those inside the capture are used in any case.

    Raises:
        LocalError: there is no such capture, or a file is no keyring or no key log.
    """
    from pathlib import Path  # noqa: PLC0415 - importing toolkit costs nothing

    from toolkit.capture.ready_made import find_capture  # noqa: PLC0415
    from toolkit.dissect.capture import Capture  # noqa: PLC0415

    if isinstance(keyrings, str | Path):
        keyrings = [keyrings]
    if isinstance(key_logs, str | Path):
        key_logs = [key_logs]
    found = find_capture(path)
    if found.is_dir():
        return Capture.folder(found, keyrings, key_logs)
    return Capture(found, keyrings, key_logs)


def top(
    target: "str | Path",
    keyrings: "Sequence[str | Path]" = (),
    key_logs: "Sequence[str | Path]" = (),
    *,
    ports: str | None = None,
    interval_s: float | None = None,
    count: int | None = None,
) -> "CaptureTop | LiveTop":
    """Show the sessions of a live capture target, or of a capture file; iterating yields snapshots.

    In a notebook it shows the table of its newest snapshot, and takes one first if there is none::

        for snapshot in toolkit.top("lo", count=10):
            print(snapshot.rows[0].entity, snapshot.rows[0].bytes_out_per_s)

    Args:
        target: ``lo``, ``any``, ``netns:NAME``, ``docker:CONTAINER`` or ``pid:N``, which need root; ``ssh:HOST``;
            or the path of a capture.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; of a capture target one, which is followed while it grows.
        ports: TCP ports of a capture target, like ``3300,6800-7568``, or ``all``; None: Ceph's.
        interval_s: seconds between snapshots, 1 unless given; for a file None means one snapshot at its end.
        count: number of snapshots of a capture target; None: without end.

    Raises:
        LocalError: there is no such target or file, or keys cannot be read.
        Unsupported: the target is a container, and this machine has no Docker.
    """
    from pathlib import Path  # noqa: PLC0415 - importing toolkit costs nothing

    from toolkit.capture.ports import CEPH_PORTS  # noqa: PLC0415
    from toolkit.dissect.top import open_top  # noqa: PLC0415

    files = [Path(path) for path in keyrings], [Path(path) for path in key_logs]
    return open_top(str(target), *files, ports=ports or CEPH_PORTS, interval_s=interval_s, count=count)
