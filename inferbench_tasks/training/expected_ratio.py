"""How many times longer one run's device should take than another's: by measured factors, else by datasheets.

A factor of ``configs/expected_speed.yaml``, or of a submission's block ``expected``, is a point. Datasheets
(``configs/hardware.yaml``) give bounds: by the roofline model (Williams, Waterman and Patterson, 2009) a phase that
the device limits takes its FLOP by the peak or its bytes by the bandwidth, so that the ratio of two devices' times
lies between those of both figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from inferbench_tasks.catalogue import Hardware, find_hardware
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.training import expected
from inferbench_tasks.training.result import TrainingResult, host_names
from inferbench_tasks.training.stored_job import fields_of

#: The work of the device.
DEVICE = ("forward", "loss", "backward", "optimiser")
#: How a step is computed, and what that is unless a job says otherwise.
COMPUTING = {
    "precision": "fp32", "optimiser": "sgd", "compile": False, "channels_last": False, "flush_denormals": False,
}  # fmt: skip
_SPEEDS = TypeAdapter(list[expected.ExpectedSpeed])


@dataclass(frozen=True)
class Should:
    """``low`` to ``high``: the second run's time by the first's, equal where a factor tells it; ``phases``: of which
    it holds; ``sources``: a line for each figure.
    """

    low: float
    high: float
    phases: tuple[str, ...]
    sources: tuple[str, ...]


def ratio(first: TrainingResult, second: TrainingResult) -> Should | str | None:
    """What is to be expected; why nothing is; None where the devices are the same, and so is the cluster.

    A device of one name is to be as fast on both clusters, unless a factor says otherwise of one of them.
    """
    one, other = first.device, second.device
    if one is None or other is None or one.name is None or other.name is None:
        return None
    if one.name == other.name and first.cluster == second.cluster:
        return None
    if reason := _incomparable(first, second):
        return f"no expected speed: {reason}"
    count, precision = device_count(first), str(computing(first)["precision"])
    try:
        found = _factors(first, second, count, precision)
    except InputError as error:  # of the factors that the submissions gave
        return f"no expected speed: {error}"
    if found is not None:
        return Should(1 / found.speed, 1 / found.speed, DEVICE, found.steps)
    if one.name == other.name:
        return _of_one_name(first, second)
    ways = f"from {other.name} to {one.name} for {count} device(s) in {precision}"
    no_factor = f"configs/{expected.FILE} has no factors {ways}"
    sheets = find_hardware(one.name), find_hardware(other.name)
    of_datasheets = _datasheets(*sheets, precision, exchanges=_exchanges(first) or _exchanges(second))
    if isinstance(of_datasheets, str):
        return f"no expected speed: {no_factor}; {of_datasheets}"
    return Should(
        of_datasheets.low,
        of_datasheets.high,
        of_datasheets.phases,
        (f"by datasheets, for {no_factor}", *of_datasheets.sources),
    )


def _of_one_name(first: TrainingResult, second: TrainingResult) -> Should | str:
    """The same time; of a processor only with as many cores, for a rank that has to share them waits."""
    assert first.device is not None and second.device is not None
    cores = first.device.cores, second.device.cores
    if first.device.kind == "cpu" and cores[0] != cores[1]:
        words = " and ".join("unknown" if count is None else f"{count:g}" for count in cores)
        return f"no expected speed: the runs had {words} cores of one processor"
    phases, said = _of_the_device(first, second)
    return Should(1.0, 1.0, phases, (f"{first.device.name} on both clusters: to be as fast on each", *said))


def _of_the_device(first: TrainingResult, second: TrainingResult) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The phases that nothing but the device decides, and what that leaves out."""
    if not (_exchanges(first) or _exchanges(second)):
        return DEVICE, ()
    said = "backward holds the exchange of gradients, of which no name of a device speaks"
    return tuple(phase for phase in DEVICE if phase != "backward"), (said,)


def computing(result: TrainingResult) -> dict[str, Any]:
    """How its steps are computed."""
    train = fields_of(result).get("train", {})
    return {name: train.get(name, usual) for name, usual in COMPUTING.items()}


def device_count(result: TrainingResult) -> int:
    """How many devices the run computed on; 1 in results of before there were several."""
    return int(fields_of(result).get("devices", {}).get("count", 1))


