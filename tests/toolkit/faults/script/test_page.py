"""docs/proxy.md lists the capabilities of rules."""

from pathlib import Path

from toolkit.faults.script import VERBS

PAGE = Path(__file__).parents[4] / "docs" / "proxy.md"


def test_page_lists_every_verb() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    for verb in VERBS.values():
        usage = verb.usage.replace("|", "\\|")
        assert f"| `{usage}` | {verb.about} |" in rows
