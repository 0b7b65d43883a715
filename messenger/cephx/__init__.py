"""Authentication: cephx and none (docs/protocol.md §5).

The modules by their user:

* encodings and keys: :mod:`~messenger.cephx.ciphers`, :mod:`~messenger.cephx.keys`,
  :mod:`~messenger.cephx.structures`, :mod:`~messenger.cephx.tickets`, :mod:`~messenger.cephx.authorizer`,
  :mod:`~messenger.cephx.session_reply`, :mod:`~messenger.cephx.signature`;
* clients: :mod:`~messenger.cephx.identity`, :mod:`~messenger.cephx.client`, and for v1 and for renewals
  :mod:`~messenger.cephx.mauth_client`;
* services: :mod:`~messenger.cephx.service`, and :mod:`~messenger.cephx.rotating` for their keys;
* monitors: :mod:`~messenger.cephx.key_server`, :mod:`~messenger.cephx.mon_server`,
  :mod:`~messenger.cephx.mauth_server`;
* handshakes: :mod:`~messenger.cephx.exchange`, and with v1 :mod:`~messenger.cephx.v1`;
* all of them: :mod:`~messenger.cephx.refusal`, the reasons for refusals.
"""