def given_factors(result: TrainingResult) -> list[expected.ExpectedSpeed]:
    """Those of its submission's block ``expected``. InputError for what another version wrote there."""
    given = value_at(fields_of(result), "expected.factors")
    try:
        return _SPEEDS.validate_python(given or [])
    except ValidationError as error:
        raise InputError(f"this version can't read the factors that {result.run_id} was given") from error


def _exchanges(result: TrainingResult) -> bool:
    """Gradients: what only infers has none, and no backward."""
    trains = result.benchmark in (None, "train")
    return trains and result.engine is not None and result.engine.processes > 1


def _incomparable(first: TrainingResult, second: TrainingResult) -> str | None:
    if host_names(first) or host_names(second):
        return "factors and datasheets are of the devices of one host, and a run was on two"
    one, other = computing(first), computing(second)
    if differing := [name for name in one if one[name] != other[name]]:
        name = differing[0]
        return f"the runs compute differently ({name}: {one[name]} and {other[name]})"
    counts = device_count(first), device_count(second)
    if counts[0] != counts[1]:
        return f"the runs are of {counts[0]} and {counts[1]} devices, and factors of as many of both"
    # Those of a device share it, and threads make a processor faster.
    on_cpus = first.device is not None and first.device.kind == "cpu"
    for name, what in (("processes", "processes on each device"), ("threads", "threads in each process")):
        each = tuple(int(fields_of(of).get("devices", {}).get(name, 1)) for of in (first, second))
        if each[0] != each[1] and (on_cpus or name == "processes"):
            return f"the runs have {each[0]} and {each[1]} {what}"
    return None


def _factors(
    first: TrainingResult, second: TrainingResult, count: int, precision: str
) -> expected.Expectation | None:
    """Those of the clusters' own devices before those of the product."""
    assert first.device and first.device.name and second.device and second.device.name
    given = (
        *given_factors(first),
        *(row for row in given_factors(second) if row not in given_factors(first)),
    )
    ways = (
        expected.expectation(other, one, count=count, precision=precision, given=given)
        for other in expected.names_of(second.device.name, second.cluster, given)
        for one in expected.names_of(first.device.name, first.cluster, given)
        if one != other
    )
    return next((way for way in ways if way), None)


def _datasheets(
    one: Hardware | None, other: Hardware | None, precision: str, exchanges: bool
) -> Should | str:
    """Bounds by the peaks and bandwidths of two GPUs; why there are none."""
    if one is None or other is None:
        return "configs/hardware.yaml does not have both"
    if "cpu" in (one.kind, other.kind):
        return "datasheets are of whole processors, and a job has some of their cores"
    if one == other:
        return "their names have one datasheet"
    peaks = _peak(one, precision), _peak(other, precision)
    if peaks[0] is None or peaks[1] is None:
        without = one if peaks[0] is None else other
        return f"configs/hardware.yaml has no peak in {precision} of {without.name} as torch computes it"
    sources = [
        f"{sheet.name}: {peak:g} TFLOP/s in {precision}, {_bandwidth(sheet)} ({sheet.source}, {sheet.date})"
        for sheet, peak in zip((one, other), peaks, strict=True)
    ]
    ratios = [peaks[0] / peaks[1]]
    if one.bandwidth_gb_s and other.bandwidth_gb_s:
        ratios.append(one.bandwidth_gb_s / other.bandwidth_gb_s)
    else:
        sources.append("of phases that computing limits: a bandwidth is missing")
    phases: tuple[str, ...] = DEVICE
    if exchanges:
        phases = tuple(phase for phase in DEVICE if phase != "backward")
        sources.append("backward holds the exchange of gradients, of which no datasheet of a device speaks")
    return Should(min(ratios), max(ratios), phases, tuple(sources))


def _bandwidth(sheet: Hardware) -> str:
    return f"{sheet.bandwidth_gb_s:g} GB/s" if sheet.bandwidth_gb_s else "no bandwidth"


def _peak(sheet: Hardware, precision: str) -> float | None:
    """TFLOP/s; None where the table has none as torch computes it."""
    return sheet.peak(precision) if precision in ("fp32", "tf32", "fp16", "bf16") else None
