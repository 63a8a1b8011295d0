"""What trainings say of the devices that ran them: the same job on each of a kind, a baseline, and what lies beyond.

Runs on several devices are judged as groups, beside other groups of as many: a device whose every group is slow, or a
group that is slow, although each of its devices is as its kind by itself, has a slow link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferbench_tasks.training.fleet.links import slow_members
from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, LEAST_OTHERS, Outlier, outliers
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import step_s as step_s_of

#: Of each device its newest runs of a job, so that one which was mended is judged by what it does now.
NEWEST = 5
_AND = " + "


@dataclass(frozen=True)
class Fleet:
    """One job on the devices of one kind, or on groups of them. ``step_s``: by device or group (``A + B``) the
    seconds of a step of its runs, the newest first. ``size``: devices of a group. ``slow_members``: devices whose
    every group is slow; ``slow`` has none of their groups. ``job``: its digest; ``newest``: the last run of it.
    """

    kind: str
    job: str
    step_s: Mapping[str, tuple[float, ...]]
    runs: Mapping[str, tuple[str, ...]]
    slow: tuple[Outlier, ...]
    size: int = 1
    slow_members: tuple[Outlier, ...] = ()
    newest: TrainingResult | None = None

    @property
    def judged(self) -> bool:
        """Whether there are enough devices for a baseline."""
        return len(self.step_s) > LEAST_OTHERS


def fleets(results: Iterable[TrainingResult], rate: float = FALSE_ALARMS) -> list[Fleet]:
    """Valid runs on leased devices, the newest first, by job, kind of device, version of torch, and whether
    the images were brought to their host; single devices (where two of them have some) stand before groups, and a group
    that has no other beside it is there, too, though not judged. A device's runs are those by the version of its
    newest: another one is no slower device.
    """
    series: dict[tuple[int, str, str, str], dict[str, list[tuple[float, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    newest: dict[tuple[str, str], str] = {}
    newest_of: dict[tuple[int, str, str, str], TrainingResult] = {}
    for result in results:
        members = devices_of(result)
        if not members or not result.verdict.valid or result.submission.digest is None:
            continue
        step_s = step_s_of(result)
        if step_s is None:
            continue
        group, job = _AND.join(members), result.submission.digest
        version = newest.setdefault((group, job), version_of(result))
        if version_of(result) != version:
            continue
        same = len(members), _kind(result), job, version
        newest_of.setdefault(same, result)
        of = series[same][group]
        if len(of) < NEWEST:
            of.append((step_s, result.run_id))
    return [
        replace(_fleet(same[0], same[1], same[2], of, rate), newest=newest_of[same])
        for same, of in sorted(series.items(), key=lambda item: item[0][0])
        if len(of) > 1 or same[0] > 1
    ]


def _fleet(
    size: int, kind: str, job: str, of: Mapping[str, Sequence[tuple[float, str]]], rate: float
) -> Fleet:
    """Of groups half of the rate is for their members, half for the groups themselves."""
    step_s = {device: tuple(step for step, _ in values) for device, values in of.items()}
    runs = {device: tuple(run for _, run in values) for device, values in of.items()}
    if size == 1:
        return Fleet(kind, job, step_s, runs, tuple(outliers(step_s, rate)))
    members = slow_members({tuple(group.split(_AND)): values for group, values in step_s.items()}, rate / 2)
    explained = {member.device for member in members}
    others = {group: values for group, values in step_s.items() if not explained & set(group.split(_AND))}
    return Fleet(kind, job, step_s, runs, tuple(outliers(others, rate / 2)), size, tuple(members))


def devices_of(result: TrainingResult) -> tuple[str, ...]:
    """The devices that it held, by id; () of a run that leased none."""
    return tuple(sorted(str(held["device_id"]) for held in result.extensions.get("devices") or []))


def version_of(result: TrainingResult) -> str:
    """Of torch, by which it ran, and of the trainer's package."""
    engine = result.engine
    return f"{engine.version} {engine.trainer_version}" if engine else ""


def brought(result: TrainingResult) -> bool:
    """Whether it read copies of images that lie on another host: it waits for other storage than a run in place."""
    return bool(result.data.get("brought"))


def device_of(result: TrainingResult) -> str | None:
    """The one device that ran it; None of a run that leased none, or several."""
    held = devices_of(result)
    return held[0] if len(held) == 1 else None


