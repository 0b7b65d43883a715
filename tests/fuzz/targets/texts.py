"""Text of users: addresses, keys, keyrings, key logs, breakpoints, rules, faults, filters.

An input is the name of the parser, a colon, and the text. Another parser is a line in ``PARSERS``.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.cephx.identity import parse_methods
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.config import parse_modes
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import LocalError
from messenger.keylog import parse_key_log
from messenger.session.policy import PolicySet
from tests.fuzz.seeds import KEYS
from tests.fuzz.target import BrokenPromise, Target, require_same
from toolkit.bench.options import parse_grid
from toolkit.cluster.nemesis import Timeline
from toolkit.dissect.filters import compile_filter
from toolkit.faults.language import parse as parse_fault
from toolkit.faults.script import parse_script
from toolkit.faults.tap import Breakpoint
from toolkit.node import parse_entity
from toolkit.probe.findings import parse_target
from toolkit.scanner import shell_words

Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class TextParser:
    """A parser of one kind of text; ``write``, if there is one, gives text that reads the same."""

    parse: Parse
    examples: tuple[str, ...]
    write: Callable[[Any], str] | None = None
    reread: Parse | None = None
    """Parses what ``write`` gives, where that takes knowing more."""


_KEYRING = (
    "# a comment\n[client.admin]\n\tkey = AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==\n"
    "\tcaps mon = \"allow *\" ; more\n\tcaps_osd = 'allow \\\nrwx'\n"
    "[mon.]\nkey=AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==\n"
)
_ADDRS = ("v2:10.1.2.3:3300/0", "[fe80::1]:6800", "any:0.0.0.0:0/77", "-", "v1:[::ffff:1.2.3.4]:6789/4294967295")

_KEY_LOGS = (
    f"# links\n\nv2 {'0f' * 16} {KEYS[1].to_base64()} {'5a' * 64}\nv1 {'f0' * 16} {KEYS[2].to_base64()} -\n",
    f"service osd -1 {KEYS[1].to_base64()}\nservice mgr 3 {KEYS[2].to_base64()}",
    f"service osd {'9' * 4400} {KEYS[1].to_base64()}",
)

PARSERS: Mapping[str, TextParser] = {
    "addr": TextParser(EntityAddr.parse, _ADDRS, str, lambda text: EntityAddr.parse(text, AddressType.ANY)),
    "addrs": TextParser(
        AddrVec.parse,
        (*_ADDRS, "[v2:10.1.2.3:3300/0,v1:10.1.2.3:6789/0]", "[]", "[[::1]]"),
        str,
        lambda text: AddrVec.parse(text, AddressType.ANY),  # which prints without its prefix
    ),
    "host": TextParser(lambda text: EntityAddr.from_host(text, 6800), ("127.0.0.1", "fe80::1%eth0")),
    "name": TextParser(AuthName.parse, ("client.admin", "mon.", "osd.3.4"), str),
    "type": TextParser(EntityType.from_label, ("mon", "any"), lambda value: value.label),
    "cipher": TextParser(KeyType.from_label, ("aes", "aes256k", "none"), lambda value: value.label),
    "entity": TextParser(
        parse_entity, ("osd.1", "client.-1", "osd.²", "osd.--1"), lambda value: f"{value.type.label}.{value.num}"
    ),
    "key": TextParser(CryptoKey.from_base64, tuple(key.to_base64() for key in KEYS.values()), CryptoKey.to_base64),
    "keyring": TextParser(Keyring.parse, (_KEYRING, KEYS[1].to_base64() + "\n", ""), Keyring.format),
    "keylog": TextParser(
        lambda text: list(parse_key_log(text)),
        _KEY_LOGS,
        lambda entries: "".join(entry.line() for entry in entries),
    ),
    "modes": TextParser(lambda text: parse_modes("ms_client_mode", text), ("crc secure", "secure,crc")),
    "methods": TextParser(parse_methods, ("cephx, none", "none;cephx")),
    "policies": TextParser(PolicySet.parse, ("lossless_peer client=stateless_server", "osd public")),
    "breakpoint": TextParser(Breakpoint.parse, ("a:HELLO", "b:MESSAGE:10:20", "a:BANNER::-1")),
    "fault": TextParser(
        parse_fault, ("partition a b --one-way", "arm 'a' \"MESSAGE READ\" BLOCK", "undo link a b --loss 1"), str
    ),
    "filter": TextParser(compile_filter, ("tag == 'ACK' and not message.seq > 5", "fields.ops[0] in (1, -2)")),
    "words": TextParser(
        lambda text: [word.text for word in shell_words("words", text)],
        ('a \'b c\' "d\\"e" f\\ g', "'", "a\\"),
        shlex.join,
    ),
    "grid": TextParser(
        lambda text: parse_grid(*(word or None for word in (*text.split("|"), *[""] * 5)[:5])),
        ("stream|64,4K|1,16|crc,secure|1", "|1M", "|" + "9" * 4400, "||" + "9" * 4400),
    ),
    "rules": TextParser(
        parse_script,
        (
            "# none\n-> MESSAGE osd_op #2-4 every 2 per link: delay 200ms\n",
            "<- ACK: cut\r\n* : drop",
            "dial #1: refuse",
        ),
        lambda rules: "\n".join(map(str, rules)),
    ),
    "timeline": TextParser(
        Timeline.parse,
        (
            "timeline:\n- {at_s: 1, fault: partition a b}\n- {at_s: 2.5, fault: undo partition a b}\n",
            "- {at_s: 0x10, fault: 'arm a \"MESSAGE READ\" BLOCK'}",
            "a: &a [*a, *a]\nb: [[[[]]]]\n!!python/x y: 1",
        ),
        lambda timeline: timeline.yaml("again"),
    ),
    "target": TextParser(parse_target, ("10.1.2.3", "v2:[::1]:3301", "-")),
}


def run(data: bytes) -> None:
    """Parse a text, print what it means, and parse that."""
    name, _, raw = data.partition(b":")
    parser = PARSERS.get(name.decode("ascii", "replace"))
    if parser is None:
        return
    try:
        value = parser.parse(raw.decode("utf-8", "surrogateescape"))
    except LocalError as error:
        _check_complaint(str(error))
        return
    repr(value)
    if parser.write is not None:
        text = parser.write(value)
        require_same(f"{value!r} printed as {text!r} and parsed", (parser.reread or parser.parse)(text), value)


def _check_complaint(text: str) -> None:
    """Check that an error is one line of text."""
    if not text or "\n" in text:
        raise BrokenPromise(f"a complaint is one line of text, not {text!r}")


def seeds() -> Iterator[bytes]:
    """The examples of every parser."""
    for name, parser in PARSERS.items():
        yield from (f"{name}:{example}".encode() for example in parser.examples)


def _name(data: bytes) -> bytes:
    return data.partition(b":")[0]


TARGETS = (Target(name="texts", run=run, seeds=seeds, label=_name, mutations=1500, max_bytes=400),)
