import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.bench.idle import IdleResult

ROOT = Path(__file__).parents[3]
MOST_BYTES = 80 * 1024**2 / 10_000
CONNECTIONS = 200  # tables grow in steps
PROGRAM = f"""
import json
import sys
from toolkit.bench.idle import measure_idle

finished = []
(result,) = measure_idle([sys.argv[1]], {CONNECTIONS}, finished.append)
assert finished == [result]
print(json.dumps(result.as_json()))
"""


@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_ten_thousand_idle_connections_are_80_mib(mode: str) -> None:
    # A process of its own: what threads of other tests allocate meanwhile would be counted, too.
    command = [sys.executable, "-c", PROGRAM, mode]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    result = json.loads(done.stdout)
    assert (result["mode"], result["connections"]) == (mode, CONNECTIONS)
    assert 1000 < result["python_bytes_per_connection"] <= MOST_BYTES


def test_a_result_is_a_row_of_json() -> None:
    row = IdleResult(mode="crc", connections=7, python_bytes_per_connection=6000).as_json()
    assert row == {"mode": "crc", "connections": 7, "python_bytes_per_connection": 6000}
