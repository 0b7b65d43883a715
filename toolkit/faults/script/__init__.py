"""Scripts of the proxy: rules that match frames or connection attempts and act on them (docs/proxy.md)."""

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
    """Parse rules, one per line; empty lines and lines that begin with ``#`` are skipped.

    Args:
        text: the lines.
        source: name of the text, for errors.

    Raises:
        LocalError: a line is not a rule; the message has its number and the column.
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
    """Read the rules of a file of up to 1 MiB.

    Raises:
        LocalError: it cannot be read, is longer, or has a line that is not a rule.
    """
    return parse_script(read_text(path, _MOST_BYTES, "script of rules"), str(path))


Rules = str | Rule | Iterable[str | Rule]
"""One or more rules, as text or as :class:`Rule`; a text may have several lines."""


def as_rules(rules: Rules) -> list[Rule]:
    """Parse the rules that are given as text.

    ::

        as_rules(["-> MESSAGE #3: cut", "<- SERVER_IDENT: hold x"])

    Raises:
        LocalError: a text is not a rule.
    """
    if isinstance(rules, Rule):
        return [rules]
    if isinstance(rules, str):
        return parse_script(rules, "rules")
    return [rule for one in rules for rule in as_rules(one)]


def strikes(rules: Rules, connector: str, acceptor: str) -> list[Strike]:
    """Convert rules to strikes for a proxy or a tap between two parties.

    Args:
        rules: the rules.
        connector: name of the party whose frames ``->`` matches.
        acceptor: name of the party whose frames ``<-`` matches.

    Raises:
        LocalError: a text is not a rule, or a rule names another party.
    """
    return [rule.strike(connector, acceptor) for rule in as_rules(rules)]
