"""Keys and nonces of secure links: no pair of them is ever used twice (protocol.md §4.6)."""

from collections import defaultdict

from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog, behind

_HEAD_BYTES = 96
"""A frame of msgr 2.1 of this length is sealed by one operation, a longer one by two or three."""
_SECURE = 2
"""Connection mode of AUTH_DONE."""


def nonce_unique(index: Index, findings: Findings) -> None:
    """nonce_unique: each link has its own key, each direction its own nonces, and each operation a new one."""
    ends: dict[tuple[str, bool], LinkLog] = {}
    senders: dict[str, LinkLog] = {}
    for link in index.links.values():
        if link.auth is None or not link.auth[1]["key"]:
            continue
        position, auth = link.auth
        if auth["tx_nonce"] == auth["rx_nonce"]:
            findings.add(position, f"{link.key.link}: both directions begin with the same nonce")
        other = ends.setdefault((auth["key"], link.dialled), link)
        if other is not link:
            findings.add(position, f"{link.key.link} has the key of {other.key.link}")
        sender = senders.setdefault(auth["tx_nonce"], link)
        if sender is not link:
            findings.add(position, f"{link.key.link} sends with the nonces of {sender.key.link}")
        _judge_usage(findings, link, link.auth)
    _note_unrecorded(index, findings)


def _judge_usage(findings: Findings, link: LinkLog, auth: Entry) -> None:
    """Every frame needs new nonces; of those that a link began to receive it may have used more."""
    if link.usage is None:
        return
    position, usage = link.usage
    since, revision = auth[0], auth[1]["revision"]
    for direction, frames in (("tx", link.tx), ("rx", link.rx)):
        lengths = [record.fields["length"] for _, record in frames[behind(frames, since) :]]
        due = len(lengths) + (sum(length > _HEAD_BYTES for length in lengths) if revision else 0)
        used = usage[f"{direction}_nonces"]
        if used < due:
            verb = "sent" if direction == "tx" else "received"
            text = f"{len(lengths)} frames were {verb} with {used} nonces, {due} are due"
            findings.add(position, f"{link.key.link}: {text}")


def _note_unrecorded(index: Index, findings: Findings) -> None:
    silent: dict[str, int] = defaultdict(int)
    for _, link, record in index.by_tag.get("AUTH_DONE", ()):
        if record["fields"].get("con_mode") == _SECURE and link.auth is None:
            silent[link.key.node] += 1
    for node, links in sorted(silent.items()):
        findings.note(f"{node} does not tell of the keys of {links} secure links")
