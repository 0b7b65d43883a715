"""Convert link states to netem's options, and back.

Options include every value, also 0, because netem keeps the old value of an option that a change leaves out.
"""

import struct
from typing import Any

from toolkit.network.distributions import table
from toolkit.network.netem.attributes import NetemOptions
from toolkit.network.state import FourStates, GilbertElliott, LinkState, Loss, RandomLoss, Slot

_ALL = (1 << 32) - 1
"""Probability 1."""
_TICK_NS = 64
_NS_PER_MS = 1_000_000
_PERCENT_DIGITS = 7
"""Decimals of a percentage that survive the conversion to 32 bits."""
_MS_DIGITS = 6


def encode(state: LinkState) -> dict[str, Any]:
    """Return the options, as pyroute2 takes them."""
    loss = state.loss if isinstance(state.loss, RandomLoss) else RandomLoss(percent=0)
    delay_ns, jitter_ns = _nanoseconds(state.delay_ms), _nanoseconds(state.jitter_ms)
    return {
        "latency": min(delay_ns // _TICK_NS, _ALL),
        "limit": state.limit_packets,
        "loss": _share(loss.percent),
        "gap": (state.reorder_gap or 1) if state.reorder_percent else 0,
        "duplicate": _share(state.duplicate_percent),
        "jitter": min(jitter_ns // _TICK_NS, _ALL),
        "attrs": [
            ("TCA_NETEM_LATENCY64", delay_ns),
            ("TCA_NETEM_JITTER64", jitter_ns),
            (
                "TCA_NETEM_CORR",
                {
                    "delay": _share(state.delay_correlation_percent),
                    "loss": _share(loss.correlation_percent),
                    "duplicate": _share(state.duplicate_correlation_percent),
                },
            ),
            ("TCA_NETEM_REORDER", _chance(state.reorder_percent, state.reorder_correlation_percent)),
            ("TCA_NETEM_CORRUPT", _chance(state.corrupt_percent, state.corrupt_correlation_percent)),
            *_rate(state.rate_bits_per_s // 8),
            ("TCA_NETEM_SLOT", _slot(state.slot)),
            *_distribution(state),
            *_loss_model(state.loss),
            *([("TCA_NETEM_PRNG_SEED", state.seed)] if state.seed is not None else []),
        ],
    }


def _share(percent: float) -> int:
    """Convert a percentage to 32 bits; a positive one does not become 0."""
    return max(round(percent / 100 * _ALL), int(percent > 0))


def _nanoseconds(milliseconds: float) -> int:
    return max(round(milliseconds * _NS_PER_MS), int(milliseconds > 0))


def _chance(percent: float, correlation_percent: float) -> dict[str, int]:
    return {"probability": _share(percent), "correlation": _share(correlation_percent)}


def _rate(bytes_per_s: int) -> list[tuple[str, Any]]:
    overheads = {"packet_overhead": 0, "cell_size": 0, "cell_overhead": 0}
    rate = [("TCA_NETEM_RATE", {"rate": min(bytes_per_s, _ALL), **overheads})]
    return [*rate, ("TCA_NETEM_RATE64", bytes_per_s)] if bytes_per_s > _ALL else list(rate)


def _slot(slot: Slot | None) -> dict[str, int]:
    return {
        "min_delay": _nanoseconds(slot.min_delay_ms) if slot else 0,
        "max_delay": _nanoseconds(slot.max_delay_ms) if slot else 0,
        "max_packets": slot.packets if slot else 0,
        "max_bytes": slot.bytes if slot else 0,
        "dist_delay": 0,
        "dist_jitter": 0,
    }


def _distribution(state: LinkState) -> list[tuple[str, Any]]:
    """Return the table of the jitter, even for uniform, because netem would keep the last one."""
    if not state.jitter_ms:
        return []
    entries = table(state.distribution)
    return [("TCA_NETEM_DELAY_DIST", struct.pack(f"={len(entries)}h", *entries))]


def _loss_model(loss: Loss | None) -> list[tuple[str, Any]]:
    match loss:
        case GilbertElliott():
            model = {
                "p": _share(loss.to_bad_percent),
                "r": _share(loss.to_good_percent),
                "h": _ALL - _share(loss.bad_loss_percent),
                "k1": _share(loss.good_loss_percent),
            }
            return [("TCA_NETEM_LOSS", {"attrs": [("NETEM_LOSS_GE", model)]})]
        case FourStates():
            model = {name: _share(percent) for name, percent in loss}
            return [("TCA_NETEM_LOSS", {"attrs": [("NETEM_LOSS_GI", model)]})]
        case _:
            return []


def decode(options: NetemOptions) -> LinkState:
    """Return the state that a netem queue reports.

    It does not report the distribution of its jitter. Since Linux 6.5 it always reports a seed, which the kernel
    draws if none was set.
    """
    correlation = options.get_attr("TCA_NETEM_CORR")
    reorder, corrupt = options.get_attr("TCA_NETEM_REORDER"), options.get_attr("TCA_NETEM_CORRUPT")
    rate = options.get_attr("TCA_NETEM_RATE64") or options.get_attr("TCA_NETEM_RATE")["rate"]
    reorders = bool(reorder["probability"] and options["gap"])
    return LinkState(
        delay_ms=_milliseconds(options.get_attr("TCA_NETEM_LATENCY64")),
        jitter_ms=_milliseconds(options.get_attr("TCA_NETEM_JITTER64")),
        delay_correlation_percent=_percent(correlation["delay"]),
        loss=_loss(options, correlation["loss"]),
        duplicate_percent=_percent(options["duplicate"]),
        duplicate_correlation_percent=_percent(correlation["duplicate"]),
        reorder_percent=_percent(reorder["probability"]) if reorders else 0.0,
        reorder_correlation_percent=_percent(reorder["correlation"]) if reorders else 0.0,
        reorder_gap=options["gap"] if reorders else 0,
        corrupt_percent=_percent(corrupt["probability"]),
        corrupt_correlation_percent=_percent(corrupt["correlation"]),
        rate_bits_per_s=rate * 8,
        limit_packets=options["limit"],
        slot=_slot_of(options.get_attr("TCA_NETEM_SLOT")),
        seed=options.get_attr("TCA_NETEM_PRNG_SEED"),
    )


def _percent(share: int) -> float:
    percent = share / _ALL * 100
    return round(percent, _PERCENT_DIGITS) or percent


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / _NS_PER_MS, _MS_DIGITS)


def _loss(options: NetemOptions, correlation: int) -> RandomLoss | GilbertElliott | FourStates | None:
    models = options.get_attr("TCA_NETEM_LOSS")
    if models is None:
        if not options["loss"]:
            return None
        return RandomLoss(percent=_percent(options["loss"]), correlation_percent=_percent(correlation))
    if model := models.get_attr("NETEM_LOSS_GE"):
        return GilbertElliott(
            to_bad_percent=_percent(model["p"]),
            to_good_percent=_percent(model["r"]),
            bad_loss_percent=_percent(_ALL - model["h"]),
            good_loss_percent=_percent(model["k1"]),
        )
    model = models.get_attr("NETEM_LOSS_GI")
    return FourStates(**{name: _percent(model[name]) for name in FourStates.model_fields})


def _slot_of(slot: dict[str, int] | None) -> Slot | None:
    if slot is None or not slot["max_delay"]:
        return None
    return Slot(
        min_delay_ms=_milliseconds(slot["min_delay"]),
        max_delay_ms=_milliseconds(slot["max_delay"]),
        packets=slot["max_packets"],
        bytes=slot["max_bytes"],
    )
