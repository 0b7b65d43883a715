"""Examples of the verbs about the network, and about points of a conversation."""

from toolkit import Lab
from toolkit.faults.mangle import Flip, Mangle


def fault(lab: Lab) -> None:
    lab.fault("partition a b")  # any words of `msgrlab fault`, or a value such as Partition("a", "b")
    lab.send("a", "b")
    lab.wait(1)
    lab.fault("heal")
    lab.expect_delivered("a", "b", 1)


def cut(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.exchange()


def cut_at(lab: Lab) -> None:
    place = lab.breakpoint("a:MESSAGE:2", byte=20)
    lab.cut_at("a", "b", place)
    lab.send("a", "b", count=3)
    lab.expect_cut(place)
    lab.expect_delivered("a", "b", 3)


def cut_after(lab: Lab) -> None:
    lab.cut("a", "b")
    place = lab.cut_after("a", "b", "a", 100)  # of the next connection: a cut handshake
    lab.send("a", "b")
    lab.expect_cut(place)
    lab.expect_delivered("a", "b", 1)


def expect_cut(lab: Lab) -> None:
    place = lab.breakpoint("b:MESSAGE:1")
    lab.cut_at("a", "b", place)
    lab.send("b", "a")
    lab.expect_cut(place)


def breakpoint(lab: Lab) -> None:
    print(lab.breakpoint("a:MESSAGE:2", byte=20))  # MESSAGE is MSG on v1


def mangle(lab: Lab) -> None:
    changed = lab.mangle("a", "b", Mangle("a", "MSG" if lab.is_v1 else "MESSAGE", 1, change=Flip(-40, 1)))
    lab.send("a", "b")
    lab.expect_mangled(changed)
    lab.expect_delivered("a", "b", 1)  # by the next link


def expect_mangled(lab: Lab) -> None:
    changed = lab.mangle("a", "b", Mangle("a", "MESSAGE", 1, change=Flip(-40, 1)))
    lab.send("a", "b")
    lab.expect_mangled(changed)


def script(lab: Lab) -> None:
    (strike,) = lab.script("a", "b", "-> MESSAGE #2: cut")
    lab.send("a", "b", count=3)
    lab.expect_struck(strike)
    lab.expect_delivered("a", "b", 3)


def release_held(lab: Lab) -> None:
    lab.script("a", "b", "-> MESSAGE #1: hold x")
    lab.send("a", "b")
    lab.wait(1)
    lab.release_held("a", "b", "x")
    lab.expect_delivered("a", "b", 1)


def expect_struck(lab: Lab) -> None:
    strikes = lab.script("a", "b", "<- MESSAGE #1: cut")
    lab.send("b", "a")
    lab.expect_struck(*strikes)


def trickle(lab: Lab) -> None:
    lab.trickle("a", "b", size_bytes=7)
    lab.exchange()


def tape(lab: Lab) -> None:
    tape = lab.tape("a", "b")
    lab.exchange()
    print(len(tape.received), "bytes from a to b,", len(tape.frames), "frames")


def use_up_nonces(lab: Lab) -> None:
    lab.use_up_nonces("a", "b", left=7)
    lab.use_up_nonces("b", "a", left=7)
    lab.exchange(count=20)  # on another link, before a nonce is used twice


def breakpoints_between(lab: Lab) -> None:
    lab.cut_at("a", "b", lab.breakpoint("a:MESSAGE"))
    assert len(lab.breakpoints_between("a", "b")) == 1


def partition(lab: Lab) -> None:
    lab.partition("a", "b")
    lab.send("a", "b")
    lab.wait(2)
    lab.heal()
    lab.expect_delivered("a", "b", 1, within_s=60)


def heal(lab: Lab) -> None:
    lab.partition("a", "b", one_way=True)
    lab.heal()
    lab.exchange()


def refuse(lab: Lab) -> None:
    lab.refuse("a", "b")
    lab.refuse("b", "a")
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.wait(1)
    lab.refuse("a", "b", refused=False)
    lab.expect_delivered("a", "b", 1)


def half_close(lab: Lab) -> None:
    lab.half_close("a", "b")
    lab.exchange()


def half_open(lab: Lab) -> None:
    lab.half_open("a", "b")
    lab.exchange()


def slow(lab: Lab) -> None:
    lab.slow("a", "b", bytes_per_s=100_000)
    lab.send("a", "b", size_bytes=100_000)
    lab.expect_delivered("a", "b", 1)


def delay(lab: Lab) -> None:
    lab.delay("a", "b", seconds=0.1, jitter_s=0.02)
    lab.exchange()


def delay_dial(lab: Lab) -> None:
    lab.two()
    lab.delay_dial("a", "b", 0.5)
    lab.exchange()


def lose(lab: Lab) -> None:
    lab.lose("a", "b", 0.1)
    lab.exchange()


def impair(lab: Lab) -> None:
    lab.impair("a", "b", delay_ms=20)
    lab.exchange()


def black_hole(lab: Lab) -> None:
    lab.black_hole("a", "b", mtu_bytes=1400)
    lab.send("a", "b", size_bytes=10_000)
    lab.wait(2)
    lab.heal()
    lab.expect_delivered("a", "b", 1, within_s=60)


def nat(lab: Lab) -> None:
    lab.nat("a", "b")
    lab.cut("a", "b")
    lab.exchange()


def nat_flush(lab: Lab) -> None:
    lab.nat("a", "b")
    lab.nat_flush("a", "b", silent=False)
    lab.exchange()


def forge_reset(lab: Lab) -> None:
    lab.forge_reset("a", "b")
    lab.exchange()


def arm(lab: Lab) -> None:
    lab.arm("a", lab.point("MESSAGE", "WRITE"), "FAULT")
    lab.send("a", "b")
    lab.expect_hit("a", lab.point("MESSAGE", "WRITE"))
    lab.expect_delivered("a", "b", 1)


def expect_hit(lab: Lab) -> None:
    lab.arm("b", "MESSAGE READ", "FAULT", nth=2)
    lab.send("a", "b", count=3)
    lab.expect_hit("b", "MESSAGE READ")


def unblock(lab: Lab) -> None:
    lab.arm("a", "MESSAGE WRITE", "BLOCK")
    lab.send("a", "b")
    lab.expect_hit("a", "MESSAGE WRITE")
    lab.unblock("a")
    lab.expect_delivered("a", "b", 1)


def hits(lab: Lab) -> None:
    lab.arm("a", "MESSAGE WRITE", "CONTINUE")
    lab.exchange()
    assert lab.hits("a", "MESSAGE WRITE") == 1


def point(lab: Lab) -> None:
    assert lab.point("MESSAGE", "READ") == ("MSG READ" if lab.is_v1 else "MESSAGE READ")
