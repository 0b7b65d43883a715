"""Two ends of one stream, and whoever listened in, tell the same story of it."""

from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog

_SAME = ("mode", "key", "revision")


def agreement(index: Index, findings: Findings) -> None:
    """agreement: what one end received is the beginning of what the other sent; modes and keys agree.

    Frames are compared by tag, number, length and every field that both tell, message seqs among them.
    """
    mangled = {frozenset((record["a"], record["b"])) for _, record in index.by_kind.get("mangle", ())}
    for link in index.links.values():
        far = link.far
        if far is None:
            if link.rx and not link.dialled and link.opened is not None:
                findings.note(f"{link.key.link} has no other end in the history, so it was compared with nothing")
            continue
        if link.agreed < len(link.rx):
            if frozenset((link.key.node, far.key.node)) in mangled:
                findings.note(f"{link.key.link} was changed on the way, so its ends were not compared to the end")
            else:
                _judge_difference(index, findings, link, far)
        untouched = frozenset((link.key.node, far.key.node)) not in mangled
        if link.dialled and (untouched or link.is_signed):
            _judge_auth(findings, link, far)


def _judge_difference(index: Index, findings: Findings, link: LinkLog, far: LinkLog) -> None:
    """The first frame that is not what was sent."""
    position, received = link.rx[link.agreed]
    what = f"{link.key.link}: frame {received['index']} received is {received['tag']}"
    if link.agreed >= len(far.tx):
        if index.process_of(far) in index.process_ends:
            findings.note(f"{far.key.node} died before it could tell all that it sent on {far.key.link}")
        else:
            findings.add(position, f"{what}, which {far.key.link} never sent")
        return
    sent = far.tx[link.agreed][1]
    differing = [name for name in ("index", "tag", "length") if sent[name] != received[name]] or [
        name for name, value in sent["fields"].items() if received["fields"].get(name, value) != value
    ]
    findings.add(position, f"{what}, sent was {sent['tag']}; they differ in {', '.join(differing)}")


def _judge_auth(findings: Findings, link: LinkLog, far: LinkLog) -> None:
    if link.auth is None or far.auth is None:
        return
    position, ours = link.auth
    theirs = far.auth[1]
    pairs = [(name, name) for name in _SAME] + [("tx_nonce", "rx_nonce"), ("rx_nonce", "tx_nonce")]
    for mine, other in pairs:
        if ours[mine] != theirs[other]:
            text = f"{mine} is {_shown(ours[mine])}, but {other} of {far.key.link} is {_shown(theirs[other])}"
            findings.add(position, f"{link.key.link}: {text}")


def _shown(value: object) -> str:
    return "none" if value == "" else str(value)


def decode_total(index: Index, findings: Findings) -> None:
    """decode_total: streams are cut into frames without a gap, and nothing is read behind their ends.

    That chunking does not matter, and that what is encoded is what is decoded, shows in ``agreement``.
    """
    for link in index.links.values():
        for frames in (link.tx, link.rx):
            _judge_cutting(findings, link, frames)


def _judge_cutting(findings: Findings, link: LinkLog, frames: list[Entry]) -> None:
    if not frames:
        return
    first = frames[0][1].fields
    number, offset = first["index"], first["offset"]
    for position, record in frames:
        fields = record.fields
        if fields["index"] != number or fields["offset"] != offset:
            text = f"frame {fields['index']} at byte {fields['offset']} where {number} at {offset} is due"
            findings.add(position, f"{link.key.link}: {fields['direction']} {text}")
            number, offset = fields["index"], fields["offset"]
        number += 1
        offset += fields["length"]
    last, record = frames[-1]
    if link.closed is not None and last > link.closed:
        findings.add(last, f"{link.key.link}: {record['tag']} behind the end of the link")
