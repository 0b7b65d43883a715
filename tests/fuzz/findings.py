"""Stored inputs that break a promise, and the command that repeats each of them."""

from hashlib import sha256
from pathlib import Path

FOLDER = Path("msgrlab-out/fuzz")


def replay_command(name: str, path: Path) -> str:
    """Return the command that shows a target breaking its promise."""
    return f"python -m tests.fuzz {name} --replay {path}"


def keep(name: str, data: bytes) -> Path:
    """Put an input into its target's folder."""
    path = FOLDER / name / f"replay-{sha256(data).hexdigest()[:16]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
