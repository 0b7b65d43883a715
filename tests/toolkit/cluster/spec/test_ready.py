"""The clusters that come with msgrlab."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from toolkit.cluster.spec import ClusterSpec, read_spec, ready_made
from toolkit.scenarios.catalogue import CATALOGUE

ROOT = Path(__file__).parents[4]
EDITORS = "# yaml-language-server: $schema=./schema.json"


def spec_of(name: str) -> ClusterSpec:
    return read_spec(name)


@pytest.mark.parametrize("name", ready_made())
def test_each_has_a_description(name: str) -> None:
    text = ready_made()[name].read_text()
    spec = spec_of(name)
    assert text.startswith(f"{EDITORS}\n# ")
    assert spec.name == name
    assert f"\nname: {name}\n" in text  # it is found there before anything is parsed
    assert spec.about
    assert all(len(line) <= 130 for line in text.splitlines())


@pytest.mark.parametrize("name", ready_made())
def test_its_scenarios_are_in_the_catalogue(name: str) -> None:
    scenarios = spec_of(name).scenarios
    assert scenarios
    assert [each for each in scenarios if each not in CATALOGUE] == []


def test_every_part_of_a_spec_is_shown_somewhere() -> None:
    shown = {field for name in ready_made() for field in spec_of(name).model_fields_set}
    assert set(ClusterSpec.model_fields) - shown == set()


def test_ready_made_specs_cover_every_kind_of_cluster() -> None:
    specs = {name: spec_of(name) for name in ready_made()}
    assert {"two-peers", "client-server", "mesh", "mixed-protocols", "secure-only", "mixed"} <= specs.keys()
    releases = {name: spec.ceph.release for name, spec in specs.items() if spec.daemons()}
    assert releases == {
        **{name: name for name in ("embedded", "nautilus", "pacific", "reef", "tentacle")},
        "mixed": "host",
        **dict.fromkeys(("rdma-ceph", "replication"), "host"),
    }
    assert {daemon.ceph for daemon in specs["tentacle"].daemons().values()} == {"mon", "osd", "mgr", "mds"}
    assert {specs["mixed-protocols"].speech_of(node).protocol for node in specs["mixed-protocols"].nodes} == {
        "v1",
        "v2",
        "v1+v2",
    }
    assert {specs["secure-only"].speech_of(node).mode for node in specs["secure-only"].nodes} == {"secure"}


def test_the_index_has_all_of_them() -> None:
    index = (ROOT / "clusters" / "README.md").read_text()
    assert [name for name in ready_made() if f"[`{name}`]({name}.yaml)" not in index] == []


def test_an_installed_wheel_finds_them(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    installed = tmp_path / "installed"
    with ZipFile(built) as wheel:
        wheel.extractall(installed)
    program = (
        "from toolkit.cluster import spec; print(spec.__file__); print(*spec.ready_made().values(), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    module, *paths = done.stdout.split()
    assert Path(module).is_relative_to(installed)
    assert {Path(path).name for path in paths} == {path.name for path in ready_made().values()}
    assert all(Path(path).is_relative_to(installed / "toolkit/cluster/ready") for path in paths)
