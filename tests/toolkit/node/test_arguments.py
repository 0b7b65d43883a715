"""Arguments of commands to nodes, as typed on a command line and from Python."""

import math
from typing import Any

import pytest

from messenger.errors import LocalError
from toolkit.node import NodeApp
from toolkit.node.arguments import Program, check_arguments, from_words
from toolkit.rados.node.app import RadosApp


@pytest.mark.parametrize(
    ("program", "verb", "words", "named", "found"),
    [
        (NodeApp, "send", ["b"], {"count": "3"}, {"peer": "b", "count": 3}),
        (NodeApp, "send", ["7", "3"], {"dials": "false"}, {"peer": "7", "count": 3, "dials": False}),
        (NodeApp, "limit_memory", ["null"], {}, {"more_bytes": None}),
        (NodeApp, "configure", ['{"ms_max_backoff": 2}'], {}, {"options": {"ms_max_backoff": 2}}),
        (NodeApp, "auth", ["expire"], {"entity": "osd.1"}, {"do": "expire", "entity": "osd.1"}),
        (RadosApp, "put", ["1e3", "007"], {}, {"oid": "1e3", "text": "007"}),
    ],
)
def test_words_become_values_of_the_types_that_the_command_takes(
    program: type[Program], verb: str, words: list[str], named: dict[str, str], found: dict[str, Any]
) -> None:
    assert from_words(program, verb, words, named) == found
    check_arguments(program, verb, found)


@pytest.mark.parametrize(
    ("verb", "args", "complaint"),
    [
        ("dance", {}, "no verb 'dance'; there are arm, auth"),
        ("send", {}, "send: missing a required argument: 'peer'; it takes peer, count, size_bytes"),
        ("send", {"peer": "b", "cout": 1}, "unexpected keyword argument 'cout'; it takes peer, count"),
        ("send", {"peer": 3}, "send: peer = 3: give text"),
        ("send", {"peer": "b", "count": "x"}, "send: count = 'x': give a whole number, 0 or more"),
        ("send", {"peer": "b", "count": -1}, "send: count = -1: give a whole number, 0 or more"),
        ("send", {"peer": "b", "count": True}, "send: count = True: give a whole number, 0 or more"),
        ("send", {"peer": "b", "dials": "no"}, "send: dials = 'no': give true or false"),
        ("traffic", {"peer": "b", "every_ms": math.nan}, "traffic: every_ms = nan: give a number"),
        ("traffic", {"peer": "b", "every_ms": math.inf}, "traffic: every_ms = inf: give a number"),
    ],
)
def test_wrong_arguments_are_named(verb: str, args: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LocalError) as refused:
        check_arguments(NodeApp, verb, args)
    assert complaint in str(refused.value)
