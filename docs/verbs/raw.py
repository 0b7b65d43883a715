"""Examples of the verbs about peers that are spoken by hand."""

from toolkit import Lab


def raw(lab: Lab) -> None:
    lab.node("a", "osd.1", "lossless_peer")
    peer = lab.raw("r", "osd.2")
    lab.start()
    link = peer.dial("a").handshake()
    link.hang_up()
    lab.expect_closes("a", 1)
