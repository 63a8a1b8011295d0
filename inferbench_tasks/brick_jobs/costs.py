"""What 1,000 predicted requests, and samples, cost, in money and emissions, by the tables under ``configs/``; and what
that assumes.

The formulas are those of measured runs (``metrics/cost.py``, ``metrics/energy.py``: ``tdp_estimate``,
``metrics/carbon.py``). Nothing was measured of either, so both say what they take for granted: a thread is a vCPU in
money, which may be half a core, and a whole physical core in energy. Both go by threads, so they are worked out for
processors alone: the threads of bricks on a GPU are its host's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.bricks.measure.method import runtime_name
from inferbench_tasks.bricks.runtimes import runtimes_of
from inferbench_tasks.catalogue import find_hardware, prices_for
from inferbench_tasks.metrics.carbon import g_per_1k, region_row
from inferbench_tasks.metrics.cost import usd_per_1k
from inferbench_tasks.metrics.energy import UNCERTAINTY_RATIO

FIGURES = ("usd_per_1k", "usd_per_1k_samples", "g_per_1k", "g_per_1k_samples")


def costs_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a ranked prediction: ``usd_per_1k`` and ``g_per_1k`` requests, and the same of samples (``_samples``) as
    measured runs have them, each null where a table does not know the device, or where that is no processor;
    ``costs_assume``: sentences on both. A request has ``batch_size`` samples."""
    if runtime_name(row["runtime"]) in runtimes_of("gpu"):
        why = (
            f"What 1,000 requests on {row['device']} cost: worked out for processors alone, and it is a GPU."
        )
        return {**dict.fromkeys(FIGURES), "costs_assume": [why]}
    usd, money = _usd(row)
    grams, emissions = _grams(row)
    samples = row["batch_size"]
    each = (usd, usd and usd / samples, grams, grams and grams / samples)
    return {**dict(zip(FIGURES, each, strict=True)), "costs_assume": [money, emissions]}


def _usd(row: Mapping[str, Any]) -> tuple[float | None, str]:
    device, cores = row["device"], row["threads"]
    of = f"USD for 1,000 requests on {device}"
    rates = [
        (price.usd_per_hour * cores / price.vcpus, price)
        for price in prices_for("cpu", device)
        if price.vcpus and price.vcpus >= cores
    ]
    if not rates:
        return (
            None,
            f"{of}: not known, configs/prices.yaml has no instance with it and {cores} vCPUs or more.",
        )
    rate, price = min(rates, key=lambda one: one[0])
    doubts = [
        *(["of the same family, the product's name is hidden"] if price.approximate else []),
        *(["not looked up for this release"] if price.unverified else []),
    ]
    return usd_per_1k(rate, 1e3 / row["predicted_ms"]), (
        f"{of}: {cores} of the {price.vcpus} vCPUs of {price.provider} {price.instance}, {price.region}, at "
        f"{price.usd_per_hour:g} USD/h ({', '.join([price.date, *doubts])}), busy all the time with one request after "
        "the other; an instance that waits costs the same, and more for each request."
    )


def _grams(row: Mapping[str, Any]) -> tuple[float | None, str]:
    device, cores = row["device"], row["threads"]
    of = f"g CO2e for 1,000 requests on {device}"
    hardware, region = find_hardware(device), region_row()
    if hardware is None or hardware.kind != "cpu" or hardware.watt_per_core is None:
        return None, f"{of}: not known, configs/hardware.yaml has no power of it."
    if region is None:
        return None, f"{of}: not known, configs/carbon.yaml is missing."
    joule = row["predicted_ms"] / 1e3 * cores * hardware.watt_per_core
    return g_per_1k(joule, region), (
        f"{of}: {_cores(cores)} at {hardware.watt_per_core:.3g} W, the share of one physical core in the processor's "
        f"thermal design power, by {UNCERTAINTY_RATIO['tdp_estimate']:.0%} more or less; without idle power, memory, "
        f"cooling and the making of the hardware; electricity of {region.region}, {region.g_per_kwh:g} g/kWh "
        f"({region.date})."
    )


def _cores(count: int) -> str:
    return "one core" if count == 1 else f"{count} cores"
