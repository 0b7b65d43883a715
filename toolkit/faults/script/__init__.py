"""Scripts of the proxy: rules for actions at points of a conversation (docs/proxy.md)."""

from collections.abc import Iterable
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import read_text
from toolkit.faults.script.rule import Rule, Where
from toolkit.faults.script.verbs import VERBS, Cut
from toolkit.faults.strike import Strike

_MOST_BYTES = 1 << 20

__all__ = ["VERBS", "Cut", "Rule", "Rules", "Where", "as_rules", "parse_script", "read_script", "strikes"]


def parse_script(text: str, source: str = "") -> list[Rule]:
    """The rules of a text, one a line; empty lines and those that begin with ``#`` say nothing.

    Args:
        text: the lines.
        source: what errors call it.

    Raises:
        LocalError: a line is no rule; says which, and in what column.
    """
    rules = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                rules.append(Rule.parse(line.removesuffix("\r")))
            except LocalError as error:
                raise LocalError(f"{source or 'script'}, line {number}: {error}") from None
    return rules


def read_script(path: Path) -> list[Rule]:
    """The rules of a file of up to 1 MiB.

    Raises:
        LocalError: it cannot be read, is longer, or has a line that is not a rule.
    """
    return parse_script(read_text(path, _MOST_BYTES, "script of rules"), str(path))


Rules = str | Rule | Iterable[str | Rule]
"""Rules as texts, as values, or as both."""


def as_rules(rules: Rules) -> list[Rule]:
    """Rules that are given as a text, as values, or as both.

    Raises:
        LocalError: a text that is none.
    """
    if isinstance(rules, Rule):
        return [rules]
    if isinstance(rules, str):
        return parse_script(rules, "rules")
    return [rule for one in rules for rule in as_rules(one)]


def strikes(rules: Rules, connector: str, acceptor: str) -> list[Strike]:
    """Rules, ready for the breakpoints of a proxy or a tap between two parties.

    Args:
        rules: texts or values.
        connector: the sender of ``->``.
        acceptor: the sender of ``<-``.

    Raises:
        LocalError: a text that is no rule, or a rule that names another party.
    """
    return [rule.strike(connector, acceptor) for rule in as_rules(rules)]
