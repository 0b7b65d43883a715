"""The invariants INV-1 to INV-9 of scenarios.md §6, as named checks over a recorded history.

``check(history)`` judges them all; each of ``INVARIANTS`` can be called with a history by itself.
"""

from toolkit.checks.accounting import sequence_accounting
from toolkit.checks.counters import monotonic_attempts
from toolkit.checks.delivery import lossless_delivery, lossy_delivery
from toolkit.checks.events import event_grammar, no_message_after_end
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.liveness import liveness
from toolkit.checks.registry import one_session_per_peer
from toolkit.checks.resources import throttles_balance
from toolkit.checks.result import CheckResult, Invariant

INVARIANTS = {
    invariant.id: invariant
    for invariant in (
        Invariant("INV-1", "Lossless delivery: everything, once, in order", lossless_delivery),
        Invariant("INV-2", "Lossy delivery: at most once, loss only by reset", lossy_delivery),
        Invariant("INV-3", "No message of a session that has ended", no_message_after_end),
        Invariant("INV-4", "Session events in their order", event_grammar),
        Invariant("INV-5", "One registered session per peer", one_session_per_peer),
        Invariant("INV-6", "Liveness: nothing waits on a whole network", liveness),
        Invariant("INV-7", "connect_seq and global_seq never fall", monotonic_attempts),
        Invariant("INV-8", "Message numbers add up on both sides", sequence_accounting),
        Invariant("INV-9", "Throttles give back what they took", throttles_balance),
    )
}


def check(history: History) -> list[CheckResult]:
    """Every invariant's verdict on a history."""
    index = Index(history)
    return [invariant.over(index) for invariant in INVARIANTS.values()]
