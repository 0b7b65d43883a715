"""The history of options that the monitor keeps: ``ceph config log``, ``ceph config reset``."""

import errno
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from messenger.denc.utime import EPOCH
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster, OptionsChange
from toolkit.embedded.mon.maps import now

_KEPT_CHANGES = 500
_FIRST = OptionsChange(1, EPOCH)
"""The version without options, before any change."""
_SHOWN_CHANGES = 10


def change_options(cluster: Cluster, wanted: Mapping[tuple[str, str], str | None], name: str = "") -> None:
    """Set and remove options in one new version; without a difference there is none.

    Args:
        cluster: state of the cluster.
        wanted: values by section and option; None removes the option.
        name: what the change is called in the log.
    """
    changed = {key: (cluster.options.get(key), value) for key, value in wanted.items()}
    changed = {key: (before, after) for key, (before, after) in changed.items() if before != after}
    if not changed:
        return
    for key, (_, after) in changed.items():
        if after is None:
            del cluster.options[key]
        else:
            cluster.options[key] = after
    cluster.options_version += 1
    cluster.options_history.append(OptionsChange(cluster.options_version, now(), name, changed))
    del cluster.options_history[:-_KEPT_CHANGES]


def _newest_first(cluster: Cluster) -> list[OptionsChange]:
    newest_first = cluster.options_history[::-1]
    reaches_first = not newest_first or newest_first[-1].version == _FIRST.version + 1
    return [*newest_first, *([_FIRST] if reaches_first else [])]


@COMMANDS.add("config log name=num,type=CephInt,req=false", "print the changes of options, the newest first")
def config_log(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config log [NUMBER]``: the last 10 changes, or as many as wanted; -1: all of the last 500."""
    number = int(arguments.get("num", _SHOWN_CHANGES))
    changes = _newest_first(cluster)
    lines, value = list[str](), list[dict[str, Any]]()
    for change in changes[:number] if number >= 0 else changes:
        lines.append(f"--- {change.version} --- {change.at} ---" + f" {change.name} ---" * bool(change.name))
        described = []
        for (who, option), (before, after) in change.values.items():
            name = f"{who}/{option}"
            lines += [
                f"{sign} {name} = {text}" for sign, text in (("-", before), ("+", after)) if text is not None
            ]
            texts = {"previous_value": before, "new_value": after}
            described.append({"name": name, **{key: text for key, text in texts.items() if text is not None}})
        about = {"version": change.version, "timestamp": str(change.at), "name": change.name}
        value.append({**about, "changes": described})
    return Answer(value, "\n".join(lines))


@COMMANDS.add("config reset name=num,type=CephInt,range=0", "set options as they were at a version", writes=True)
def config_reset(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph config reset VERSION``: undo all later changes in one new version."""
    version, changes = int(arguments["num"]), _newest_first(cluster)
    if version not in [change.version for change in changes]:
        oldest = changes[-1].version
        known = f"{oldest} to {cluster.options_version}"
        raise CommandError(errno.EINVAL, f"there is no version {version} of the options; 'config log' has {known}")
    wanted: dict[tuple[str, str], str | None] = {}
    for change in takewhile(lambda each: each.version > version, changes):
        wanted |= {key: before for key, (before, _) in change.values.items()}
    change_options(cluster, wanted, f"reset to {version}")
    return Answer()
