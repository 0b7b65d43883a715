"""``msgrlab replay``: replace one side of a recorded session by our messenger."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.capture_files import Files, Ports, capture_files, tcp_ports
from toolkit.cli.key_options import KeyLogs, Keyrings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolkit.replay import Difference, Replayed, ReplayResult, Saved

DIFFERS = 1


class Side(StrEnum):
    """The side of each session that our messenger replaces."""

    CLIENT = "client"
    SERVER = "server"


def replay(
    files: Files,
    side: Annotated[
        Side,
        typer.Option("--as", help="The side to replace: client opened the session first, server is its peer."),
    ],
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    session: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only this session, numbered as in `msgrlab analyze`.")
    ] = None,
    ports: Ports = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.py", help="Write the sessions as scenarios to this file, with their frames next to it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> int:
    """Replace one side of each recorded session by our messenger, and compare the frames that it sends.

    With --save each session becomes a scenario for msgrlab run, whose steps can be edited.

    Exit 1 if a frame differs and no documented rule allows it, if nothing could be replayed, if a session could
    not be saved, or if parts of the capture could not be decoded.
    """
    from toolkit.replay import NOTHING_PASSED, replay_capture

    result = replay_capture(
        capture_files(files),
        side.value,
        keyring or (),
        key_log or (),
        session=session,
        ports=tcp_ports(ports),
        save=save,
    )
    if as_json:
        print(json.dumps(_as_json(result), indent=2))
    else:
        print("\n".join(_lines(result)))
    idle = not any(each.comparison.compared for each in result.sessions)
    problem = "; ".join(filter(None, [result.problem, "nothing was replayed" if idle else None]))
    if problem:
        print(f"msgrlab: {problem}", file=sys.stderr)
    unsaved = any(each.problem not in {"", NOTHING_PASSED} for each in result.saved)
    return DIFFERS if problem or result.differs or unsaved else 0


def _lines(result: "ReplayResult") -> "Iterator[str]":
    for each in result.sessions:
        yield _line(each)
        for kind in each.comparison.kinds():
            yield f"    {_difference_text(kind[0])}" + (
                f" (and {len(kind) - 1} more like this)" if len(kind) > 1 else ""
            )
    replayed = [each for each in result.sessions if not each.not_replayed]
    found = [each.comparison for each in replayed]
    compared, equal = sum(each.compared for each in found), sum(each.equal for each in found)
    allowed = sum(each.allowed.total() for each in found)
    yield (
        f"{len(replayed)} of {len(result.sessions)} sessions replayed as {result.role}: {compared} frames "
        f"compared, {equal} equal, {allowed} differ as allowed, {compared - equal - allowed} differ"
    )
    yield from map(_saved_line, result.saved)


def _saved_line(each: "Saved") -> str:
    if each.problem:
        return f"session {each.session}, {each.title}: not saved: {each.problem}"
    without = f"; without {', '.join(each.left_out)}" if each.left_out else ""
    return f"saved {each.scenario}, {each.steps} steps{without}"


def _line(each: "Replayed") -> str:
    head = f"session {each.session}, {each.title}, {each.protocol or 'unknown protocol'} {each.mode}".rstrip()
    if each.not_replayed:
        return f"{head}: not replayed: {each.not_replayed}"
    found = each.comparison
    allowed = "".join(f", {count} allowed ({name})" for name, count in sorted(found.allowed.items()))
    differing = f", {len(found.differences)} DIFFER" if found.differences else ""
    return f"{head}: {found.compared} frames compared, {found.equal} equal{allowed}{differing}"


def _difference_text(difference: "Difference") -> str:
    place = f"frame {difference.frame}" if difference.frame is not None else "no frame"
    return f"{place} on link {difference.link}: {difference.tag}: {difference.what}"


def _as_json(result: "ReplayResult") -> dict[str, object]:
    return {
        "as": result.role.value,
        "sessions": [
            {
                "session": each.session,
                "title": each.title,
                "protocol": each.protocol,
                "mode": each.mode,
                "links": each.links,
                "authenticated": each.authenticated,
                "not_replayed": each.not_replayed or None,
                "compared": each.comparison.compared,
                "equal": each.comparison.equal,
                "allowed": dict(sorted(each.comparison.allowed.items())),
                "differences": [
                    {"link": one.link, "frame": one.frame, "tag": one.tag, "what": one.what}
                    for one in each.comparison.differences
                ],
            }
            for each in result.sessions
        ],
        "saved": [asdict(each) for each in result.saved],
        "problem": result.problem,
    }
