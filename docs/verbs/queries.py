"""Examples of the verbs that query the history of the run so far."""

from toolkit import Lab


def history(lab: Lab) -> None:
    lab.exchange()
    print(lab.history.of("deliver").table())


def events(lab: Lab) -> None:
    assert lab.events("a", "b", "connect") == 1


def dials(lab: Lab) -> None:
    assert lab.dials("a") == 1


def closes(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.exchange()
    assert lab.closes("a") >= 1


def session_state(lab: Lab) -> None:
    assert lab.session_state("a", "b") == "READY"


def session(lab: Lab) -> None:
    print(lab.session("a", "b"))  # id, state, counters


def sessions(lab: Lab) -> None:
    print(lab.sessions())  # a DataFrame, a row each


def holdings(lab: Lab) -> None:
    assert lab.holdings("a")["links"] == 1


def was_in_state(lab: Lab) -> None:
    assert not lab.was_in_state("a", "STANDBY")


def records(lab: Lab) -> None:
    assert len(lab.records("a", "link", action="dial")) == 1


def frames(lab: Lab) -> None:
    assert len(lab.frames("a", "HELLO", "rx")) == 1


def messages(lab: Lab) -> None:
    lab.exchange(count=2)
    assert [record["fields"]["seq"] for record in lab.messages("a", "rx")] == [1, 2]


def dial_pauses_s(lab: Lab) -> None:
    assert lab.dial_pauses_s("a") == []


def race_winner(lab: Lab) -> None:
    winner, loser = lab.race_winner("a", "b")
    assert {winner, loser} == {"a", "b"}


def verdicts(lab: Lab) -> None:
    print(lab.verdicts("b"))  # such as REUSE, REPLACE


def tids(lab: Lab) -> None:
    lab.exchange(count=2)
    assert lab.tids("b") == [1, 2]


def faults(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.exchange()
    print(lab.faults("a"))  # such as SOCKET, EOF


def last_fault(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.exchange()
    print(lab.last_fault("a"))


def expect_faults(lab: Lab) -> None:
    lab.forge_reset("a", "b")
    lab.expect_faults("a", "SOCKET")


def expect_fault_count(lab: Lab) -> None:
    lab.forge_reset("a", "b")
    lab.expect_fault_count("a", 1)


def expect_broken(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.expect_broken("a", 1)


def expect_closes(lab: Lab) -> None:
    lab.mark_down("a", "b")
    lab.expect_closes("b", 1)


def check(lab: Lab) -> None:
    lab.exchange()
    lab.settle()
    assert all(result.ok for result in lab.check())


def chart(lab: Lab) -> None:
    lab.exchange()
    print(len(lab.chart().svg()))


def rates(lab: Lab) -> None:
    lab.exchange()
    print(lab.rates())  # its span, the highest rate, and what was broken; in a notebook the plots


def now_s(lab: Lab) -> None:
    began_s = lab.now_s
    lab.wait(1.0)
    assert lab.now_s >= began_s + 1.0


def rng(lab: Lab) -> None:
    lab.send("a", "b", count=lab.rng.randint(1, 5))


def protocol(lab: Lab) -> None:
    print(lab.protocol)  # v2


def is_v1(lab: Lab) -> None:
    assert not lab.is_v1 or not lab.is_secure


def is_secure(lab: Lab) -> None:
    lab.require(lab.is_secure == (lab.way.mode == "secure"), "the mode of the way")


def keys(lab: Lab) -> None:
    assert lab.keys  # opens what was captured of the lab
