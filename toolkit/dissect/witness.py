"""Compares a decoded capture with the daemons' own logs, message by message.

Messages are matched by sender and receiver: the handshakes of links contain the addresses of both messengers, and
so does every line of a log. Receivers log seqs, versions and lengths. Of senders only the names are compared,
because the version that they print is not yet that of the peer's features. A message that is resent after a
reconnect is logged once.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toolkit.dissect.daemon_log import Address, LoggedMessage, addresses
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, MessageInfo

_MESSAGES = frozenset({"MESSAGE", "MSG"})
"""Tags of messages on v2 and on v1."""


@dataclass(slots=True)
class Comparison:
    """The result of a comparison."""

    sent: int = 0
    """Messages of the capture that the sender logged."""
    received: int = 0
    """Messages of the capture that the receiver logged, with the same seq and lengths."""
    repeated: int = 0
    """Messages that the capture contains again, because they were resent after a reconnect."""
    unread: int = 0
    """Last messages of links that the receiver did not log, because it had closed or lost the link."""
    unsent: int = 0
    """Last messages that were queued on connections and never written."""
    differences: list[str] = field(default_factory=list)
    """All other differences, in words."""
    unwitnessed: list[str] = field(default_factory=list)
    """Senders and receivers without a log, in words."""
    uncaptured: set[tuple[Address, Address]] = field(default_factory=set)
    """Pairs of addresses with logged messages but without a link in the capture."""


@dataclass(slots=True)
class _Link:
    """What one TCP connection shows of its ends."""

    client: Address = frozenset()
    server: Address = frozenset()
    server_endpoint: str = ""
    resumed: bool = False
    messages: dict[Direction, list[MessageInfo]] = field(default_factory=lambda: {way: [] for way in Direction})


@dataclass(slots=True)
class _Flow:
    """All messages from one messenger to another."""

    sender: Address
    receiver: Address
    links: list[list[MessageInfo]] = field(default_factory=list)
    """By link, its messages that no earlier link carried."""
    last_seq: int = 0

    @property
    def messages(self) -> list[MessageInfo]:
        """All messages, each once."""
        return [message for link in self.links for message in link]

    def add(self, messages: Sequence[MessageInfo], *, resumed: bool) -> int:
        """Add the messages of another link; returns the number of those that an earlier link carried."""
        if not messages:
            return 0
        if not resumed:
            self.last_seq = 0
        new = [message for message in messages if message.seq > self.last_seq]
        if new:
            self.last_seq = new[-1].seq
        self.links.append(new)
        return len(messages) - len(new)


def compare(frames: Iterable[DecodedFrame], logs: Iterable[Sequence[LoggedMessage]]) -> Comparison:
    """Compare a capture with logs of its messengers.

    Args:
        frames: frames of the whole capture.
        logs: messages of each log, in its order.
    """
    result = Comparison()
    flows = _flows(_links(frames), result)
    by_pair = _by_pair(logs)
    for flow in flows:
        _compare_flow(flow, by_pair, result)
    captured = {(flow.sender, flow.receiver) for flow in flows}
    result.uncaptured = {
        (own, peer)
        for own, peer, _ in by_pair
        if not any((a & own and b & peer) or (a & peer and b & own) for a, b in captured)
    }
    return result


def _links(frames: Iterable[DecodedFrame]) -> list[_Link]:
    links: dict[int, _Link] = defaultdict(_Link)
    for frame in frames:
        link = links[frame.stream.index]
        link.server_endpoint = frame.stream.server
        if frame.tag in _MESSAGES:
            if frame.message is not None:
                link.messages[frame.direction].append(frame.message)
            continue
        learn = _LEARN.get(frame.tag)
        if learn is not None and frame.error is None:
            learn(link, frame.fields, frame.direction)
    return list(links.values())


def _identify(link: _Link, fields: dict[str, object], direction: Direction) -> None:
    """v1: both sides announce their addresses first."""
    if direction is Direction.TO_SERVER:
        link.client = addresses(str(fields["client_addr"]))
    else:
        link.server = addresses(str(fields["server_addr"]))


def _connect(link: _Link, fields: dict[str, object], _: Direction) -> None:
    link.resumed = fields["connect_seq"] != 0  # unless refused; then another CONNECT or nothing follows


def _client_ident(link: _Link, fields: dict[str, object], _: Direction) -> None:
    link.client = addresses(str(fields["addrs"]))
    link.server |= addresses(str(fields["target_addr"]))


def _server_ident(link: _Link, fields: dict[str, object], _: Direction) -> None:
    link.server |= addresses(str(fields["addrs"]))


def _reconnect(link: _Link, fields: dict[str, object], _: Direction) -> None:
    link.client = addresses(str(fields["addrs"]))


def _reconnect_ok(link: _Link, _: dict[str, object], __: Direction) -> None:
    link.resumed = True


_LEARN: dict[str, Callable[[_Link, dict[str, object], Direction], None]] = {
    "IDENTIFY": _identify,
    "CONNECT": _connect,
    "CLIENT_IDENT": _client_ident,
    "SERVER_IDENT": _server_ident,
    "SESSION_RECONNECT": _reconnect,
    "SESSION_RECONNECT_OK": _reconnect_ok,
}


def _flows(links: Sequence[_Link], result: Comparison) -> list[_Flow]:
    """Messages by sender and receiver, without the replays of links that resume a session."""
    flows: list[_Flow] = []
    for link in links:
        server = link.server or _listener(link.server_endpoint, links)
        for way, ends in (
            (Direction.TO_SERVER, (link.client, server)),
            (Direction.TO_CLIENT, (server, link.client)),
        ):
            if link.messages[way] or all(ends):
                result.repeated += _flow_between(flows, *ends).add(link.messages[way], resumed=link.resumed)
    return flows


def _listener(endpoint: str, links: Iterable[_Link]) -> Address:
    """Addresses of a listener, from other links, because a link that resumes a session does not announce them."""
    addresses = (address for link in links for address in link.client | link.server)
    return frozenset(address for address in addresses if address.startswith(f"{endpoint}/"))


def _flow_between(flows: list[_Flow], sender: Address, receiver: Address) -> _Flow:
    for flow in flows:
        if flow.sender & sender and flow.receiver & receiver:
            return flow
    flows.append(_Flow(sender, receiver))
    return flows[-1]


_Logged = dict[tuple[Address, Address, bool], list[LoggedMessage]]
"""Logged messages by logging messenger, peer, and whether they were sent."""


def _by_pair(logs: Iterable[Sequence[LoggedMessage]]) -> _Logged:
    pairs: _Logged = defaultdict(list)
    for messages in logs:
        for message in messages:
            if not message.own & message.peer:  # messages to oneself are not on the wire
                pairs[message.own, message.peer, message.sent].append(message)
    return pairs


def _compare_flow(flow: _Flow, logs: _Logged, result: Comparison) -> None:
    for sent, own, peer in ((True, flow.sender, flow.receiver), (False, flow.receiver, flow.sender)):
        logged = [
            message
            for (logger, other, way), messages in logs.items()
            if way is sent and logger & own and other & peer
            for message in messages
        ]
        pair = f"{_shown(flow.sender)} to {_shown(flow.receiver)}"
        if not any(logger & own for logger, _, _ in logs):
            if not flow.messages:
                continue
            result.unwitnessed.append(f"{len(flow.messages)} messages from {pair}: {_shown(own)} left no log")
            continue
        both, captured_only, logged_only = _match(flow.messages, logged, sent=sent)
        if sent:
            result.sent += both
            result.unsent += _take_unsent(logged, logged_only)
        else:
            result.received += both
            result.unread += _take_unread(flow, captured_only)
        result.differences += _in_words(pair, captured_only, logged_only, sent=sent)


_Key = tuple[object, ...]


def _match(
    captured: Sequence[MessageInfo], logged: Sequence[LoggedMessage], *, sent: bool
) -> tuple[int, Counter[_Key], Counter[_Key]]:
    """Number of messages in both, those only in the capture, and those only in the log."""
    versions = _have_versions(logged)
    seen = Counter(_captured_key(message, sent=sent, versions=versions) for message in captured)
    expected = Counter(_logged_key(message, versions=versions) for message in logged)
    return (seen & expected).total(), seen - expected, expected - seen


def _take_unread(flow: _Flow, captured_only: Counter[_Key]) -> int:
    """Number of messages at the ends of links without a log line of receipt; removed from ``captured_only``."""
    count = 0
    for link in flow.links:
        for message in reversed(link):
            keys = [_captured_key(message, sent=False, versions=versions) for versions in (True, False)]
            key = next((key for key in keys if captured_only[key]), None)
            if key is None:
                break
            captured_only[key] -= 1
            count += 1
    return count


def _take_unsent(logged: Sequence[LoggedMessage], logged_only: Counter[_Key]) -> int:
    """Number of logged messages at ends of connections that were not captured; removed from ``logged_only``."""
    count = 0
    over: set[str] = set()
    for message in reversed(logged):
        key = _logged_key(message, versions=False)
        if message.con in over or not logged_only[key]:
            over.add(message.con)
            continue
        logged_only[key] -= 1
        count += 1
    return count


def _in_words(pair: str, captured_only: Counter[_Key], logged_only: Counter[_Key], *, sent: bool) -> list[str]:
    logger = "sender" if sent else "receiver"
    return [
        *(f"{pair}: the {logger} did not log {_described(key, count)}" for key, count in (+captured_only).items()),
        *(
            f"{pair}: the capture lacks {_described(key, count)}, which the {logger} logged"
            for key, count in (+logged_only).items()
        ),
    ]


def _have_versions(logged: Sequence[LoggedMessage]) -> bool:
    """True if the release prints versions."""
    return all(message.version is not None for message in logged)


def _captured_key(message: MessageInfo, *, sent: bool, versions: bool) -> _Key:
    if sent:
        return (message.name,)
    version = message.version if versions else None
    return message.name, version, message.seq, message.front, message.middle, message.data


def _logged_key(message: LoggedMessage, *, versions: bool) -> _Key:
    if message.sent:
        return (message.name,)
    return message.name, message.version if versions else None, message.seq, *(message.lengths or ())


def _described(key: _Key, count: int) -> str:
    name, *numbers = key
    text = str(name)
    if numbers:
        version, seq, *lengths = numbers
        text += "" if version is None else f" v{version}"
        text += f" seq {seq} of {'+'.join(map(str, lengths))} bytes"
    return text if count == 1 else f"{count} times {text}"


def _shown(endpoint: Address) -> str:
    return min(endpoint, default="an unknown messenger")
