"""The public names of ``import messenger``."""

import subprocess
import sys

import messenger


def test_every_name_resolves() -> None:
    for name in messenger.__all__:
        assert getattr(messenger, name) is not None, name
    assert {"Messenger", "Keyring", "Policy", "Message", "Dispatcher", "Connection"} <= set(messenger.__all__)


def test_import_loads_no_heavy_modules() -> None:
    code = "import sys, messenger; print(sorted({'asyncio', 'cryptography', 'socket'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
