"""Records the captures again: ``python -m captures [NAME...]``.

Needs root, debootstrap and tcpdump, and two minutes per release for an image that does not exist yet.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from captures.chamber import enter
from captures.expected import CAPTURE, HERE, KEYRING, write_expected
from captures.recipes import RECIPES, Recipe
from captures.trim import compress, log_of, whole_connections
from messenger.errors import LocalError
from toolkit.cluster.images import default_root, find_or_build, version


def main() -> int:
    """Record the captures named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m captures", description="Record captures of real clusters.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="captures to record; by default all")
    parser.add_argument("--images", type=Path, default=default_root(), help="folder of the images of Ceph")
    parser.add_argument("--list", action="store_true", help="list the captures")
    parser.add_argument("--decode", action="store_true", help="keep the captures, but decode them again")
    options = parser.parse_args()
    unknown = set(options.names) - RECIPES.keys()
    if unknown:
        parser.error(f"unknown capture {', '.join(sorted(unknown))}; --list shows all")
    for name in options.names or RECIPES:
        if options.list:
            print(f"{name:20} {RECIPES[name].shows}")
            continue
        try:
            if not options.decode:
                make(name, options.images)
            write_expected(HERE / name)
            size_bytes = sum(path.stat().st_size for path in (HERE / name).iterdir())
            print(f"{name:20} {size_bytes / 1024:6.1f} KiB")
        except LocalError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def make(name: str, images: Path) -> None:
    """Record one capture and put it into its directory.

    Raises:
        LocalError: there is no image and none can be built, or the recording failed and printed why.
    """
    recipe = RECIPES[name]
    image = find_or_build(recipe.release, images)
    with tempfile.TemporaryDirectory() as directory:
        raw = Path(directory)
        if code := enter("captures.record", name, str(image), str(raw)):
            raise LocalError(f"{name}: the recording ended with exit code {code}")
        _finish(name, recipe, version(image), raw)


def _finish(name: str, recipe: Recipe, ceph: str, raw: Path) -> None:
    """Trim the recording, and write capture, logs and keyring into the capture's directory."""
    out = HERE / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    made_by = f"python -m captures {name}"
    notes = (f"{recipe.shows}; Ceph {ceph}", f"made by {made_by}")
    began_ns, ended_ns = json.loads((raw / "times.json").read_text())
    end_ns = whole_connections(raw / "raw.pcap", out / CAPTURE, notes, ended_ns)
    clients = 0
    for path in sorted(raw.glob("*.log")):
        text, used = log_of(path, began_ns, end_ns)
        if used:
            is_client = path.stem.startswith("client.")  # a process id follows, which changes from run to run
            compress(text.encode(), out / (f"client.{clients}.log.gz" if is_client else f"{path.name}.gz"))
            clients += is_client
    shutil.copyfile(raw / "keyring", out / KEYRING)
    about = {
        "shows": recipe.shows,
        "release": recipe.release,
        "ceph": ceph,
        "protocol": "v1" if recipe.v1_only else "v2",
        "mode": recipe.mode,
        "auth": recipe.auth,
        "options": dict(recipe.options),
        "made_by": made_by,
    }
    (out / "capture.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
