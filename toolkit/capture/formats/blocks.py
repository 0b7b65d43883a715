"""The numbers of capture files: types of blocks, options and link layers.

This module does not import numpy, which readers need and writers do not.
"""

from enum import IntEnum

SECTION_HEADER = 0x0A0D0D0A
INTERFACE = 1
OLD_PACKET = 2
SIMPLE_PACKET = 3
NAMES = 4
STATISTICS = 5
ENHANCED_PACKET = 6
DECRYPTION_SECRETS = 10
BYTE_ORDER_MAGIC = 0x1A2B3C4D

OPTION_END = 0
OPTION_COMMENT = 1
OPTION_TIME_RESOLUTION = 9
OPTION_TIME_OFFSET = 14

MESSENGER_KEY_LOG = int.from_bytes(b"MSGR")
"""Type of the project's secrets; readers skip types that they do not know."""


class LinkType(IntEnum):
    """The link layer of a packet: the values of capture files that assembly understands."""

    NULL = 0
    ETHERNET = 1
    RAW_BSD = 12
    RAW_OPENBSD = 14
    RAW = 101
    LOOP = 108
    LINUX_SLL = 113
    IPV4 = 228
    IPV6 = 229
    LINUX_SLL2 = 276
