"""The operations of a schedule on a swarm lab. Each does nothing if it makes no sense at its time."""

from toolkit.faults.tap import Breakpoint
from toolkit.simulation.draws import Options
from toolkit.simulation.login_lab import MONITOR
from toolkit.simulation.schedule import Argument, Operation
from toolkit.simulation.swarm_lab import SwarmLab


class Operations:
    """Carries out operations: each verb of a schedule is a method, whose arguments are those of the operation.

    Args:
        options: the options that the seed drew.
        lab: the lab of the run.
    """

    def __init__(self, options: Options, lab: SwarmLab) -> None:
        self.options = options
        self.lab = lab
        self._pairs = set(options.pairs)

    def carry_out(self, operation: Operation) -> None:
        """Carry out an operation at its time."""
        clock = self.lab.clock
        if operation.at_s > clock.now_s:
            clock.run_until(lambda: False, operation.at_s)
        getattr(self, f"_{operation.verb}")(*operation.args)

    def can_send(self, node: str, peer: str) -> bool:
        """True if a node may send to a peer, or dial it, now."""
        lab = self.lab
        if not lab.usable(node) or lab.is_taken_for_another(node, peer):
            return False
        return (node, peer) in self._pairs or lab.has_connection(node, peer)

    def _send(
        self, node: str, peer: str, count: int, size_bytes: int, front_bytes: int = 0, middle_bytes: int = 0
    ) -> None:
        if self.can_send(node, peer):
            self.lab.send(node, peer, count, size_bytes, front_bytes=front_bytes, middle_bytes=middle_bytes)

    def _send_to_itself(self, node: str, count: int) -> None:
        if self.lab.usable(node):
            self.lab.send(node, node, count, 20)

    def _keepalive(self, node: str, peer: str) -> None:
        if self.can_send(node, peer):
            self.lab.keepalive(node, peer)

    def _connect(self, node: str, peer: str, anonymous: bool = False) -> None:  # noqa: FBT001, FBT002 - of a plan
        if (node, peer) in self._pairs and self.can_send(node, peer):
            self.lab.dial(node, peer, anonymous=anonymous)

    def _mark_down(self, node: str, peer: str) -> None:
        if self.lab.usable(node) and self.lab.has_connection(node, peer):
            self.lab.mark_down(node, peer)

    def _cut(self, a: str, b: str) -> None:
        self.lab.cut(a, b)

    def _cut_at(self, a: str, b: str, place: str) -> None:
        self.lab.cut_at(a, b, Breakpoint.parse(place, self.lab.protocol))

    def _cut_at_byte(self, a: str, b: str, byte: int, stream: int) -> None:
        self.lab.cut_at_byte(a, b, byte, stream)

    def _half_open(self, a: str, b: str) -> None:
        self.lab.half_open(a, b)

    def _half_close(self, a: str, b: str) -> None:
        self.lab.half_close(a, b)

    def _partition(self, a: str, b: str, one_way: bool) -> None:  # noqa: FBT001 - of a plan
        self.lab.partition(a, b, one_way=one_way)

    def _refuse(self, a: str, b: str) -> None:
        self.lab.refuse(a, b)

    def _slow(self, a: str, b: str, bytes_per_s: float) -> None:
        self.lab.slow(a, b, bytes_per_s)

    def _delay(self, a: str, b: str, seconds: float, jitter_s: float) -> None:
        self.lab.delay(a, b, seconds, jitter_s)

    def _late_dial(self, a: str, b: str, seconds: float) -> None:
        self.lab.late_dial(a, b, seconds)

    def _heal(self, a: str, b: str, *_what: Argument) -> None:
        self.lab.heal_between(a, b)

    def _freeze(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.freeze(node)

    def _thaw(self, node: str) -> None:
        if node in self.lab.frozen:
            self.lab.thaw(node)

    def _kill(self, node: str) -> None:
        if self.lab.runs(node):
            self.lab.kill(node)

    def _revive(self, node: str) -> None:
        if not self.lab.runs(node):
            self.lab.revive(node)
            self._login(node)

    def _rename(self, node: str, announced: bool = True) -> None:  # noqa: FBT001, FBT002 - of a plan
        if self.lab.runs(node):
            return
        if self.lab.frozen:
            self.lab.revive(node)  # a frozen node could not learn the new address now
        else:
            self.lab.rename(node, announced=announced)
        self._login(node)

    def _tell(self, node: str) -> None:
        if not self.lab.frozen:
            self.lab.announce_name(node)

    def _rotate(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.rotate_keys(node)

    def _fetch(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.fetch_keys(node)

    def _skew(self, node: str, seconds: float) -> None:
        if self.lab.usable(node):
            self.lab.skew(node, seconds)

    def _login(self, node: str) -> None:
        if self.options.login is not None and self.lab.usable(node):
            self.lab.log_in(node)

    def _renew(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.renew(node)

    def _rotate_services(self) -> None:
        if self.lab.usable(MONITOR):
            self.lab.rotate(MONITOR)

    def _ready(self, ready: bool) -> None:  # noqa: FBT001 - of a plan
        if self.lab.usable(MONITOR):
            self.lab.set_ready(ready=ready)

    def _hold(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.hold(node)

    def _release(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.release(node)

    def _react(self, node: str, callback: str, nth: int, deed: str) -> None:
        if self.lab.usable(node):
            self.lab.react(node, callback, nth, deed)

    def _take_back(self, node: str, peer: str, part: int) -> None:
        if self.can_send(node, peer):
            self.lab.take_back(node, peer, part)

    def _dial_one(self, node: str, peer: str, which: int) -> None:
        if (node, peer) in self._pairs and self.can_send(node, peer):
            self.lab.dial_one(node, peer, which)

    def _stranger(self, node: str, victim: str, ending: str, steps: int) -> None:
        if self.lab.usable(node):
            self.lab.stranger(node, victim, ending, steps)

    def _arm(self, node: str, point: str, action: str, nth: int) -> None:
        if self.lab.usable(node):
            self.lab.arm(node, point, action, nth)

    def _unblock(self, node: str) -> None:
        if self.lab.usable(node):
            self.lab.unblock(node)

    def _configure(self, node: str, option: str, value: float) -> None:
        if self.lab.usable(node):
            self.lab.configure(node, **{option: value})
