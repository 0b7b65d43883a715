"""A server under attack, with a legitimate client beside the attackers.

Three processes on loopback: ``server`` is an asyncio Messenger that listens for v2 and v1, ``client`` has one
lossless session by each protocol and sends requests at a steady pace, ``attacker`` runs one of the attacks. The
attacks are in ``strangers`` (without credentials) and ``insiders`` (with a valid ticket); ``measure`` is the
controller.
"""
