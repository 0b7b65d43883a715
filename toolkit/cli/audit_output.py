"""The output of ``msgrlab analyze --audit``: each rule of the wire, with the numbers of frames checked and bad."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.checks.audit.rule import Broken
    from toolkit.checks.audit.table import Audit
    from toolkit.dissect.capture import Capture

_MOST_LINES = 500
"""Violations that are listed as text; JSON has all of them."""


def audit_lines(capture: "Capture") -> list[str]:
    """Return the audit of a capture as text: a line for each frame that breaks a rule, then one for each rule."""
    found = capture.audit()
    lines = [_line(broken) for broken in found.broken[:_MOST_LINES]]
    if len(found.broken) > _MOST_LINES:
        lines.append(f"… and {len(found.broken) - _MOST_LINES:,} more; --json has all")
    if lines:
        lines.insert(0, "Violations")
        lines.append("")
    bad = _violations(found)
    judged = found.judged
    if judged:
        lines += ["Rules checked", f"{'frames':>9}  {'broken':>6}  rule"]
    for rule in judged:
        lines.append(f"{found.counts[rule]:>9,}  {bad.get(rule.id, 0):>6,}  {rule.id}: {rule.text}")
    if found.not_judged:
        lines += ["", "Rules not checked"] if judged else ["Rules not checked"]
    lines += [f"  {rule.id}: {rule.needs}" for rule in found.not_judged]
    return lines


def audit_json(capture: "Capture") -> dict[str, object]:
    """Return the audit of a capture as one JSON value."""
    found = capture.audit()
    bad = _violations(found)
    return {
        "rules": [
            {
                "id": rule.id,
                "section": rule.section.split(),
                "side": rule.side.value,
                "text": rule.text,
                "judged": found.counts[rule],
                "broken": bad.get(rule.id, 0),
            }
            for rule in found.judged
        ],
        "not_judged": [{"id": rule.id, "text": rule.text, "why": rule.needs} for rule in found.not_judged],
        "violations": [
            {"rule": broken.rule.id, "frame": broken.frame, "link": broken.link, "text": broken.text}
            for broken in found.broken
        ],
        "problem": capture.problem,
        "note": capture.note,
    }


def _violations(found: "Audit") -> dict[str, int]:
    """Count the frames that break each rule, by the id of the rule."""
    counts: dict[str, int] = {}
    for broken in found.broken:
        counts[broken.rule.id] = counts.get(broken.rule.id, 0) + 1
    return counts


def _line(broken: "Broken") -> str:
    return f"  frame {broken.frame}, {broken.link}: {broken.text} ({broken.rule.id})"
