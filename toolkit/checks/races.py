"""Connection races: one link per pair of peers remains, by the rule of addresses (docs/protocol.md §3.4, §4.9)."""

from contextlib import suppress

from messenger.denc.address import AddrVec, EntityAddr
from messenger.errors import FaultReason, LocalError
from messenger.outputs import EventKind
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Process, SessionLog
from toolkit.checks.wires import Entry, LinkLog

_LOST = FaultReason.RACE.value
_ENDS = (EventKind.RESET, EventKind.REMOTE_RESET)


def one_winner(index: Index, findings: Findings) -> None:
    """one_winner: in a connection race the link dialled by the side with the lower address remains.

    The other links raise no event. Not judged if the history has no addresses of the two processes.
    """
    _judge_verdicts(index, findings)
    _judge_losers(index, findings)
    if index.at_rest:
        for log in index.sessions.values():
            _judge_links(index, findings, log)


def _judge_verdicts(index: Index, findings: Findings) -> None:
    """Report WAIT decisions about a peer whose address is the lower one."""
    races = [entry for entry in index.by_kind.get("decision", ()) if _is_lost_race(entry)]
    places = Places(index) if races else None
    for position, record in races:
        link = index.link_of(record)
        if link is None or places is None:
            continue
        both = places.of(link)
        if both is None:
            findings.note(f"the addresses on {link.key.link} are not known, so the winner was not judged")
            continue
        mine, theirs = both
        if theirs.sort_key() < mine.sort_key():
            text = f"{link.key.link} receives WAIT, but {theirs} is lower than {mine} and must win the race"
            findings.add(position, text)


def _is_lost_race(entry: Entry) -> bool:
    return entry[1]["verdict"] == "WAIT" and "race" in entry[1]["why"]


class Places:
    """The addresses by which races are decided."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._addresses: dict[Process, AddrVec] = {}
        """Of each process, of both protocols for a node that uses both."""
        for _, record in index.by_kind.get("process", ()):
            if record.fields.get("addrs"):
                with suppress(LocalError):  # not an address vector
                    self._addresses[Process(record.node, record["incarnation"])] = AddrVec.parse(record["addrs"])

    def of(self, link: LinkLog) -> tuple[EntityAddr, EntityAddr] | None:
        """Return the addresses of a link's own side and of its peer, of its protocol; None if one is unknown."""
        both = self._addresses.get(_life(link)), self._addresses.get(self._peers_life(link))
        by_v1 = any(frame["tag"] == "IDENTIFY" for _, frame in link.rx[:2])
        found = [addrs.legacy_addr() if by_v1 else addrs.msgr2_addr() for addrs in both if addrs is not None]
        return (found[0], found[1]) if len(found) == len(both) else None

    def _peers_life(self, link: LinkLog) -> Process:
        """Return the process at the other end of a link; if that end is unknown, the last one of the node."""
        if link.far is not None:
            return _life(link.far)
        peer = self._index.peer_of(link)
        return self._index.process(peer) if peer in self._index.nodes else Process("", 0)


def _life(link: LinkLog) -> Process:
    return Process(link.key.node, link.key.incarnation)


def _judge_losers(index: Index, findings: Findings) -> None:
    """A connection that lost a connection race raises no event."""
    for position, record in index.by_kind.get("event", ()):
        if record["event"] in _ENDS and record["detail"].startswith(_LOST):
            text = f"session {record['session']} with {record['peer']} raises {record['event']} for a lost race"
            findings.add(position, f"{record.node}: {text}")


def _judge_links(index: Index, findings: Findings, log: SessionLog) -> None:
    """Report sessions with more than one open link at rest."""
    if log.key.process in index.process_ends:
        return
    alive = [link for link in log.links if link.opened is not None and link.closed is None]
    if len(alive) > 1:
        names = ", ".join(link.key.link for link in alive)
        position = alive[-1].opened
        assert position is not None
        findings.add(position, f"{index.name(log)} has {len(alive)} links at rest: {names}")
