"""Keys and nonces of secure links: no pair of key and nonce is used twice (docs/protocol.md §4.6)."""

from collections import defaultdict

from toolkit.checks.index import Index
from toolkit.checks.records import Record, frames_of, long_frames_of
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog, compresses, first_after

_MOST_OPERATIONS = 3
_SECURE = 2
"""Connection mode of AUTH_DONE."""


def nonce_unique(index: Index, findings: Findings) -> None:
    """nonce_unique: each link has its own key, each direction its own nonces, and each operation a new one.

    A sealed frame takes one nonce for each encryption operation, and nothing else takes any; a frame received in
    part may have taken some. A msgr 2.1 frame longer than its head takes two operations, other frames one. A
    compressed frame takes up to three, because its recorded length does not show the number.
    """
    used_up = any(record["verb"] == "use_up_nonces" for _, record in index.by_kind.get("step", ()))
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
        if not used_up:
            _judge_usage(findings, link, link.auth, mangled=index.is_mangled(link))
    _note_unrecorded(index, findings)


def _judge_usage(findings: Findings, link: LinkLog, auth: Entry, *, mangled: bool) -> None:
    if link.usage is None:
        return
    position, usage = link.usage
    since, revision = auth[0], auth[1]["revision"]
    for direction, frames in (("tx", link.tx), ("rx", link.rx)):
        sealed = frames[first_after(frames, since) :]
        due = sum(_operations(record, revision) for _, record in sealed)
        most = due
        if direction == "rx":
            most += _MOST_OPERATIONS if mangled else _begun(link, revision)
        if revision and compresses(link):
            most += sum(long_frames_of(record) for _, record in sealed)
        used = usage[f"{direction}_nonces"]
        if not due <= used <= most:
            verb = "sent" if direction == "tx" else "received"
            text = f"{len(sealed)} frames were {verb} with {used} nonces, {due} are due"
            findings.add(position, f"{link.key.link}: {text}")


def _operations(record: Record, revision: int) -> int:
    """Return the number of operations that seal a frame that is not compressed."""
    return frames_of(record) + (long_frames_of(record) if revision else 0)


def _begun(link: LinkLog, revision: int) -> int:
    """Return an upper bound of the operations for frames without a record: received in part, or bad."""
    if link.far is None:
        return _MOST_OPERATIONS
    following = link.far.tx[len(link.rx) : len(link.rx) + 1]
    return sum(_operations(record, revision) + compresses(link) for _, record in following)


def _note_unrecorded(index: Index, findings: Findings) -> None:
    silent: dict[str, int] = defaultdict(int)
    for _, link, record in index.by_tag.get("AUTH_DONE", ()):
        if record["fields"].get("con_mode") == _SECURE and link.auth is None:
            silent[link.key.node] += 1
    for node, links in sorted(silent.items()):
        findings.note(f"{node} does not record the keys of {links} secure links")
