"""Each ready-made cluster as a user runs it: up, judged, every command of its comments, and down."""

import json
import re
import shlex
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import waiting
from tests.support.clusters import answer_of, done, msgrlab
from toolkit.cluster.images import names as images
from toolkit.cluster.spec import ClusterSpec, read_spec, ready_made
from toolkit.cluster.supervisor.client import ask
from toolkit.lab.ways import Way
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease
from toolkit.scenarios.catalogue import find
from toolkit.scenarios.runner import run_scenario

PATIENCE_S = 60.0
SETTINGS = {"chaos": ["chaos.for_s=4"]}
"""What a test has no time for is shortened."""
LABS = {"process": "local", "netns": "netns", "docker": "netns", "swarm": "netns"}
"""Where scenarios of a cluster run, which bring up nodes of their own."""
COMMAND = re.compile(r"# +msgrlab (fault|exec|tell|status|decode|analyze|chart) ?(.*?)(?: {2,}|$)")
MORE_FAULTS = re.compile(r"'((?:thaw|start|heal)[^']*)'")
"""In what a comment says of a fault: how it ends."""


@cache
def spec_of(name: str) -> ClusterSpec:
    return read_spec(name)


def _cases() -> Iterator[Any]:
    """Yield the ready-made specs as parameters, each with the capabilities that it needs."""
    for name in ready_made():
        spec = spec_of(name)
        needs = {"netns": ["netns", "nft"], "docker": ["docker", "netns"]}.get(spec.backend, [])
        if spec.daemons():
            release = spec.ceph.release
            of_host = {"host": ["ceph-mon", "ceph-osd", "ceph"], "embedded": ["ceph"]}
            needs += of_host.get(release, [f"ceph-image-{release}"])
        needs += ["capture"] if spec.captures else []
        needs += ["rxe", "pyverbs"] if spec.transport == "rdma" else []
        needs += ["iproute2"] if any("ss" in arguments for _, arguments in advice(name)) else []
        group = "ceph" if spec.daemons() else name
        yield pytest.param(name, marks=[pytest.mark.needs(*needs), pytest.mark.xdist_group(f"ready-made-{group}")])


def eventually(condition: Callable[[], object]) -> None:
    waiting.eventually(condition, PATIENCE_S, lambda: msgrlab("status", "--json").stdout)


def advice(name: str) -> Iterator[tuple[str, list[str]]]:
    """The commands in a spec's comments, and the faults that end what they do."""
    for line in ready_made()[name].read_text().splitlines():
        if found := COMMAND.match(line):
            yield found[1], shlex.split(found[2])
            if found[1] != "fault":
                continue
        if line.startswith("#"):
            for more in MORE_FAULTS.findall(line[found.end() if found else 0 :]):
                yield "fault", [more]


def status_of(cluster: str) -> Any:
    """Return the JSON of `msgrlab status` without the command, which takes longer to start than to answer."""
    return ask(Lease.find(cluster), "status")


def is_well(cluster: str) -> bool:
    """True if all nodes are up and no invariant has failed; records that decide it may arrive a moment later."""
    status = status_of(cluster)
    return {node["state"] for node in status["nodes"].values()} == {"up"} and not status["checks"]["failed"]


def traffic_flows(cluster: str, spec: ClusterSpec) -> bool:
    nodes = status_of(cluster)["nodes"]
    return all(
        any(session["in_seq"] > 0 for session in nodes[traffic.receiver]["sessions"])
        for traffic in spec.traffic
        if not traffic.keepalive
    )


