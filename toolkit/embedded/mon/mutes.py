"""Health warnings that are muted: ``ceph health mute``."""

import errno
import time
from datetime import UTC, datetime
from typing import Any

from toolkit.embedded.known_options import parse_span
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, age
from toolkit.embedded.mon.cluster import Cluster, Mute


def mutes_of(cluster: Cluster) -> dict[str, Mute]:
    """Return the mutes in force by the names of warnings; forgets those that are over or whose warning is gone."""
    raised, now_s = cluster.health(), time.time()
    cluster.mutes = {
        code: mute
        for code, mute in sorted(cluster.mutes.items())
        if (mute.until_s is None or mute.until_s > now_s) and (mute.is_sticky or code in raised)
    }
    return cluster.mutes


def health_word(cluster: Cluster) -> str:
    """Return ``HEALTH_WARN`` if there is a warning that is not muted, else ``HEALTH_OK``."""
    return "HEALTH_WARN" if cluster.health().keys() - mutes_of(cluster).keys() else "HEALTH_OK"


def _left(mute: Mute) -> str:
    """Return for how long a mute lasts, as ``59m``."""
    return "" if mute.until_s is None else age(2 * time.time() - mute.until_s)


def muted_text(cluster: Cluster) -> str:
    """Return ``(muted: OSDMAP_FLAGS(59m))``; nothing if nothing is muted."""
    shown = [code + (f"({_left(mute)})" if mute.until_s else "") for code, mute in mutes_of(cluster).items()]
    return f"(muted: {' '.join(shown)})" if shown else ""


def mark(mute: Mute | None) -> str:
    """Return what is before a warning in ``ceph health detail``: ``(MUTED ttl 59m, STICKY) ``."""
    if mute is None:
        return ""
    return f"(MUTED{f' ttl {_left(mute)}' if mute.until_s else ''}{', STICKY' * mute.is_sticky}) "


def mutes_value(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the mutes as JSON."""
    value = []
    for code, mute in mutes_of(cluster).items():
        about: dict[str, Any] = {"code": code}
        if mute.until_s is not None:
            about["ttl"] = datetime.fromtimestamp(mute.until_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f%z")
        value.append({**about, "sticky": mute.is_sticky, "summary": mute.summary, "count": mute.count})
    return value


@COMMANDS.add(
    "health mute name=code,type=CephString name=ttl,type=CephString,req=false name=sticky,type=CephBool,req=false",
    "mute a health warning",
    writes=True,
)
def health_mute(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph health mute CODE [TTL] [--sticky]``; ENOENT: there is no such warning now, and it is not sticky."""
    code, is_sticky, until_s = str(arguments["code"]), bool(arguments.get("sticky")), None
    if "ttl" in arguments:
        try:
            until_s = time.time() + parse_span(str(arguments["ttl"]))
        except ValueError:
            raise CommandError(errno.EINVAL, f"invalid duration: {arguments['ttl']}; give 1h30m or so") from None
    check = cluster.health().get(code)
    if check is None and not is_sticky:
        raise CommandError(errno.ENOENT, f"health alert {code} is not currently raised")
    is_kept = check is not None and not is_sticky
    summary, count = (check.summary, check.count) if check is not None and is_kept else ("", 0)
    cluster.mutes[code] = Mute(until_s, is_sticky, summary, count)
    return Answer()


@COMMANDS.add("health unmute name=code,type=CephString,req=false", "unmute a health warning, or all", writes=True)
def health_unmute(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph health unmute [CODE]``."""
    cluster.mutes = {code: mute for code, mute in cluster.mutes.items() if code != arguments.get("code", code)}
    return Answer()
