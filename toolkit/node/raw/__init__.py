"""Raw peers: the script writes and reads their frames by hand, without the library's state machine.

A raw peer takes the place of a node and sends what the script has it send, valid or not::

    b = lab.raw("b", "osd.2")           # before lab.start(), so that nodes get its address
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    lab.dial("a", "b")
    link = b.accept("a")                # or b.dial("a"): then the node is the acceptor
    link.handshake(until=link.ident)    # the steps of a correct peer
    ident = link.expect(ClientIdent)
    link.send(link.server_ident(global_seq=7))
    link.send_messages(1, 2)
    link.write(RawFrame(Tag.ACK, (bytes(8),), preamble_mask=1).encode(link.seal))
    link.expect_closed()
    lab.expect_faults("a", "PREAMBLE_CRC")

The parts:

* ``link``: :class:`~toolkit.node.raw.link.RawLink`, the base class of links of both protocols: bytes, waiting, the
  handshake as a list of steps. A call that waits lets the lab's time pass until the other side has answered or
  closed the link, or until ``patience_s`` is over, which raises ScenarioFailed.
* ``v2`` and ``v1``: the two protocols. Their methods build frames with default or given values:
  ``client_ident(gid=7)``, ``connect_message(connect_seq=9)`` and so on. Frames of the handshake may be sent by
  hand instead. In secure mode ``link.seal`` encrypts the next part of a frame.
* ``frames``: :class:`~toolkit.node.raw.frames.RawFrame`, a frame of msgr 2.1 field by field.
* ``peer``: :class:`~toolkit.node.raw.peer.RawPeer`, which may have many links, one after the other or at once.
* ``stream``: the byte stream below. The simulator's is in ``toolkit/lab/sim/sim_raw.py``;
  :class:`~toolkit.node.raw.stream.SocketStream` serves nodes on loopback as well as Ceph daemons: a link needs
  only the other side's type and address, and an identity that it accepts.

A raw peer writes only steps into the history: the invariants do not judge its frames. :meth:`Lab.settle` does not
wait for it either. Close its links, or answer on them, before you expect nodes to become quiet. On loopback its
links run without a proxy, so the lab's network faults do not reach them.
"""
