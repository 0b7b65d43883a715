"""Compares the records of both ends of a stream, and of an observer between them."""

from toolkit.checks.index import Index
from toolkit.checks.lengths import JUDGED_TAGS, framing_of, wrong_length
from toolkit.checks.records import frames_of
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog, compresses, first_after

_SAME = ("mode", "key", "revision", "global_id")


def agreement(index: Index, findings: Findings) -> None:
    """agreement: an end receives a prefix of what the other end sent; modes and keys agree.

    Frames are compared by tag, index, length and every field that both ends record, including message seqs.
    """
    for link in index.links.values():
        far = link.far
        if far is None:
            if link.rx and not link.dialled and link.opened is not None:
                findings.note(f"{link.key.link} has no other end in the history, so it was compared with nothing")
            continue
        if link.agreed < len(link.rx):
            if index.is_mangled(link):
                findings.note(f"{link.key.link} was changed on the way, so its ends were not compared to the end")
            else:
                _judge_difference(index, findings, link, far)
        if link.dialled and (link.is_signed or not index.is_mangled(link)):
            _judge_auth(findings, link, far)


def _judge_difference(index: Index, findings: Findings, link: LinkLog, far: LinkLog) -> None:
    """Report the first received frame that differs from the one sent."""
    position, received = link.rx[link.agreed]
    what = f"{link.key.link}: frame {received['index']} received is {received['tag']}"
    if link.agreed >= len(far.tx):
        if index.process_of(far) in index.process_ends:
            findings.note(f"{far.key.node} died before it recorded all that it sent on {far.key.link}")
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
    """decode_total: streams are split into frames without a gap, and no frame follows the end of a link.

    Messages, acks and keepalives have the length that their content requires, except on compressed links.
    ``agreement`` shows that encoding and decoding match, and that chunk borders do not matter.
    """
    for link in index.links.values():
        for frames in (link.tx, link.rx):
            _judge_cutting(findings, link, frames)
        if link.auth is not None and not compresses(link):
            _judge_lengths(findings, link, link.auth[0])


def _judge_lengths(findings: Findings, link: LinkLog, since: int) -> None:
    """Check the lengths of sent frames: received ones are compared with these, or are of other implementations."""
    framing = framing_of(link)
    for position, record in link.tx[first_after(link.tx, since) :]:
        fields = record.fields
        if fields["tag"] in JUDGED_TAGS and (due := wrong_length(framing, fields)) is not None:
            text = f"{record['tag']} is sent with {record['length']} bytes, {due} are due"
            findings.add(position, f"{link.key.link}: {text}")


def _judge_cutting(findings: Findings, link: LinkLog, frames: list[Entry]) -> None:
    if not frames:
        return
    first = frames[0][1].fields
    number, offset = first["index"], first["offset"]
    if number and link.opened is not None:
        text = f"{first['direction']} begins with frame {number}"
        findings.add(frames[0][0], f"{link.key.link}: {text}")
    for position, record in frames:
        fields = record.fields
        if fields["index"] != number or fields["offset"] != offset:
            text = f"frame {fields['index']} at byte {fields['offset']} where {number} at {offset} is due"
            findings.add(position, f"{link.key.link}: {fields['direction']} {text}")
            number, offset = fields["index"], fields["offset"]
        number += frames_of(record)
        offset += fields["length"]
    last, record = frames[-1]
    if link.closed is not None and last > link.closed:
        findings.add(last, f"{link.key.link}: {record['tag']} after the end of the link")
