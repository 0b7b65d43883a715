"""``msgrlab fault``: inject faults into a running cluster."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, complete_fault, take_name

if TYPE_CHECKING:
    from toolkit.machine.leases import Lease

CHECK_FAILED = 1
_TIMELINE_MODE = 0o666
"""Before the umask: a timeline holds no secrets."""
_PATIENCE_S = 120.0
"""Time limit for healing the cluster and checking its invariants after the last step of a timeline."""


def fault(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAULT...",
            autocompletion=complete_fault,
            help="The fault and its arguments, as in: partition a b. --list shows all faults.",
        ),
    ] = None,
    name: ClusterName = "",
    listing: Annotated[
        bool, typer.Option("--list", help="List all faults; if a cluster is up, with those it does not support.")
    ] = False,
    chaos: Annotated[bool, typer.Option("--chaos", help="Inject random faults, heal, check invariants.")] = False,
    seed: Annotated[int, typer.Option(help="With --chaos: seed of the random faults.")] = 1,
    for_s: Annotated[
        float, typer.Option("--for", min=0.1, metavar="SECONDS", help="With --chaos: total duration.")
    ] = 30.0,
    every_s: Annotated[
        float, typer.Option("--every", min=0.01, metavar="SECONDS", help="With --chaos: mean time between faults.")
    ] = 2.0,
    lasts_s: Annotated[
        float, typer.Option("--lasts", min=0.01, metavar="SECONDS", help="With --chaos: mean duration of a fault.")
    ] = 1.0,
    only: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Draw only this fault. Repeatable.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run this timeline, heal all faults, check invariants.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the timeline to a new file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the timeline, but do not run it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Inject a fault: kill a node, partition the network, slow a link; 'msgrlab fault mend' heals all faults.

    Options stand before the first word of the fault; only --name and --json may follow it. Exit 1 if an
    invariant is violated after --chaos or --replay.
    """
    from toolkit.cluster.supervisor.client import ask, chosen

    words, name = take_name(words or [], name)
    if "--json" in words:  # no fault has it
        words.remove("--json")
        as_json = True
    if words and words[0].startswith("--"):
        raise LocalError(f"fault: unknown option {words[0]} (see 'msgrlab fault --help')")
    if listing:
        _list(name, as_json=as_json)
        return 0
    if chaos or replay is not None:
        if words or (chaos and replay is not None):
            raise LocalError("fault: a fault, --chaos and --replay exclude each other")
        wishes = {"seed": seed, "for_s": for_s, "every_s": every_s, "lasts_s": lasts_s, "faults": only or []}
        given = _timeline_of(replay) if replay else None
        lease = chosen(name)
        values = ask(lease, "draw", chaos=wishes) if given is None else given
        if save is not None:
            _save(save, values, f"msgrlab fault --chaos --seed {seed}")
        return _torment(lease, values, None if replay else seed, dry_run=dry_run, as_json=as_json)
    if not words:
        raise LocalError("fault: no fault was given; msgrlab fault --list shows all faults")
    text = words[0] if len(words) == 1 else shlex.join(words)
    outcome = ask(chosen(name), "fault", text=text)
    if as_json:
        print(json.dumps({"fault": text, "outcome": outcome}))
    elif outcome:
        print(outcome)
    return 0


def _timeline_of(path: Path) -> list[dict[str, Any]]:
    from toolkit.cluster.nemesis import Timeline

    return Timeline.load(path).values()


def _save(path: Path, values: list[dict[str, Any]], about: str) -> None:
    from messenger.files import new_file
    from toolkit.cluster.nemesis import Timeline

    try:
        with new_file(path, _TIMELINE_MODE) as file:
            file.write(Timeline.of_values(values).yaml(about).encode())
    except FileExistsError:
        raise LocalError(f"--save {path} exists already, and nothing is overwritten") from None
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from None


def _torment(
    lease: "Lease", values: list[dict[str, Any]], seed: int | None, *, dry_run: bool, as_json: bool
) -> int:
    """Run a timeline of faults and print the verdict; return the exit code."""
    from toolkit.cluster.supervisor.client import ask

    if not as_json:
        for step in values:
            print(f"{step['at_s']:8.3f}  {step['fault']}", flush=True)
    if dry_run:
        if as_json:
            print(json.dumps({"timeline": values}))
        return 0
    until_s = max((step["at_s"] for step in values), default=0.0)
    verdict = ask(lease, "torment", timeout_s=until_s + _PATIENCE_S, timeline=values, seed=seed)
    if as_json:
        print(json.dumps(verdict))
    else:
        for step, done in zip(values, verdict["done"], strict=False):
            if done["error"]:
                print(f"not done: {step['fault']}: {done['error']}")
        for id_, texts in verdict["failures"].items():
            for text in texts:
                print(f"{id_}: {text}")
        print("passed" if verdict["passed"] else "failed")
    return 0 if verdict["passed"] else CHECK_FAILED


def _list(name: str, *, as_json: bool) -> None:
    from toolkit.cluster.supervisor.client import NotKept, ask, chosen
    from toolkit.machine.leases import clusters

    known: list[dict[str, Any]] = []
    if name or len(clusters()) == 1:
        try:
            known = ask(chosen(name), "words")
        except NotKept:
            if name:
                raise
    if not known:
        from dataclasses import asdict

        from toolkit.faults.language import words

        known = [asdict(word) for word in words()]
    if as_json:
        print(json.dumps(known, indent=2))
        return
    for each in known:
        print(f"{each['usage']}")
        missing = f" Not available: {each['missing']}." if each["missing"] else ""
        print(f"    {each['about']}{missing}")
