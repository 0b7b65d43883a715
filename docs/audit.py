"""Writes docs/audit.md, a table of the rules of the wire, from toolkit/checks/audit/.

Run ``python docs/audit.py`` after a rule has changed.
"""

from pathlib import Path

from docs.citations import linked
from toolkit.checks.audit.rule import Rule
from toolkit.checks.audit.table import RULES

HEAD = """# Audit

Written by `python docs/audit.py`. Both ends of a run share our code, so a mistake that they share breaks no
end-to-end invariant. The audit judges the frames themselves, one by one, by what the [protocol](protocol.md)
demands of their sender: in a capture of anybody, without the cooperation of the ends, and in the history of a
run.

```
msgrlab analyze captures/reef-osds/capture.pcapng.gz --keyring captures/reef-osds/keyring --audit
```

prints the frames that break a rule with their numbers, how many frames each rule has judged, and the rules that
judged none, with the reason; `--json` the same as one object. Exit code 1 if a rule is broken. From Python:
`toolkit.read_capture(...).audit()`.

In histories of simulations, scenarios and live runs all rules together are the check `wire_rules`
([checks](checks.md)). There each end is judged by its own records, that is by what it had received when it sent.

* What a node sends is judged, never what it receives: each frame is judged once, at its sender.
* Links that were not recorded from their banners on are not judged. Behind bytes that a capture lacks, or that
  could not be decoded, the messages of a link are not judged.
* A frame is not judged by a rule if one of the fields that the rule compares is unknown.
* The captures of real daemons in `captures/` break no rule. What is marked as a difference of crimson
  (docs/protocol.md §4.12) is not held against a peer that may be crimson.

Not in the table, because other parts judge it: nonces of secure mode, crcs and v1 signatures are verified by the
decoder (`msgrlab decode`), and the nonces that a node of ours has used up by `nonce_unique`; pauses between
dials depend on options that a capture does not show, `redial_pause` judges them in histories.

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
