"""A proxy for interactive use, between any two parties, real daemons included.

::

    with Proxy("127.0.0.1:3300", ["<- SERVER_IDENT #1: hold x"], keyring="keyring") as proxy:
        ...dial proxy.address...
        proxy.release("x")
        proxy.hits
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Self

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.checks.history import NETWORK, History
from toolkit.dissect.analysis import Analysis
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import SeenFrame
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import Stream
from toolkit.faults.address_translation import BothAddresses, translating_strikes
from toolkit.faults.dials import AtDial, release
from toolkit.faults.mangle import Mangle
from toolkit.faults.proxy import FaultProxy, Watcher
from toolkit.faults.script import Rule, Rules, as_rules
from toolkit.faults.script.frames import as_decoded
from toolkit.faults.sockets import Inside, here
from toolkit.faults.strike import Strike

_NANO = 1_000_000_000
_SHOWN = 200
_KEPT = 100_000
"""Number of the latest frames that are kept."""
_KEPT_LINKS = 10_000
"""Number of the latest ended links, and of the latest strikes, that a proxy keeps."""
PARTIES = ("client", "server")

PathLike = str | Path


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule has struck."""

    time_s: float
    """Seconds since the proxy started."""
    link: int
    sender: str
    tag: str
    rule: str
    problem: str = ""
    """Why the frame was forwarded unchanged; empty if it was changed."""

    def __str__(self) -> str:
        problem = f" (not done: {self.problem})" if self.problem else ""
        return f"link {self.link}, {self.tag} of {self.sender}: {self.rule}{problem}"


@dataclass(slots=True)
class ProxiedLink:
    """A link that passes the proxy, or has passed it."""

    number: int
    source: str
    """Address of the connector."""
    opened_s: float
    closed_s: float | None = None
    why: str = ""
    """Why the link ended, in a few words."""
    blind: str = ""
    """Why its frames cannot be parsed any more; empty while they can."""


class Events:
    """Observer of a proxy, called in the proxy's thread."""

    def opened(self, link: ProxiedLink) -> None:
        """Handle a new link."""

    def closed(self, link: ProxiedLink) -> None:
        """Handle the end of a link."""

    def blind(self, link: ProxiedLink) -> None:
        """Handle a link whose frames cannot be parsed any more."""

    def frame(self, frame: DecodedFrame) -> None:
        """Handle a frame."""

    def hit(self, hit: Hit) -> None:
        """Handle a strike of a rule."""


def parse_place(text: str, default_host: str = "") -> tuple[str, int]:
    """Parse ``HOST:PORT`` (``[ADDRESS]:PORT`` for IPv6), or an address as Ceph prints it.

    ::

        parse_place("v2:10.0.0.1:3300/0")  # ("10.0.0.1", 3300)

    Args:
        text: the address.
        default_host: host if the text is only a port; empty to require a host.

    Raises:
        LocalError: it is not an address.
    """
    bare = text.strip().removeprefix("v1:").removeprefix("v2:").removeprefix("any:").partition("/")[0]
    host, colon, port = bare.rpartition(":")
    if not colon:
        host = default_host
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not (port.isascii() and port.isdecimal()) or not 0 <= int(port) <= 0xFFFF:
        raise LocalError(f"{text!r} is no HOST:PORT, as in 10.0.0.1:3300, [::1]:3300 or localhost:0")
    return host, int(port)


