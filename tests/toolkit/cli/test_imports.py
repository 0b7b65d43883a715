"""Commands that ask a running cluster are quick because they import little: what is slow to import stays out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters import COMMAND_TIMEOUT_S, done, environment, state

__all__ = ["state"]

HEAVY = {
    *("asyncio", "cryptography", "IPython", "jinja2", "lz4", "numpy", "pandas", "pyroute2", "ruamel", "scapy"),
    *("zstandard", "yaml", "messenger.config", "messenger.denc", "messenger.messages", "toolkit.checks"),
    *("toolkit.cluster.cluster", "toolkit.cluster.spec", "toolkit.dissect", "toolkit.faults", "toolkit.network"),
    *("toolkit.node", "toolkit.scenarios", "toolkit.cli.analyze", "toolkit.cli.bench"),
}
CAPTURE = Path(__file__).parents[3] / "captures/reef-crc/capture.pcapng.gz"
CODE = """
import json, sys
from toolkit.cli.main import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def imported(*arguments: str) -> set[str]:
    """The modules of a command that has succeeded."""
    command = [sys.executable, "-c", CODE, *arguments]
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, env=environment(), check=True
    )
    result = json.loads(finished.stderr.splitlines()[-1])
    assert result["code"] == 0
    return set(result["modules"])


@pytest.mark.usefixtures("state")
def test_cluster_commands_import_no_heavy_modules() -> None:
    commands = {
        "up two-peers": {"rich"},
        "tell a snapshot": {"rich"},
        "fault reset a b": {"rich"},
        "fault --list": {"rich"},
        "status --json": {"rich"},
        "status": set(),
    }
    for command, more in commands.items():
        modules = imported(*command.split())
        assert "toolkit.cluster.supervisor.client" in modules
        assert modules & (HEAVY | more) == set(), command
    done("down")


def test_only_the_command_that_is_given_is_imported() -> None:
    modules = imported("status", "--help")
    assert {name for name in modules if name.startswith("toolkit.cli.") and "status" in name} == {
        "toolkit.cli.status"
    }
    assert modules & {"toolkit.cli.up", "toolkit.cli.top", *HEAVY} == set()
    assert {"toolkit.cli.up", "toolkit.cli.top"} <= imported("--help")


def test_a_simulated_run_imports_no_sockets_clusters_or_pages() -> None:
    modules = imported("run", "reconnect")
    assert "toolkit.lab.sim.sim_lab" in modules
    elsewhere = {
        "toolkit.cluster",
        "toolkit.conformance",
        "toolkit.embedded",
        "toolkit.matrix",
        "toolkit.report.html",
    }
    libraries = {"IPython", "asyncio", "distributed", "docker", "jinja2", "numpy", "pandas", "pyroute2", "ruamel"}
    assert modules & (elsewhere | libraries | {"multiprocessing", "scapy", "ssl", "yaml"}) == set()


def modules_after(imports: str) -> set[str]:
    """The modules of an interpreter that has run these imports."""
    code = f"{imports}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=True
    ).stdout
    return set(json.loads(printed))


def test_importing_messenger_loads_no_submodule() -> None:
    modules = modules_after("import messenger")
    assert modules & {"asyncio", "cryptography", "lz4", "messenger.messages", "messenger.session"} == set()


def test_taking_a_capture_imports_no_numpy() -> None:
    modules = modules_after("from toolkit.capture import capturing")
    assert "toolkit.capture.formats.writer" in modules
    assert "numpy" not in modules


def test_decoding_imports_no_event_loop_and_no_tables() -> None:
    modules = imported("decode", str(CAPTURE), "--format", "json", "--limit", "1")
    assert "toolkit.dissect.decode" in modules
    assert modules & {"asyncio", "jinja2", "messenger.config", "pandas", "pyarrow", "scapy", "yaml"} == set()
