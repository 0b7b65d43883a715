"""Peers that speak by hand: bytes, not the library's state machine.

A raw peer takes the place of a node and sends what the script has it send, right or wrong::

    b = lab.raw("b", "osd.2")           # before lab.start(), so that nodes know where it is
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    lab.dial("a", "b")
    link = b.accept("a")                # or b.dial("a"): then the node is the acceptor
    link.handshake(until=link.ident)    # what a proper peer would do, step by step
    ident = link.expect(ClientIdent)
    link.send(link.server_ident(global_seq=7))
    link.send_messages(1, 2)
    link.write(RawFrame(Tag.ACK, (bytes(8),), preamble_mask=1).encode(link.seal))
    link.expect_closed()
    lab.expect_faults("a", "PREAMBLE_CRC")

The parts:

* ``link``: :class:`~toolkit.node.raw.link.RawLink`, what links of both protocols have in common: bytes,
  waiting, the handshake as a list of steps. Whatever waits has the lab's time pass until the other side has
  answered, closed the link, or ``patience_s`` is over, which raises ScenarioFailed.
* ``v2`` and ``v1``: the two protocols. Frames with other values than the usual ones: ``client_ident(gid=7)``,
  ``connect_message(connect_seq=9)`` and so on. What the steps of the handshake send may be sent by hand instead.
  Secure mode: ``link.seal`` encrypts the next part of a frame.
* ``frames``: :class:`~toolkit.node.raw.frames.RawFrame`, a frame of msgr 2.1 field by field.
* ``peer``: :class:`~toolkit.node.raw.peer.RawPeer`, which may have many links, one after the other or at once.
* ``stream``: the byte stream below. The simulator's is in ``toolkit/lab/sim/sim_raw.py``; a
  :class:`~toolkit.node.raw.stream.SocketStream` serves nodes on loopback and daemons of Ceph's alike: a link
  needs to know of the other side its type and address, and an identity that it accepts, nothing more.

A raw peer writes only steps into the history: the invariants do not judge its frames. Nor is it in
:meth:`Lab.settle`. Close its links, or answer on them, before you expect nodes to come to rest. On loopback its
links run without a proxy, so the lab's network faults do not reach them.
"""
