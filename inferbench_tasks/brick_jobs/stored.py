"""A model's latency on a device, from what PerfDB has of its bricks there; nothing is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inferbench_tasks.brick_jobs.advice import left_out
from inferbench_tasks.brick_jobs.answer import answer
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.documents import cut_of, shapes_text
from inferbench_tasks.brick_jobs.interpolation import line_between, measured_sizes, why_none
from inferbench_tasks.brick_jobs.newest import ANY, newest_cuts
from inferbench_tasks.brick_jobs.one_device import one_device
from inferbench_tasks.brick_jobs.queries import setting_of, settings_of
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.method import runtime_name
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.bricks.runtimes import DEFAULT, runtime_of
from inferbench_tasks.bricks.views import view_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB


def predicted(
    db: PerfDB,
    model: str,
    device: str = "",
    batch_size: int = 1,
    granularity: str = "1",
    calibrate_on: int = 3,
    constructor: str = "sequential",
    precision: str = "fp32",
    runtime: str = DEFAULT,
    threads: int = 1,
) -> dict[str, Any]:
    """A model's latency by a runtime from what is stored alone; nothing is run.

    At the newest of the settings of that device, with that many threads, at which most of its bricks are known; those
    that are ``missing`` are interpolated between two batch sizes, or estimated, and where they can't be
    ``predicted_ms`` is null. InputError for a model that was never cut, a device that nothing was measured on or that
    may be several, or a batch size beyond those measured there.
    """
    cuts = newest_cuts(db, model, batch_size, granularity, precision, runtime)
    settings = with_threads(by_runtime(settings_of(db, device), runtime), threads, device, runtime)
    one_device(settings, device)
    found, without = _stored_at(db, settings, cuts, batch_size)
    if not found:
        raise _nothing(model, batch_size, without)
    results, stored, cut = max(found, key=share_of)
    return said(answer(results, cut, stored, calibrate_on, constructor))


def by_device(
    db: PerfDB,
    model: str,
    batch_size: int,
    granularity: str,
    calibrate_on: int,
    precision: str = "fp32",
    runtime: str = DEFAULT,
    device: str = "",
) -> list[dict[str, Any]]:
    """As ``predicted``, for each processor, number of cores and of threads: at that of its settings (a runtime's
    version, a method's) at which most is known, the newest of these. ``device``: of these alone. InputError for a model
    that was never cut."""
    return everywhere(db, model, batch_size, granularity, calibrate_on, precision, runtime, device)[0]


def everywhere(
    db: PerfDB,
    model: str,
    batch_size: int,
    granularity: str,
    calibrate_on: int,
    precision: str = "fp32",
    runtime: str = DEFAULT,
    device: str = "",
    each_version: bool = False,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """As ``by_device``, and why nothing is said of it on the other processors: ``model``, ``device``, ``runtime``,
    ``coverage_ratio`` (null) and ``why``. ``each_version``: of the runtime, a row."""
    newest = newest_cuts(db, model, batch_size, granularity, precision, runtime)
    best: dict[tuple[Any, ...], Stored] = {}
    found, without = _stored_at(db, by_runtime(settings_of(db, device), runtime), newest, batch_size)
    if not found:
        raise _nothing(model, batch_size, without) if without else nothing_measured(device, runtime)
    for one in found:
        of = one[0].setting
        place = (of.processor, of.cores, of.threads, of.runtime if each_version else None)
        if place not in best or share_of(one) > share_of(best[place]):
            best[place] = one
    known = {place[0] for place in best}
    whys = {one.setting["device"]: one for one in reversed(without) if one.setting["device"] not in known}
    return [answer(results, cut, stored, calibrate_on) for results, stored, cut in best.values()], [
        left_out(model, device, one.setting["runtime"], one.why) for device, one in whys.items()
    ]


def said(row: dict[str, Any]) -> dict[str, Any]:
    """The same; InputError with why nothing is said of its batch size, where that is so."""
    if why := row.get("why"):
        raise InputError(f"{row['model']} on {row['device']}: {why}", field="batch_size")
    return row


#: The times of a setting, what is stored there of a cut's bricks, and the cut.
Stored = tuple[PerfDBResults, dict[str, Result], CutModel]


class Without(NamedTuple):
    """A setting at which nothing is stored that a prediction could be of, and why."""

    setting: Mapping[str, Any]
    why: str


def _stored_at(
    db: PerfDB, settings: Sequence[Mapping[str, Any]], cuts: Mapping[str, Mapping[str, Any]], batch_size: int
) -> tuple[list[Stored], list[Without]]:
    """What is stored of a model's bricks at each of these settings, the newest first: of its instruction set, or of the
    view that is of none where more of those have times (a suite's, of a model that this device never saw). And the
    settings where it was not cut at this batch size, nor at one on either side of it, or not at all."""
    found, without = [], []
    for setting in settings:
        stored, whys = at_setting(db, setting, cuts, batch_size)
        if stored is not None:
            found.append(stored)
        else:
            without.append(Without(setting, "; ".join(whys) or _not_cut(setting, cuts)))
    return found, without


def _not_cut(setting: Mapping[str, Any], cuts: Mapping[str, Mapping[str, Any]]) -> str:
    sizes = next((text for cut in cuts.values() if (text := shapes_text(cut.get("shapes") or ()))), None)
    at = f" at {sizes}, as it was cut last" if sizes else ""
    return (
        f"it was not cut for the instruction set {setting['instruction_set']}{at}: `inferbench bricks predict` on that "
        "machine does that, and times its bricks; or, on any, with `--view portable`, if its bricks of that view have "
        "times there"
    )


def at_setting(
    db: PerfDB, setting: Mapping[str, Any], cuts: Mapping[str, Mapping[str, Any]], batch_size: int
) -> tuple[Stored | None, list[str]]:
    """As ``_stored_at``, at one of ``settings_of``."""
    own = [cut for cut in (cuts.get(setting["instruction_set"]), cuts.get(ANY)) if cut is not None]
    results = PerfDBResults(db, setting_of(db, setting["setting_id"])) if own else None
    stored, whys = [], []
    for document in own:
        assert results is not None
        if document.get("batch_size") == batch_size:
            times = results.get_many(document["parts"])
            stored.append((results, times, cut_of(0, document, times)))
            continue
        cut = cut_of(0, document, {})
        sizes = measured_sizes(results, cut)
        if (line := line_between(sizes, batch_size)) is None:
            whys.append(f"it was not cut at batch {batch_size}; {why_none(sizes, batch_size)}")
            continue
        between = line.at(batch_size)
        known = {part: line.times[part] for part in between.parts if part in line.times}
        stored.append((results, known, between))
    return max(stored, key=share_of, default=None), whys


def by_runtime(settings: Sequence[dict[str, Any]], runtime: str) -> list[dict[str, Any]]:
    """Those of these settings that are of a runtime, whatever its version."""
    return [row for row in settings if runtime_name(row["runtime"]) == runtime]


def with_threads(
    settings: Sequence[dict[str, Any]], threads: int, device: str, runtime: str
) -> list[dict[str, Any]]:
    """Those of these settings, which are of ``device`` and ``runtime``, that are of so many threads. InputError where
    there is none, with those that there are."""
    if found := [row for row in settings if row["threads"] == threads]:
        return found
    if not settings:
        raise nothing_measured(device, runtime)
    known = ", ".join(map(str, sorted({row["threads"] for row in settings})))
    raise InputError(
        f"nothing was measured by {runtime} on {device or 'any device'} with {threads} thread(s); there: {known}",
        field="threads",
    )


def nothing_measured(device: str, runtime: str) -> InputError:
    """Of a device, or of any, on which other runtimes may have been timed."""
    return InputError(f"nothing was measured by {runtime} on {device or 'any device'}", field="device")


def _nothing(model: str, batch_size: int, without: Sequence[Without]) -> InputError:
    """Of a model that was cut, that nothing follows for it here; why, once each."""
    whys: dict[str, list[str]] = {}
    for one in without:
        devices = whys.setdefault(one.why, [])
        if one.setting["device"] not in devices:
            devices.append(str(one.setting["device"]))
    texts = "; ".join(f"on {', '.join(devices)}: {why}" for why, devices in whys.items())
    return InputError(f"nothing is said of {model!r} at batch {batch_size} {texts}", field="batch_size")


def share_of(one: Stored) -> float:
    """Of the model's unique bricks, those that have a time there."""
    _, stored, cut = one
    return len(stored) / max(1, len(set(cut.parts)))


def answered(
    db: PerfDB, cut: CutModel, device: str, threads: int, calibrate_on: int, constructor: str
) -> dict[str, Any]:
    """As ``predicted``, of a model that was cut on this machine: for devices of its instruction set, or of any where
    the view is of none."""
    return answered_all(db, [cut], device, threads, calibrate_on, constructor)[1][cut.batch_size]


def answered_all(
    db: PerfDB, cuts: Sequence[CutModel], device: str, threads: int, calibrate_on: int, constructor: str
) -> tuple[PerfDBResults, dict[int, dict[str, Any]]]:
    """As ``answered``, of one model at several batch sizes; and the times of the setting that they are of.

    That is one for all sizes: times of two runtimes' versions, or of devices with other cores, do not make one
    prediction. The one at which most is known, of those at which there is a prediction of each size if there are such.
    """
    runtime = cuts[0].runtime
    own = runtime_of(runtime).instruction_set() if view_of(cuts[0].view).processor else None
    settings = [row for row in by_runtime(settings_of(db, device), runtime) if row["threads"] == threads]
    one_device(settings, device)
    fitting = [row for row in settings if own in (None, row["instruction_set"])]
    if not fitting:
        other = ", ".join(sorted({row["instruction_set"] for row in settings}))
        raise InputError(
            f"nothing was measured by {runtime} on a device {device!r} with {threads} threads"
            + (
                f" and the instruction set {own} (there: {other}); a model's bricks are of one"
                if other
                else ""
            ),
            field="device",
        )
    everywhere = [(results, _times_at(results, cuts)) for results in _settings(db, fitting)]
    everywhere.sort(
        key=lambda one: _share_of_all(cuts, one[1]), reverse=True
    )  # stable: the newest of the fullest
    without: tuple[PerfDBResults, dict[int, dict[str, Any]]] | None = None
    refused: InputError | None = None
    for results, times in everywhere:
        try:
            rows = {
                cut.batch_size: said(answer(results, cut, known, calibrate_on, constructor))
                for cut, known in zip(cuts, times, strict=True)
            }
        except InputError as error:
            refused = refused or error
            continue
        if all(row["predicted_ms"] is not None for row in rows.values()):
            return results, rows
        without = without or (results, rows)
    if without is None:
        assert refused is not None
        raise refused
    return without


def _settings(db: PerfDB, rows: Sequence[Mapping[str, Any]]) -> list[PerfDBResults]:
    return [PerfDBResults(db, setting_of(db, row["setting_id"])) for row in rows]


def _times_at(results: PerfDBResults, cuts: Sequence[CutModel]) -> list[dict[str, Result]]:
    return [results.get_many([*cut.parts, cut.whole]) for cut in cuts]


def _share_of_all(cuts: Sequence[CutModel], times: Sequence[Mapping[str, Result]]) -> float:
    """Of the unique bricks at each size, those that have a time, added up."""
    return sum(
        len(set(cut.parts) & known.keys()) / max(1, len(set(cut.parts)))
        for cut, known in zip(cuts, times, strict=True)
    )
