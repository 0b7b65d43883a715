"""Writes docs/audit.md, a table of the rules of the wire protocol, from toolkit/checks/audit/.

Run ``python docs/audit.py`` after a rule has changed.
"""

from pathlib import Path

from docs.citations import linked
from toolkit.checks.audit.rule import Rule
from toolkit.checks.audit.table import RULES

HEAD = """# Audit

Written by `python docs/audit.py`. Both ends of a run share our code, so a mistake that they share breaks no
end-to-end invariant. The audit checks each frame against the requirements of the [protocol](protocol.md) on its
sender. It works on captures of any implementation, and on the history of a run.

```
msgrlab analyze captures/reef-osds/capture.pcapng.gz --keyring captures/reef-osds/keyring --audit
```

prints the frames that break a rule with their numbers, the number of frames that each rule has checked, and the
rules that checked none, with the reason; `--json` prints the same as one object. Exit code 1 if a rule is broken.
From Python: `toolkit.read_capture(...).audit()`.

In histories of simulations, scenarios and live runs all rules together are the check `wire_rules`
([checks](checks.md)). There each end is checked by its own records: by the frames received before it sent.

* Frames are checked at their sender only, so that each frame is checked once.
* Links that were not recorded from their banners on are not checked. After bytes that a capture lacks, or that
  could not be decoded, the messages of a link are not checked.
* A rule skips a frame if a field that the rule compares is unknown.
* The captures of real daemons in `captures/` break no rule. A difference of crimson (docs/protocol.md §4.12) is
  allowed for every peer that may be crimson.

Checked elsewhere, and therefore not in the table: the decoder (`msgrlab decode`) verifies nonces of secure mode,
crcs and v1 signatures, and `nonce_unique` the nonces that our nodes use; pauses between connection attempts depend
on options that a capture does not show, so `redial_pause` checks them in histories.

## The rules

The side is that of the sender whose frames the rule checks.

| rule | section | side | text |
|---|---|---|---|
"""


def row(rule: Rule) -> str:
    """Return the line of a rule in the table."""
    sections = ", ".join(f"docs/protocol.md §{section}" for section in rule.section.split())
    return f"| `{rule.id}` | {sections} | {rule.side} | {rule.text} |\n"


def page() -> str:
    """Return the whole page."""
    return linked(HEAD + "".join(map(row, RULES)))


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
