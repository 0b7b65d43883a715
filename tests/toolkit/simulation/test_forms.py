"""The Python form of the messenger and the compiled one have the same histories, byte for byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HISTORIES = """
import sys
from messenger.form import MESSENGER
from toolkit import run
from toolkit.simulation.swarm import live

print(MESSENGER.form)
for seed in range(12):
    print(live(seed).history.dump())
for name in sys.argv[1:]:
    for way in {"mode": "crc"}, {"mode": "secure"}, {"mode": "crc", "workers": 2}, {"protocol": "v1"}:
        print(run(name, **way).history.dump())
"""
SCENARIOS = "LC-01", "LP-01", "RS-01"


def histories(pure: str) -> tuple[str, str]:
    """The form that ran, and all that happened in it."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "MSGRLAB_PURE": pure}
    command = [sys.executable, "-P", "-c", HISTORIES, *SCENARIOS]
    form, _, histories = subprocess.check_output(command, env=env, text=True).partition("\n")
    return form, histories


@pytest.mark.needs("compiled")
def test_both_forms_have_the_same_histories() -> None:
    python, compiled = histories("1"), histories("")
    assert (python[0], compiled[0]) == ("Python", "compiled")
    assert python[1].count("\n") > 1000
    assert python[1] == compiled[1]
