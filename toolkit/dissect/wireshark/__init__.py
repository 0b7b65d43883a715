"""For users of Wireshark: a dissector of msgr v2 in Lua, and captures exported decrypted."""
