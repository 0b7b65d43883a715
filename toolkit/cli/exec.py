"""``msgrlab exec``: run a program on the host of a node."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, complete_nodes, take_name

NOT_FOUND = 127
_SIGNALLED = 128


def exec_(
    node: Annotated[
        str, typer.Argument(metavar="NODE", autocompletion=complete_nodes, help="The node on whose host it runs.")
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    name: ClusterName = "",
) -> int:
    """Run a program on a node's host with the terminal or pipes of this command; exit with its exit code."""
    from toolkit.cluster.supervisor.client import ask, chosen
    from toolkit.machine.labels import PROCESS_VARIABLE

    command, name = take_name(command, name, most=0)
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise LocalError(f"exec {node}: no program was given, as in: msgrlab exec {node} -- CMD")
    lease = chosen(name)
    how = ask(lease, "exec", node=node, argv=command)
    directory = how["directory"]
    sys.stdout.flush()
    try:
        code = subprocess.call(
            how["argv"],
            env={**os.environ, PROCESS_VARIABLE: str(lease.label)},
            cwd=directory if Path(directory).is_dir() else None,
        )
    except FileNotFoundError:
        raise LocalError(f"{node}: {command[0]}: there is no such program on this host") from None
    except OSError as error:
        raise LocalError(f"{node}: {command[0]}: {error.strerror}") from None
    except KeyboardInterrupt:
        return _SIGNALLED + 2
    return code if code >= 0 else _SIGNALLED - code
