"""No plain text on secure links, and no mode weaker than both sides prefer (docs/protocol.md §4.6, §4.7)."""

from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog, first_after

_BLOCK_BYTES = 16
_LEAST_BYTES = (64, 96)
"""Length of the shortest sealed frame of msgr 2.0 and of msgr 2.1."""


def no_plaintext(index: Index, findings: Findings) -> None:
    """no_plaintext: after AUTH_DONE a secure link carries sealed frames only, AUTH_SIGNATURE first.

    Sealed frames are recognised by their lengths; ``leak`` records show payload that an observer could read.
    """
    for position, record in index.by_kind.get("leak", ()):
        findings.add(position, f"plain text between {record['a']} and {record['b']}: {record['detail']}")
    for link in {id(link): link for _, link, _ in index.by_tag.get("AUTH_DONE", ())}.values():
        if link.auth is None:
            findings.note(f"{link.key.node} does not record how its peers authenticate")
            continue
        since, auth = link.auth
        for frames in (link.tx, link.rx):
            first = first_after(frames, since)
            if first < len(frames):
                _judge_signature(findings, link, frames, first)
                if auth["mode"] == "secure":
                    _judge_lengths(findings, link, frames[first:], _LEAST_BYTES[auth["revision"] > 0])


def _judge_signature(findings: Findings, link: LinkLog, frames: list[Entry], first: int) -> None:
    """AUTH_SIGNATURE covers the handshake so far. A frame received in its place must break the link."""
    position, record = frames[first]
    if record["tag"] == "AUTH_SIGNATURE":
        return
    refused = record["direction"] == "rx" and first + 1 == len(frames)
    if not refused or not any(at > position for at, _ in link.faults):
        what = "taken" if record["direction"] == "rx" else "sent"
        findings.add(position, f"{link.key.link}: {record['tag']} is {what} where AUTH_SIGNATURE is due")


def _judge_lengths(findings: Findings, link: LinkLog, frames: list[Entry], least_bytes: int) -> None:
    for position, record in frames:
        length = record.fields["length"]
        if length < least_bytes or length % _BLOCK_BYTES:
            what = "taken" if record["direction"] == "rx" else "sent"
            text = f"{record['tag']} of {length} bytes is {what} unsealed on a secure link"
            findings.add(position, f"{link.key.link}: {text}")


def no_downgrade(index: Index, findings: Findings) -> None:
    """no_downgrade: both ends use the connector's first mode that the acceptor allows.

    They also agree on the cipher of the session key, which comes from the ticket. If an attacker changed the
    negotiation, the signatures reveal it, so only links that continue after them are judged.
    """
    for link in index.links.values():
        if link.auth is None:
            continue
        position, auth = link.auth
        mode, modes = auth["mode"], auth["modes"].split()
        if mode not in modes:
            findings.add(position, f"{link.key.link} is in mode {mode}; allowed is {auth['modes']}")
        far = link.far.auth if link.far is not None else None
        if far is None or link.far is None or not link.dialled:
            continue
        if index.is_mangled(link) and not link.is_signed:
            continue
        theirs = far[1]
        for name in ("mode", "method", "cipher"):
            if auth[name] != theirs[name]:
                text = f"{name} is {auth[name]} at {link.key.node}, {theirs[name]} at {link.far.key.node}"
                findings.add(position, f"{link.key.link}: {text}")
        best = next((one for one in modes if one in theirs["modes"].split()), mode)
        if mode != best:
            findings.add(position, f"{link.key.link} is in mode {mode}, but both sides would have {best} first")
