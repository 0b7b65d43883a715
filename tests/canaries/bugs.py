"""The canaries: bugs of the kind that implementations of the protocol have had."""

from tests.canaries.canary import Canary

CANARIES = (
    # ---- replay and acknowledgement (docs/protocol.md §3.6)
    Canary(
        "nothing is replayed",
        "messenger.session.session:Session.requeue_sent",
        "self.out_seq -= self.queue.requeue_sent()",
        "self.queue.sent.clear()",
    ),
    Canary(
        "replay begins one too late",
        "messenger.session.queue:OutQueue.discard_requeued_up_to",
        "requeued[0][0] <= seq",
        "requeued[0][0] <= seq + 1",
    ),
    Canary(
        "replayed messages go out in the reverse order",
        "messenger.session.queue:OutQueue.requeue_sent",
        "self.requeued.extendleft(reversed(self.sent))",
        "self.requeued.extendleft(self.sent)",
    ),
    Canary(
        "an ack forgets one message too many",
        "messenger.session.queue:OutQueue.acknowledge",
        "sent[0][0] <= seq",
        "sent[0][0] <= seq + 1",
    ),
    Canary(
        "an ack leaves the last message unacknowledged",
        "messenger.session.queue:OutQueue.acknowledge",
        "sent[0][0] <= seq",
        "sent[0][0] < seq",
    ),
    Canary(
        "more is acknowledged than has come",
        "messenger.v2.data:write_due",
        "Ack(session.in_seq)",
        "Ack(session.in_seq + 1)",
    ),
    Canary(
        "SESSION_RECONNECT_OK tells a wrong in_seq",
        "messenger.v2.acceptor:_resume",
        "SessionReconnectOk(session.in_seq)",
        "SessionReconnectOk(session.in_seq + (session.in_seq > 0))",
    ),
    Canary(
        "v1: SEQ tells one less",
        "messenger.v1.connector:_on_seq",
        "Seq(session.in_seq)",
        "Seq(max(0, session.in_seq - 1) or session.in_seq)",
    ),
    # ---- session reset (§3.4, §4.9)
    Canary(
        "the application is not told of a remote reset",
        "messenger.core:Core.reset_session",
        "self.session_event(session, EventKind.REMOTE_RESET, fault, now)",
        "pass",
    ),
    Canary(
        "the application is not told that a session ended",
        "messenger.core:Core.stop_session",
        "self.session_event(session, EventKind.RESET, fault, now)",
        "pass",
    ),
    Canary(
        "a remote reset is told twice",
        "messenger.core:Core.reset_session",
        "self.session_event(session, EventKind.REMOTE_RESET, fault, now)",
        "self.session_event(session, EventKind.REMOTE_RESET, fault, now); "
        "self.session_event(session, EventKind.RESET, fault, now)",
    ),
    Canary(
        "a reset keeps what was queued for the old session",
        "messenger.core:Core.reset_session",
        "dropped = session.reset()",
        "kept = list(session.queue.requeued) + list(session.queue.sent); dropped = session.reset(); "
        "session.queue.requeued.extend(kept)",
    ),
    Canary(
        "the peer's numbers survive its restart",
        "messenger.session.session:Session.forget_peer_state",
        "self.in_seq = 0",
        "pass",
    ),
    # ---- races and takeovers (§4.9)
    Canary(
        "the tie-break of connection races is reversed",
        "messenger.session.existing:judge_client_ident",
        "peer_addr.sort_key() < my_addr.sort_key()",
        "peer_addr.sort_key() > my_addr.sort_key()",
    ),
    Canary(
        "the tie-break of reconnection races is reversed",
        "messenger.session.existing:_peer_is_lower",
        "existing.peer_addrs.msgr2_addr().sort_key() <= my_addr.sort_key()",
        "existing.peer_addrs.msgr2_addr().sort_key() >= my_addr.sort_key()",
    ),
    Canary(
        "v1: the tie-break of races is reversed",
        "messenger.v1.existing:judge_connect",
        "peer_addr.sort_key() < my_addr.sort_key()",
        "peer_addr.sort_key() > my_addr.sort_key()",
    ),
    Canary(
        "a taken over session keeps its old link open",
        "messenger.core:Core.take_over",
        "old.close(fault, now)",
        "pass",
    ),
    Canary(
        "outdated attempts are let in",
        "messenger.session.existing:_judge_outdated",
        "existing.peer_global_seq <= ident.global_seq",
        "True",
    ),
    Canary(
        "another client_cookie passes for the same session",
        "messenger.session.existing:judge_reconnect",
        "existing.client_cookie != frame.client_cookie",
        "False",
    ),
    Canary(
        "the accept event of a takeover is missing",
        "messenger.v2.acceptor:_announce_and_send",
        "endpoint.session_event(session, EventKind.ACCEPT, None, now)",
        "None if session.announced else endpoint.session_event(session, EventKind.ACCEPT, None, now)",
    ),
    # ---- faults and returning (§3.9, §4.11)
    Canary(
        "a lossy session is resumed",
        "messenger.session.faults:session_fault",
        "(session.lossy and (establishing or not dialling))",
        "False",
    ),
    Canary(
        "STANDBY is not left when there is something to send",
        "messenger.session.faults:wake",
        "session.state is not SessionState.STANDBY or not session.dials",
        "True",
    ),
    Canary(
        "connect_seq does not grow",
        "messenger.session.faults:session_fault",
        "session.connect_seq += 1",
        "session.connect_seq = max(0, session.connect_seq - 1)",
    ),
    Canary(
        "WAIT is never left",
        "messenger.session.faults:_back_off",
        "pause_s = config.ms_max_backoff",
        "return",
    ),
    Canary(
        "the pause before the next dial is forgotten",
        "messenger.session.faults:_dial_later",
        "session.backoff_timer = endpoint.timers.at(now + pause_s, lambda then: endpoint.redial(session, then))",
        "session.backoff_timer = endpoint.timers.at(now + 10000.0, lambda then: endpoint.redial(session, then))",
    ),
    Canary(
        "RETRY_GLOBAL is answered by the same number",
        "messenger.v2.connector:_on_retry_global",
        "link.endpoint.numbers.next_global_seq(frame.global_seq)",
        "_session(link).global_seq",
    ),
    # ---- resources
    Canary(
        "a session that ended can still be found",
        "messenger.session.registry:Registry.remove",
        "self._unregister(session)",
        "pass",
    ),
    Canary(
        "the dispatch throttle is not given back",
        "messenger.host:LinkHost.release",
        "dispatch_throttle.put(size_bytes, messages)",
        "dispatch_throttle.put(size_bytes - (size_bytes > 1000), messages)",
    ),
    # ---- encryption
    Canary(
        "connection secrets repeat, and so do nonces after a reconnect",
        "messenger.cephx.connection_secret:new_connection_secret",
        "rng.randbytes",
        "(lambda size: bytes(range(size)))",
    ),
    # ---- tickets (§5.7, §5.8)
    Canary(
        "a refused ticket is shown again",
        "messenger.cephx.authorizer_exchange:AuthorizerExchange.bad_method",
        "self._source.ticket_refused(self._current_ticket())",
        "pass",
    ),
    Canary(
        "a ticket is good although it has expired",
        "messenger.cephx.service:CephxServiceExchange._open",
        "expires_s < self._wall_time_s",
        "False",
    ),
    # ---- shards
    Canary(
        "calls between shards are applied as they come",
        "messenger.shards.calls:InOrder.arrive",
        "self._waiting.pop(self._next_seq, None)",
        "(self._waiting.popitem()[1] if self._waiting else None)",
    ),
)
"""Each has to be found within :data:`MOST_SEEDS` seeds."""

MOST_SEEDS = 1000
