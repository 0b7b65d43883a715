"""All of netem's netlink attributes; pyroute2's own class lacks those after the rate.

Names, numbers and layouts are those of linux/pkt_sched.h.
"""

from typing import Any

from pyroute2.netlink import nla, nlmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg
from pyroute2.netlink.rtnl.tcmsg.common import stats2

KIND = "netem"


class NetemOptions(nla):  # type: ignore[misc]
    """TCA_OPTIONS of netem: struct tc_netem_qopt, followed by attributes."""

    fields = (
        ("latency", "I"),  # in ticks of 64 ns; LATENCY64 has it in full
        ("limit", "I"),
        ("loss", "I"),
        ("gap", "I"),
        ("duplicate", "I"),
        ("jitter", "I"),
    )
    nla_map = (
        ("TCA_NETEM_UNSPEC", "none"),
        ("TCA_NETEM_CORR", "correlation"),
        ("TCA_NETEM_DELAY_DIST", "cdata"),
        ("TCA_NETEM_REORDER", "chance"),
        ("TCA_NETEM_CORRUPT", "chance"),
        ("TCA_NETEM_LOSS", "loss_models"),
        ("TCA_NETEM_RATE", "rate"),
        ("TCA_NETEM_ECN", "uint32"),
        ("TCA_NETEM_RATE64", "uint64"),
        ("TCA_NETEM_PAD", "hex"),
        ("TCA_NETEM_LATENCY64", "int64"),
        ("TCA_NETEM_JITTER64", "int64"),
        ("TCA_NETEM_SLOT", "slot"),
        ("TCA_NETEM_SLOT_DIST", "cdata"),
        ("TCA_NETEM_PRNG_SEED", "uint64"),
    )

    class correlation(nla):  # type: ignore[misc]  # noqa: N801
        """struct tc_netem_corr."""

        fields = (("delay", "I"), ("loss", "I"), ("duplicate", "I"))

    class chance(nla):  # type: ignore[misc]  # noqa: N801
        """struct tc_netem_reorder and tc_netem_corrupt."""

        fields = (("probability", "I"), ("correlation", "I"))

    class rate(nla):  # type: ignore[misc]  # noqa: N801
        """struct tc_netem_rate."""

        fields = (("rate", "I"), ("packet_overhead", "i"), ("cell_size", "I"), ("cell_overhead", "i"))

    class slot(nla):  # type: ignore[misc]  # noqa: N801
        """struct tc_netem_slot."""

        fields = (
            ("min_delay", "q"),
            ("max_delay", "q"),
            ("max_packets", "i"),
            ("max_bytes", "i"),
            ("dist_delay", "q"),
            ("dist_jitter", "q"),
        )

    class loss_models(nla):  # type: ignore[misc]  # noqa: N801
        """One of the two loss models."""

        nla_map = (
            ("NETEM_LOSS_UNSPEC", "none"),
            ("NETEM_LOSS_GI", "four_states"),
            ("NETEM_LOSS_GE", "gilbert_elliott"),
        )

        class four_states(nla):  # type: ignore[misc]  # noqa: N801
            """struct tc_netem_gimodel."""

            fields = (("p13", "I"), ("p31", "I"), ("p32", "I"), ("p14", "I"), ("p23", "I"))

        class gilbert_elliott(nla):  # type: ignore[misc]  # noqa: N801
            """struct tc_netem_gemodel."""

            fields = (("p", "I"), ("r", "I"), ("h", "I"), ("k1", "I"))


_ATTRIBUTES = (
    ("TCA_UNSPEC", "none"),
    ("TCA_KIND", "asciiz"),
    ("TCA_OPTIONS", "options"),
    ("TCA_STATS", "hex"),
    ("TCA_XSTATS", "hex"),
    ("TCA_RATE", "hex"),
    ("TCA_FCNT", "hex"),
    ("TCA_STATS2", "stats2"),
)


# Not a subclass of tcmsg: pyroute2 compiles the attributes of a class on first use, and a subclass would reuse
# those of a base class that was used before.
class NetemMessage(nlmsg):  # type: ignore[misc]
    """A traffic control message about a netem queue."""

    prefix = tcmsg.prefix
    fields = tcmsg.fields
    nla_map = _ATTRIBUTES
    options = NetemOptions
    stats2 = stats2

    @classmethod
    def about(cls, index: int, parent: int, handle: int, options: dict[str, Any]) -> "NetemMessage":
        """Return a message with a queue's position and options."""
        message = cls()
        message["index"], message["parent"], message["handle"] = index, parent, handle
        message["attrs"] = [("TCA_KIND", KIND), ("TCA_OPTIONS", options)]
        return message

    @classmethod
    def again(cls, message: tcmsg) -> "NetemMessage":
        """Decode a message again, with all attributes, that pyroute2 has decoded."""
        whole = cls(message.data, offset=message.offset)
        whole.decode()
        return whole


class ClassifierMessage(nlmsg):  # type: ignore[misc]
    """A message about a u32 classifier; pyroute2's own does not support offsets before the network header."""

    prefix = tcmsg.prefix
    fields = tcmsg.fields
    nla_map = _ATTRIBUTES
    stats2 = stats2

    class options(nla):  # type: ignore[misc]  # noqa: N801
        """TCA_OPTIONS of u32, as far as needed."""

        nla_map = (
            ("TCA_U32_UNSPEC", "none"),
            ("TCA_U32_CLASSID", "uint32"),
            ("TCA_U32_HASH", "uint32"),
            ("TCA_U32_LINK", "uint32"),
            ("TCA_U32_DIVISOR", "uint32"),
            ("TCA_U32_SEL", "cdata"),
        )
