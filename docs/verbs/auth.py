"""Examples of the verbs about authentication, with a monitor ``m``, an OSD ``o`` and a client ``c``."""

from toolkit import Lab

DAEMON = "stateful_server mon=lossy_client"
CLIENT = "lossless_client mon=lossy_client"


def monitor(lab: Lab) -> None:
    entities = {"osd.2": lab.entity(), "client.7": lab.entity()}
    lab.monitor("m", 0, entities, service_ttl_s=60)
    for name, entity, policy in (("o", "osd.2", DAEMON), ("c", "client.7", CLIENT)):
        login = {"login": {"name": entity, "key": entities[entity]["key"]}, "service_ttl_s": 60}
        lab.node(name, entity, policy, listens=name == "o", auth=login)
    lab.start()
    lab.dial("o", "m")
    lab.dial("c", "m")
    lab.expect_login("o", "m")
    lab.expect_login("c", "m")


def entity(lab: Lab) -> None:
    print(lab.entity(caps={"osd": "allow r"}))  # with a new key


def new_key(lab: Lab) -> None:
    print(lab.entity(lab.new_key()))


def auth(lab: Lab) -> None:
    assert lab.auth("c")["global_id"] > 0


def expect_login(lab: Lab) -> None:
    lab.mark_down("c", "m")
    lab.dial("c", "m")
    lab.expect_login("c", "m", within_s=10)


def expect_secrets(lab: Lab) -> None:
    lab.expect_secrets("o", 1, 2, 3)


def expect_ticket(lab: Lab) -> None:
    lab.expect_ticket("c", "osd", 2)  # sealed by the second of the service keys
    lab.send("c", "o")
    lab.expect_delivered("c", "o", 1)


def renew(lab: Lab) -> None:
    lab.wait(50)
    lab.renew("c")


def rotate(lab: Lab) -> None:
    lab.rotate("m")


def change_auth(lab: Lab) -> None:
    lab.change_auth("m", ready=False)  # has no quorum: clients wait
    lab.change_auth("m", ready=True)


def hunt(lab: Lab) -> None:
    lab.mark_down("c", "m")
    lab.hunt("c", "m")
    lab.expect_hunted("c")


def expect_hunted(lab: Lab) -> None:
    lab.mark_down("c", "m")
    lab.hunt("c", "m")  # the monitors of the cluster, all at once
    lab.expect_hunted("c")


def spoil(lab: Lab) -> None:
    lab.spoil("c", ticket=(20, 1))  # one bit of the sealed ticket
    lab.send("c", "o")
    lab.expect_broken("c", 1)
