"""What the test of clusters has done in a machine whose kernel has netem; prints a line of JSON."""

import json
import subprocess
from pathlib import Path

from toolkit.cluster import up
from toolkit.cluster.backends.base import Backend
from toolkit.cluster.zygote import Zygote

_SPACES = Path("/run/netns")


def main() -> None:
    Backend.zygote = Zygote()
    with up("two-peers", backend="netns") as cluster:
        cluster.fault("link a b delay-ms=50")
        (name,) = (path.name for path in _SPACES.iterdir() if path.name.endswith("-a"))
        queues = subprocess.run(["tc", "-n", name, "qdisc"], capture_output=True, text=True, check=True).stdout
        failed = [str(result) for result in cluster.check() if not result.ok]
    left = [path.name for path in _SPACES.iterdir()]
    print(json.dumps({"queues": queues, "failed": failed, "left": left}))  # noqa: T201 - what this is for


if __name__ == "__main__":
    main()
