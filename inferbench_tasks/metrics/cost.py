"""Money for 1,000 requests, and for 1,000 samples: an instance's hourly rate over what was answered in an hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from inferbench_tasks.catalogue import Price, price_rows, prices_for
from inferbench_tasks.dotted import value_at
from inferbench_tasks.metrics.base import Block, Measured, shared
from inferbench_tasks.monitors.environment import device_name


class Cost(Block):
    """Cost on every instance with the same device, the cheapest first.

    A CPU instance's rate is scaled to the logical cores that the job had, so that half an instance costs half; a
    balancer on other cores than the job's devices adds what it used of them.
    ``usd_per_1k_samples`` compares requests of different sizes. ``usd_per_1k_under_slo`` uses the goodput: what was
    answered within the SLO's bound.
    """

    unit: ClassVar[str] = "USD"
    formula: ClassVar[str] = "USD/h / 3,600 s/h / throughput_rps x 1,000"
    path: ClassVar[str] = "cost"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{usd_per_1k, usd_per_1k_samples, usd_per_1k_under_slo, unverified, instances [...], reason}; the first of the
        instances is the cheapest.
        """
        throughput = measured.summary.get("throughput_rps")
        kind = measured.device.kind
        name = device_name(kind, measured.hardware)
        if measured.neighbours:
            return {
                "usd_per_1k": None,
                "reason": shared(measured.neighbours, "the price is of the whole instance"),
            }
        if not throughput:
            return {"usd_per_1k": None, "reason": "nothing was answered"}
        if not price_rows():
            return {"usd_per_1k": None, "reason": "configs/prices.yaml is missing"}
        if not name:
            return {"usd_per_1k": None, "reason": "the device tells no name, so no price fits it"}
        names = {device_name(kind, host.hardware) for host in measured.hosts} | {name}
        if len(names) > 1:
            listed = " and ".join(sorted(map(str, names)))
            return {"usd_per_1k": None, "reason": f"the replicas' hosts have unlike devices: {listed}"}
        matching = prices_for(kind, str(name))
        if not matching:
            return {"usd_per_1k": None, "reason": f"configs/prices.yaml has no instance with {name!r}"}
        cores = measured.granted_cores
        beside = 0.0
        if kind == "cpu" and cores is not None and _is_beside(measured):
            used = value_at(measured.summary, "resources.balancer.cpu_cores.mean")
            if used is None:
                return {"usd_per_1k": None, "reason": "what the balancer used of its cores was not recorded"}
            beside = float(used)
        hosts, paid = max(1, len(measured.hosts)), cores if kind == "cpu" else None
        instances = sorted(
            (_priced(row, measured.summary, paid, beside, hosts) for row in matching),
            key=lambda entry: float(entry["usd_per_1k"]),
        )
        return {
            "usd_per_1k": instances[0]["usd_per_1k"],
            "usd_per_1k_samples": instances[0]["usd_per_1k_samples"],
            "usd_per_1k_under_slo": instances[0]["usd_per_1k_under_slo"],
            "unverified": instances[0]["unverified"],
            "instances": instances,
            "reason": None,
        }


def _is_beside(measured: Measured) -> bool:
    """Whether a balancer ran on cores that are none of the job's devices."""
    own = measured.device_cores or measured.hardware.get("cores_allowed") or ()
    return bool(measured.balancer_cores) and not {*measured.balancer_cores} & {*own}


def _priced(
    row: Price, summary: Mapping[str, Any], cores: float | None, beside: float = 0.0, hosts: int = 1
) -> dict[str, Any]:
    """``beside``: further cores, as much of them as was used, which is another number in each run: by the rate without
    them two runs of one configuration are priced alike. ``hosts``: so many instances are paid, where not by cores.
    """
    goodput = summary.get("goodput_rps")
    instances = 1 if cores and row.vcpus else hosts
    rate = instances * hourly_rate(row, cores + beside if cores and beside else cores)
    return {
        **({"usd_per_hour_of_devices": instances * hourly_rate(row, cores)} if beside else {}),
        "provider": row.provider,
        "instance": row.instance,
        "region": row.region,
        "device": row.device,
        "usd_per_hour": rate,
        "usd_per_1k": usd_per_1k(rate, summary["throughput_rps"]),
        "usd_per_1k_samples": usd_per_1k(rate, summary["throughput_samples_per_s"]),
        "usd_per_1k_under_slo": usd_per_1k(rate, goodput) if goodput else None,
        "approximate": row.approximate,
        "unverified": row.unverified,
        "source": row.source,
        "date": row.date,
    }


def hourly_rate(row: Price, cores: float | None) -> float:
    """USD/h of one of the instance's devices, or of so many of its vCPUs."""
    return row.usd_per_hour * cores / row.vcpus if cores and row.vcpus else row.usd_per_hour / row.devices


def usd_per_1k(usd_per_hour: float, answered_per_s: float) -> float:
    """Cost of 1,000 requests, or samples, where so many are answered per second."""
    return usd_per_hour / 3600 / answered_per_s * 1000
