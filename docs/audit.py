"""Writes docs/audit.md, a table of the rules of the wire, from toolkit/checks/audit/.

Run ``python docs/audit.py`` after a rule has changed.
"""

from pathlib import Path

from docs.citations import linked
from toolkit.checks.audit.rule import Rule
from toolkit.checks.audit.table import RULES

HEAD = """# Audit: the rules of the wire

Written by `python docs/audit.py`. The audit checks every frame that a sender wrote against what the
[protocol](protocol.md) requires of that sender. It needs no cooperation of the two ends, so it works for a capture
of any software. It also finds mistakes that both ends of a run share because they share msgrlab's code; the
[invariants](checks.md) of a run cannot see those.

```
msgrlab analyze captures/reef-osds/capture.pcapng.gz --keyring captures/reef-osds/keyring --audit
```

The command prints the frames that violate a rule, how many frames each rule has judged, and the rules that judged
none, with the reason. `--json` prints the same as one object. The exit code is 1 if a rule is violated. In Python:
`toolkit.read_capture(...).audit()`.

In histories of simulations, scenarios and real processes all rules together are the check `wire_rules`
([checks](checks.md)). There each end is judged by its own records: by what it had received when it sent a frame.

* A frame is judged once, as a frame of its sender. What a node receives is not judged.
* A link is not judged if it was not recorded from its banner on. After bytes that a capture lacks, or that could
  not be decoded, the messages of that link are not judged.
* A rule does not judge a frame if one of the fields that it compares is unknown.
* Rules that are marked as a difference of crimson (docs/protocol.md §4.12) do not judge a peer that may be
  crimson.

The captures of real daemons in `captures/` violate no rule.

Other parts of msgrlab check what is not in the table. The decoder (`msgrlab decode`) verifies the nonces of
secure mode, crcs and v1 signatures. `nonce_unique` checks that a msgrlab node uses a nonce once. `redial_pause`
checks the pauses between connection attempts in histories; they depend on options that a capture does not show.

## The rules

The side is the one whose frames are judged.

| rule | section | side | text |
|---|---|---|---|
"""


def row(rule: Rule) -> str:
    """A rule's line of the table."""
    sections = ", ".join(f"docs/protocol.md §{section}" for section in rule.section.split())
    return f"| `{rule.id}` | {sections} | {rule.side} | {rule.text} |\n"


def page() -> str:
    """The whole page."""
    return linked(HEAD + "".join(map(row, RULES)))


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
