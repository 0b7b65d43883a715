"""The diagram of a session's states."""

import re

from messenger.session.states import TRANSITIONS, Change, SessionState
from toolkit.report.state_machine import draw_machine


def test_each_transition_of_the_table_is_an_arrow() -> None:
    drawn = draw_machine({})
    ends = {(state, target) for (state, change), target in TRANSITIONS.items() if change is not Change.CLOSE}
    between = {(state, target) for state, target in ends if state is not target}
    assert drawn.count('class="shaft"') == len(between)
    assert all(f">{state}<" in drawn for state in SessionState)
    assert "lit" not in drawn


def test_the_state_of_a_session_is_lit_and_its_last_change_stands_out() -> None:
    drawn = draw_machine({"READY": ["a → <b>"]}, "READY", ("CONNECTING", "READY"))
    assert "● READY" in drawn
    assert len(re.findall('class="state lit chosen"', drawn)) == 1
    assert len(re.findall('class="arrow last"', drawn)) == 1
    assert "a → &lt;b&gt;" in drawn