@pytest.mark.parametrize("name", list(_cases()))
def test_ready_made_cluster_behaves_as_documented(name: str, tmp_path: Path) -> None:
    spec = spec_of(name)
    backend = spec.backend
    if backend == "docker":
        for image in ("node", *({f"ceph:{spec.ceph.release}"} if spec.daemons() else ())):
            images.build(image, announce=lambda _: None)
    cluster = f"{name[:20]}-{uuid.uuid4().hex[:8]}"
    settings = [word for setting in SETTINGS.get(name, []) for word in ("--set", setting)]
    ready = answer_of("up", name, "--name", cluster, "--json", *settings)
    lease = Lease.find(cluster)
    try:
        assert ready["nodes"].keys() == spec.nodes.keys()
        status = status_of(cluster)
        assert (status["spec"], status["backend"]) == (name, backend)
        if spec.timeline or spec.chaos:
            eventually(lambda: not status_of(cluster)["nemesis"]["next"])
            assert not status_of(cluster)["nemesis"]["problems"]
            done("fault", "--name", cluster, "heal")
        eventually(lambda: is_well(cluster))
        eventually(lambda: traffic_flows(cluster, spec))
        for verb, arguments in advice(name):
            follow(cluster, verb, arguments, Path(ready["directory"]))
        for node, client in spec.nodes.items():
            if getattr(client, "rados", None):
                done("tell", "--name", cluster, node, "fill", "--count", "5")
                assert answer_of("tell", "--name", cluster, node, "verify")["wrong"] == []
        eventually(lambda: is_well(cluster))
        for node in status["captures"]:
            assert " tid " in msgrlab("decode", status["captures"][node]).stdout
    finally:
        kept = tmp_path / "kept"
        down = done("down", cluster, "--keep", str(kept))
    assert down == f"{cluster}: down\n"
    assert leftovers(lease, docker_url="" if backend == "docker" else None) == []
    assert (kept / cluster / "history.ndjson").stat().st_size > 0


def follow(cluster: str, verb: str, arguments: list[str], directory: Path) -> None:
    """Do what a comment of the spec describes."""
    if verb in ("fault", "tell", "exec"):
        done(verb, "--name", cluster, *arguments)
    elif verb == "status":
        (status,) = json.loads(msgrlab("status", cluster, "--json").stdout)["clusters"]
        assert status["name"] == cluster
    else:  # packets are written a second later; the last frame is perhaps not whole yet, which is exit code 1
        eventually(lambda: msgrlab(verb, str(directory / arguments[0]), *arguments[1:]).stdout)


def test_advice_reads_the_commands_of_a_page() -> None:
    assert list(advice("client-server")) == [
        ("fault", ["freeze client0"]),
        ("fault", ["thaw client0"]),
        ("fault", ["kill server"]),
        ("fault", ["start server"]),
    ]
    assert ("exec", ["mon", "--", "ceph", "-s"]) in advice("mixed")
    assert ("decode", ["client.pcapng"]) in advice("secure-only")
    assert all(list(advice(name)) for name in ready_made() if name not in {"breakpoints", "chaos", "partition"})


def _scenarios() -> Iterator[Any]:
    """Once for each backend and way of speaking, whichever cluster names it."""
    seen = set()
    for name in ready_made():
        spec = spec_of(name)
        for scenario in spec.scenarios:
            job = (scenario, *_where(spec, scenario))
            if job not in seen:
                seen.add(job)
                needs = [pytest.mark.needs("netns", "nft")] if job[1] == "netns" else []
                yield pytest.param(*job, id=f"{name}-{scenario}-{job[1]}-{job[2].name}", marks=needs)


def _where(spec: ClusterSpec, scenario: str) -> tuple[str, Way]:
    """Return hosts like the cluster's and its way for a scenario, as far as the scenario supports them."""
    row = find(scenario)
    speech = spec.speaks
    own = next(
        (way for way in row.ways if (way.protocol, way.mode) == (speech.protocol, speech.mode)), row.ways[0]
    )
    fitting = [lab for lab in (LABS[spec.backend], "sim") if row.cases_in(own, lab)]
    return fitting[0], own


@pytest.mark.parametrize(("scenario", "backend", "way"), list(_scenarios()))
def test_a_scenario_of_a_cluster_passes(scenario: str, backend: str, way: Way) -> None:
    row = find(scenario)
    run = run_scenario(row, backend, way, case=row.cases_in(way, backend)[0])
    assert run.passed, f"{run.replay_command}: {run.complaints}"


def test_scenarios_of_a_cluster_run_on_its_backend() -> None:
    runs = answer_of("run", *spec_of("two-peers").scenarios, "--backend", "local", "--json")["runs"]
    assert {run["scenario"] for run in runs} >= {find(each).id for each in spec_of("two-peers").scenarios}
