"""HS: a fault at every point of a handshake without a connection race."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.rows import play, rows, stopped_at, v1_rows
from toolkit.scenarios.handshake import HS

_TM03 = {"TM03": {"row": "", "order": ""}}
_LAST_REPLY = stopped_at("CONNECT_REPLY WRITE #2", "SEQ WRITE")


@HS.scenario("HS-03", "connector_fault_pre_ident", cases=rows("CF01"), v1_cases=v1_rows("CF01"))
def connector_fault_pre_ident(lab: Lab, row: str, order: str) -> None:
    """A dial that breaks before CLIENT_IDENT is repeated without an event.

    A lossy client has a message to send, and its dial is broken at each point from the socket to AUTH_SIGNATURE.
    It dials a second time and the message arrives: one connect event, no reset. The server only sees a link that
    closed. On v1 the client dials again only until it has sent its banner; after that the session ends with a
    reset event.
    """
    play(lab, row, order)


@HS.scenario("HS-04", "acceptor_fault_pre_ident", cases=rows("CF04"), v1_cases=v1_rows("CF04"))
def acceptor_fault_pre_ident(lab: Lab, row: str, order: str) -> None:
    """A server raises no event for a link that it breaks before CLIENT_IDENT.

    The server breaks the link at each point up to the client's AUTH_SIGNATURE. The first link is closed without an
    event, the second is accepted once. On v1 the client's session ends, as in HS-03.
    """
    play(lab, row, order)


@HS.scenario(
    "HS-05", "connector_fault_at_ident", cases=rows("CF02", "CF08", "CF16"), v1_cases=v1_rows("CF08", "CF16")
)
def connector_fault_at_ident(lab: Lab, row: str, order: str) -> None:
    """A client identifies itself again after a lost CLIENT_IDENT or SERVER_IDENT.

    CLIENT_IDENT is not written, or SERVER_IDENT not read, by a lossy client, a lossless client and a lossless
    peer. It sends CLIENT_IDENT twice, raises one connect event, and loses no queued message. The session has not
    been open on this side, so its connect_seq does not grow.
    """
    play(lab, row, order)
    numbers = {
        record["connect_seq"] for record in lab.history.of("state") if (record.node, record["session"]) == ("a", 1)
    }
    lab.require(numbers <= ({0, 1} if lab.is_v1 else {0}), f"connect_seq must not grow, a has been at {numbers}")


@HS.scenario(
    "HS-06", "acceptor_fault_at_ident", cases=rows("CF05", "CF12", "CF17"), v1_cases=v1_rows("CF12", "CF17")
)
def acceptor_fault_at_ident(lab: Lab, row: str, order: str) -> None:
    """A server that breaks the link instead of reading CLIENT_IDENT registers no session.

    The first link of a stateless server, a stateful server and a lossless peer is closed without an event and
    registers nothing: the second CLIENT_IDENT finds no session and opens one. On v1, where CONNECT opens the
    session, the link is broken at each point of the handshake.
    """
    play(lab, row, order)
    if lab.is_v1:
        return
    decisions = [record for record in lab.history.of("decision") if record.node == "a"]
    lab.require(
        [(record["verdict"], record["session"]) for record in decisions] == [("OPEN", None)],
        f"one decision, on nothing that was there, is to be made; made were {[d.fields for d in decisions]}",
    )


@HS.scenario(
    "HS-07",
    "server_ident_lost",
    cases=rows("CF06", "CF13", "CF18") | _TM03,
    v1_cases=v1_rows("CF12", "CF17", only=_LAST_REPLY) | _TM03,
)
def server_ident_lost(lab: Lab, row: str, order: str) -> None:
    """The client's next dial opens the session whose SERVER_IDENT was not written.

    The link breaks instead of SERVER_IDENT being written, after the server has raised its accept event. A lossy
    session of the server ends with a reset event, and the client's second dial opens a new one. A lossless session
    goes on: the same connection takes over the second link, and messages that the server has queued for it arrive.
    """
    if row:
        play(lab, row, order)
    else:
        _queued_by_the_server(lab)


def _queued_by_the_server(lab: Lab) -> None:
    """TM03: the server answers the accept with a message, and the client has one, too."""
    lab.two("lossy_client", "stateful_server", "client.1")
    lab.arm("b", "CONNECT_REPLY WRITE" if lab.is_v1 else "SERVER_IDENT WRITE", nth=2 if lab.is_v1 else 1)
    lab.dial("a", "b")
    lab.send("a", "b")
    if lab.is_v1:
        # On v1 the reply comes before the event, and a lossy client does not dial again.
        lab.expect_event("a", "b", "reset")
        lab.connect("a", "b")
        lab.send("a", "b")
        lab.send("b", "a")
    else:
        lab.expect_event("b", "a", "accept")
        lab.send("b", "a")
        lab.expect_state("a", "b", "READY")
    lab.expect_delivered("a", "b", 1)
    lab.expect_delivered("b", "a", 1)
    lab.settle()
    idents = [record for record in lab.history.of("frame") if record.node == "a" and record["direction"] == "tx"]
    written = sum(record["tag"] in {"CLIENT_IDENT", "IDENTIFY"} for record in idents)
    lab.require(written == 2, f"the client must have said twice who it is, it said so {written} times")
