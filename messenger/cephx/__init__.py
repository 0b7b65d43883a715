"""Authentication: cephx and none (docs/protocol.md §5).

What whom concerns:

* bytes: :mod:`~messenger.cephx.ciphers`, :mod:`~messenger.cephx.keys`, :mod:`~messenger.cephx.structures`,
  :mod:`~messenger.cephx.tickets`, :mod:`~messenger.cephx.authorizer`, :mod:`~messenger.cephx.session_reply`,
  :mod:`~messenger.cephx.signature`;
* a client: :mod:`~messenger.cephx.identity`, :mod:`~messenger.cephx.client`, and for v1 and for renewals
  :mod:`~messenger.cephx.mauth_client`;
* a service: :mod:`~messenger.cephx.service`, and :mod:`~messenger.cephx.rotating` for its keys;
* a monitor: :mod:`~messenger.cephx.key_server`, :mod:`~messenger.cephx.mon_server`,
  :mod:`~messenger.cephx.mauth_server`;
* a handshake: :mod:`~messenger.cephx.exchange`, and on v1 :mod:`~messenger.cephx.v1`;
* everybody: :mod:`~messenger.cephx.refusal`, the ways to fail.
"""
