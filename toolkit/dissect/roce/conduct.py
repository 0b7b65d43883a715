"""How a link over queue pairs ended, and its trouble: repeated packets, receivers that were not ready."""

from dataclasses import dataclass, field

from toolkit.dissect.conduct import Conduct, Outcome

_REASONS = {1: "invalid request", 2: "remote access error", 3: "remote operational error"}


@dataclass(slots=True, eq=False)
class QueuePairConduct(Conduct):
    """What the headers of a link over RDMA show. Pairs have one value per side."""

    not_ready: list[int] = field(default_factory=lambda: [0, 0])
    """Number of RNR NAKs: the side had no buffer for a packet."""
    asked_again: list[int] = field(default_factory=lambda: [0, 0])
    """Number of NAKs because a packet before the received one was missing."""
    refused: list[int | None] = field(default_factory=lambda: [None, None])
    """Reason of the first NAK that ends the queue pair; None if there is none."""

    def ending(self, client: str, server: str, end_ns: int) -> str:
        """Describe how it ended; see :meth:`Conduct.ending`."""
        names = (client, server) if self.client_side == 0 else (server, client)
        match self.outcome(end_ns):
            case Outcome.RESET:
                assert self.reset is not None
                return f"{names[self.reset.side]} broke it off (its TCP connection ended without an empty SEND)"
            case Outcome.CLOSED:
                return f"{names[self.fins[0].side]} closed it first (empty SEND)"
            case _:
                return super(QueuePairConduct, self).ending(client, server, end_ns)

    def trouble(self, client: str, server: str) -> str:
        """Describe repeated packets and NAKs; empty if there were none."""
        names = (client, server) if self.client_side == 0 else (server, client)
        parts = [
            f"{names[side]} sent {count} packet{'s' * (count > 1)} again"
            for side, count in enumerate(self.repeats)
            if count
        ]
        parts += [
            text.format(names[side], _times(count))
            for counts, text in (
                (self.asked_again, "{} asked for lost packets {} (NAK)"),
                (self.not_ready, "{} was not ready to receive {} (RNR NAK)"),
            )
            for side, count in enumerate(counts)
            if count
        ]
        parts += [
            f"{names[side]} refused a packet (NAK, {_REASONS.get(reason, f'code {reason}')})"
            for side, reason in enumerate(self.refused)
            if reason is not None
        ]
        return "; ".join(parts)


def _times(count: int) -> str:
    return f"{count} time{'s' * (count > 1)}"