class Proxy(Watcher):
    """A proxy between the peers that dial :attr:`address` and a target.

    Args:
        target: HOST:PORT that it connects to.
        rules: rules (docs/proxy.md), as text or :class:`Rule`; ``->`` matches frames of the party that dials.
        keyring: keyring files, one or several; needed to parse frames of secure links, and to change signed ones.
        key_logs: key logs with keys of links.
        listen: HOST:PORT that it listens on; port 0 for any free one.
        key_log: file to append the keys of links to.
        pretend: replace the parties' addresses in frames by the proxy's, unless the frames are sealed.
        parties: names of the connector and of the acceptor.
        inside: runs a function that opens sockets, for example in a network namespace.
        events: observer of links and frames.
        blind: do not parse frames; then only rules about dials have an effect.
        keys: key book of another proxy (its :attr:`keys`) to share: tickets from a monitor that one proxy sees
            decrypt the links of the other. ``keyring`` and ``key_logs`` are not read then.

    Raises:
        LocalError: a rule, address or keyring is invalid, or the port is in use.
    """

    def __init__(
        self,
        target: str,
        rules: Rules = (),
        keyring: PathLike | Sequence[PathLike] = (),
        *,
        key_logs: Sequence[PathLike] = (),
        listen: str = "127.0.0.1:0",
        key_log: PathLike | None = None,
        pretend: bool = False,
        parties: tuple[str, str] = PARTIES,
        inside: Inside = here,
        events: Events | None = None,
        blind: bool = False,
        keys: KeyBook | None = None,
    ) -> None:
        keyrings = [keyring] if isinstance(keyring, str | Path) else keyring
        self._parties = parties
        self._events = events or Events()
        self._began_s = time.monotonic()
        self._began_ns = time.time_ns()
        self._lock = threading.Lock()
        self._rules: dict[int, str] = {}
        self._strikes: list[Strike] = []
        self._streams: dict[int, Stream] = {}
        self._links: dict[int, ProxiedLink] = {}
        self._ended: deque[int] = deque()
        self._hits: deque[Hit] = deque(maxlen=_KEPT_LINKS)
        self.link_count = 0
        """Number of links so far."""
        self.hit_count = 0
        """Number of strikes of rules so far."""
        self.counters: Counter[str] = Counter()
        """Number of frames by direction and tag, as ``-> HELLO``, and of their ``bytes``."""
        self._passed = 0
        self._frames: deque[DecodedFrame] = deque(maxlen=_KEPT)
        self.add(rules)
        host, port = parse_place(listen, "127.0.0.1")
        self.keys = keys or KeyBook.read([Path(one) for one in keyrings], [Path(one) for one in key_logs])
        """Keys that were given, and those learnt from frames."""
        self._proxy = FaultProxy(
            *parties,
            parse_place(target),
            self._strikes,
            self.keys,
            key_log=None if key_log is None else Path(key_log),
            host=host,
            port=port,
            inside=inside,
            watcher=self,
            follow=not blind,
        )
        self.target = target
        if pretend:
            addresses = BothAddresses((host, self._proxy.port), self._proxy.target)
            self._strikes += translating_strikes(addresses)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and end all connections."""
        self._proxy.close()

    # ---- what it does

    @property
    def address(self) -> str:
        """HOST:PORT that it listens on."""
        host = self._proxy.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return self._proxy.port

    @property
    def rules(self) -> list[str]:
        """Texts of the rules."""
        return list(self._rules.values())

    def add(self, rules: Rules) -> list[Rule]:
        """Add rules; they count frames from now on.

        Raises:
            LocalError: a text is not a rule.
        """
        added = as_rules(rules)
        strikes = [rule.strike(*self._parties) for rule in added]
        for rule, strike in zip(added, strikes, strict=True):
            self._rules[id(strike)] = str(rule)
        self._strikes += strikes
        return added

    def release(self, name: str) -> int:
        """Release everything held under ``name``; returns the number of frames and dials released."""
        return release(self._strikes, name)

    def clear(self) -> None:
        """Remove all rules and release what they hold."""
        for strike in [strike for strike in self._strikes if id(strike) in self._rules]:
            self._strikes.remove(strike)
            if isinstance(strike, Mangle | AtDial) and hasattr(strike.change, "release"):
                strike.change.release()
        self._rules.clear()

    def cut(self) -> int:
        """Cut all present links; returns their number."""
        return self._proxy.cut()

    @property
    def lanes(self) -> FaultProxy:
        """The underlying proxy, which can hold, slow, delay and half-close whole directions."""
        return self._proxy

    # ---- what it has seen

    @property
    def frames(self) -> list[DecodedFrame]:
        """Frames that have passed, the latest if there were very many; their bytes are not kept."""
        with self._lock:
            return list(self._frames)

    def expect(self, condition: Callable[["Proxy"], bool], within_s: float = 10.0) -> None:
        """Wait until a condition on the proxy holds, such as ``lambda proxy: proxy.hits``.

        Raises:
            LocalError: it does not hold within the time.
        """
        deadline_s = time.monotonic() + within_s
        while not condition(self):
            if time.monotonic() > deadline_s:
                raise LocalError(f"the condition did not hold within {within_s:g} s")
            time.sleep(0.005)

    def history(self) -> History:
        """Return frames and strikes as a history, for charts and for ``msgrlab chart``."""
        analysis = Analysis()
        maker = HistoryMaker(analysis)
        for frame in self.frames:
            analysis.take(frame)
            maker.take(frame)
        history = maker.history()
        began_s = ((analysis.began_ns or self._began_ns) - self._began_ns) / _NANO
        for hit in self.hits:
            detail = f"{hit.tag} of {hit.sender} on link {hit.link}: {hit.rule}"
            names = dict(zip(("a", "b"), self._parties, strict=True))
            history.append(max(0.0, hit.time_s - began_s), NETWORK, "path", fault="rule", detail=detail, **names)
        return history

    @property
    def links(self) -> list[ProxiedLink]:
        """The open links and the latest ended ones, in the order in which they were opened."""
        return list(self._links.values())

    @property
    def hits(self) -> list[Hit]:
        """The latest strikes of rules, in order."""
        return list(self._hits)

    def __repr__(self) -> str:
        return f"<Proxy {self.address} to {self.target}: {self.link_count} links, {self.hit_count} hits>"

    def _repr_html_(self) -> str:
        head = f"<p><b>proxy {escape(self.address)} → {escape(self.target)}</b>: {self.link_count} links, "
        head += f"{self._passed} frames, {self.counters['bytes']:,} bytes</p>"
        rows = [(f"{hit.time_s:.3f} s", hit.link, hit.sender, hit.tag, hit.rule, hit.problem) for hit in self.hits]
        hits = _table(("time", "link", "sender", "frame", "rule", "not done, because"), rows[-_SHOWN:])
        tags = _table(("frames", "number"), sorted(self.counters.items()))
        rules = "".join(f"<li><code>{escape(rule)}</code></li>" for rule in self.rules)
        return f"{head}<ul>{rules}</ul>{hits}{tags}"

    # ---- as a watcher, in the proxy's thread

    @override
    def link_opened(self, link: int, source: str) -> None:
        self._streams[link] = Stream(link, source, self.target, opening_seen=True)
        opened = ProxiedLink(link, source, self._since_s())
        self._links[link] = opened
        self.link_count += 1
        self._events.opened(opened)

    @override
    def link_closed(self, link: int, why: str) -> None:
        over = self._links[link]
        over.closed_s, over.why = self._since_s(), why
        self._ended.append(link)
        if len(self._ended) > _KEPT_LINKS:
            oldest = self._ended.popleft()
            del self._links[oldest], self._streams[oldest]
        self._events.closed(over)

    @override
    def blind(self, link: int, why: str) -> None:
        lost = self._links[link]
        lost.blind = why
        self._events.blind(lost)

    @override
    def frame(self, link: int, sender: str, frame: SeenFrame) -> None:
        record = as_decoded(frame, *self._parties)
        record.stream = self._streams[link]
        record.time_ns = time.time_ns()
        record.frame, self._passed = self._passed, self._passed + 1
        self.counters[f"{_arrow(frame.direction)} {frame.tag}"] += 1
        self.counters["bytes"] += len(frame.raw)
        self._events.frame(record)
        fields: dict[str, object] = {} if record.message else frame.fields
        with self._lock:
            self._frames.append(replace(record, segments=(), wire=b"", read_fields=lambda: fields))

    @override
    def struck(self, link: int, strike: Strike) -> None:
        rule = self._rules.get(id(strike))
        problem = strike.problem if isinstance(strike, Mangle) else ""
        if rule is None and not problem:
            return
        frame = strike.hit
        sender, tag = self._parties[0], "dial"
        if frame is not None and not isinstance(strike, AtDial):
            sender = self._parties[frame.direction is Direction.TO_CLIENT]
            tag = str(frame.fields.get("name", frame.tag)) if frame.tag in {"MESSAGE", "MSG"} else frame.tag
        self._hits.append(hit := Hit(self._since_s(), link, sender, tag, rule or str(strike), problem))
        self.hit_count += 1
        self._events.hit(hit)

    def _since_s(self) -> float:
        return time.monotonic() - self._began_s


def _arrow(direction: Direction) -> str:
    return "->" if direction is Direction.TO_SERVER else "<-"


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
