"""Records one capture, inside its isolated environment: ``python -m captures.record NAME IMAGE OUT``."""

import json
import sys
import tempfile
from pathlib import Path

from captures.chamber import furnish
from captures.file_workload import MDS_OPTIONS
from captures.recipes import RECIPES
from captures.tcpdump import Tcpdump
from toolkit.cluster.monitor import RealMonitor
from toolkit.cluster.osd import RealOsd
from toolkit.cluster.real import RealCluster

PORTS = (3300, 6789)
_DAEMON = {
    "debug_ms": "1",
    "log_file": "{directory}/$name.log",
    "log_flush_on_exit": "true",
    "admin_socket": "{directory}/$name.asok",
    "keyring": "{directory}/keyring",
}
# without modules: their reports are most of a manager's traffic, too much for a small capture
_SECTIONS = {
    "client": {"debug_ms": "1", "log_file": "{directory}/client.$pid.log", "log_to_stderr": "false"},
    "mgr": _DAEMON | {"mgr_data": "{directory}/$name", "mgr_module_path": "{directory}", "mgr_pool": "false"},
    "mds": _DAEMON | {"mds_data": "{directory}/$name"} | MDS_OPTIONS,
}


def record(name: str, image: Path, out: Path) -> None:
    """Run the recipe ``name``; write raw capture, logs and keyring to ``out``."""
    recipe = RECIPES[name]
    tcpdump = Tcpdump(out / "raw.pcap")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scripts:
        furnish(image, Path(scripts))
        with RealCluster(
            recipe.osds,
            recipe.mode,
            auth=recipe.auth,
            options=recipe.options,
            sections=_SECTIONS,
            ports=PORTS,
            v1_only=recipe.v1_only,
        ) as cluster:
            recipe.work(cluster, tcpdump)
            daemons: list[RealMonitor | RealOsd] = [cluster.monitor, *cluster.osds]
            for daemon in daemons:
                daemon.admin("log flush")
            cluster.save_logs(out)
            keyrings = [cluster.keyring, *sorted(cluster.monitor.directory.glob("osd.*/keyring"))]
            (out / "times.json").write_text(json.dumps([tcpdump.began_ns, tcpdump.ended_ns]))
            (out / "keyring").write_text("".join(path.read_text() for path in keyrings))


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