def alone(fleets: Iterable[Fleet]) -> dict[str, bool]:
    """The devices that were judged by themselves: whether they are named as slower than their kind."""
    judged = [fleet for fleet in fleets if fleet.size == 1 and fleet.judged]
    named = {outlier.device for fleet in judged for outlier in fleet.slow}
    return {device: device in named for fleet in judged for device in fleet.step_s}


def history(results: Iterable[TrainingResult], device: str) -> list[dict[str, Any]]:
    """The runs on one device, alone or in a group, the newest first: the step of each, by the first of its job there by
    the same version of torch, which another one makes faster or slower, and with its images in place or brought, as it.

    Only valid ones have a ratio: 1.2 is a step that takes a fifth longer than the first valid run did.
    """
    runs = [result for result in results if device in devices_of(result)]
    first: dict[Any, float] = {}
    rows = []
    for result in reversed(runs):
        step_s = step_s_of(result) if result.verdict.valid else None
        key = result.submission.digest, devices_of(result), version_of(result), brought(result)
        if step_s is not None:
            first.setdefault(key, step_s)
        rows.append(
            {
                "run": result.run_id,
                "created": result.created_at,
                "submission": result.submission.name,
                "with": " + ".join(one for one in devices_of(result) if one != device) or None,
                "step_ms": None if step_s is None else step_s * 1e3,
                "by_the_first": None if step_s is None else step_s / first[key],
                "verdict": str(result.verdict),
            }
        )
    return rows[::-1]


def lines(fleet: Fleet, alone: Mapping[str, bool] | None = None) -> list[dict[str, Any]]:
    """A line for each device or group, the slowest first: its step, by that of the others, and whether it is named.

    With the job that they ran: its submission's name, the begin of its digest, torch's version; ``run``: the newest.
    ``alone``: see the function; it tells a slow link from slow devices.
    """
    import numpy as np

    means = {device: float(np.exp(np.mean(np.log(values)))) for device, values in fleet.step_s.items()}
    bounds = {outlier.device: outlier.bound for outlier in (*fleet.slow_members, *fleet.slow)}
    named = {device: bound for device in means if (bound := _bound_of(device, bounds)) is not None}
    last = fleet.newest
    rows = []
    for device, mean_s in sorted(means.items(), key=lambda item: -item[1]):
        others = [value for other, value in means.items() if other != device and other not in named]
        ratio = mean_s / float(np.exp(np.mean(np.log(others)))) if others else None
        rows.append(
            {
                "device": device,
                "kind": fleet.kind,
                "submission": last.submission.name if last else None,
                "job": fleet.job[:12],
                "torch": last.engine.version if last and last.engine else None,
                "run": fleet.runs[device][0],
                "runs": len(fleet.step_s[device]),
                "step_ms": mean_s * 1e3,
                "by_the_others": ratio,
                "chance_up_to": named.get(device),
                "is": _word(fleet, device, device in named, alone or {}),
            }
        )
    return rows


def _bound_of(group: str, bounds: Mapping[str, float]) -> float | None:
    """Of a group that is named, by itself or with one of its members."""
    return next((bounds[name] for name in (group, *group.split(_AND)) if name in bounds), None)


def _word(fleet: Fleet, device: str, named: bool, alone: Mapping[str, bool]) -> str:
    if not named:
        return "as its kind" if fleet.judged else "not judged"
    if fleet.size == 1:
        return "slower than its kind"
    members = device.split(_AND)
    guilty = [one for one in members if alone.get(one)]
    if guilty:
        return f"slow for {', '.join(guilty)}"
    always = [one.device for one in fleet.slow_members if one.device in members]
    unknown = [one for one in (always or members) if one not in alone]
    if unknown:
        told = f"slow with {', '.join(always)} in each of its groups" if always else "slow together"
        return f"{told}; {', '.join(unknown)} not judged alone"
    return (
        f"slow with every other: the link of {', '.join(always)}"
        if always
        else "slow together: the link between them"
    )


def _kind(result: TrainingResult) -> str:
    """Its name, its cores, and its cluster: another one's devices are no baseline, whatever they are called.

    With what tells its fleet from that of the same devices with the images in place.
    """
    device = result.device
    more = f" of {result.cluster}" if result.cluster else ""
    more += ", images brought" if brought(result) else ""
    if device is None or not device.cores:
        return f"{device and device.name}{more}"
    return f"{device.name or device.kind}, {device.cores:g} core(s){more}"
