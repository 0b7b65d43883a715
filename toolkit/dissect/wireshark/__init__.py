"""Wireshark support: a dissector of msgr v2 in Lua, and the export of decrypted captures."""
