"""Scenarios of this project; docs/scenarios.md of msgrlab lists all verbs of a lab."""

from toolkit import Lab, scenario


@scenario(
    cases={"briefly": {"frozen_s": 1.0}, "long": {"frozen_s": 60.0}},
    sim_cases={"long": "it takes a minute"},
    processes=True,  # only a process can be frozen
)
def frozen_server(lab: Lab, frozen_s: float) -> None:
    """A server that was frozen gets every message once.

    A client sends while its server is frozen. When the server continues, all messages arrive in order, and no
    remote_reset event is raised.
    """
    lab.two("lossless_client", "stateful_server", "client.1", "mds.0")
    lab.connect("a", "b")
    lab.freeze("b")
    lab.send("a", "b", count=5)
    lab.wait(frozen_s)
    lab.thaw("b")
    lab.expect_delivered("a", "b", 5)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()
