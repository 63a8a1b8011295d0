"""What a report says first: which run is the fastest, and what a step's time goes to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from inferbench_tasks.training.report.views import TrainingView

#: So much of a step spent waiting for a core is said.
WAITED_RATIO = 0.05
#: So much of a step spent on loading is told with what would mend it.
LOADING_RATIO = 0.1
#: More runs than this are told by the tables alone.
MOST_RUNS = 6


def sentences(views: Sequence[TrainingView]) -> list[str]:
    """The fastest of the runs that do the same work, then each run's largest phases."""
    valid = [view for view in views if view.valid and view.samples_per_s is not None]
    if not valid:
        return ["No run is valid, so nothing is compared; what is wrong with each stands below."]
    alike = sorted(valid, key=_work)
    texts = [text for _, group in groupby(alike, _work) if (text := _fastest(list(group)))]
    return texts + [text for view in valid[:MOST_RUNS] if (text := _where(view))]


def _work(view: TrainingView) -> tuple[str, ...]:
    """Runs of the same benchmark, network and data are compared by samples/s, others never.

    Data on the device is no data that a training could be made with, and cold files are another amount of work.
    """
    result = view.result
    model, data = result.model, result.data
    passes = (view.job.get("train") or {}).get("passes", 1)
    return (
        str(result.benchmark),
        model.name if model else "",
        str(model.image_size if model else ""),
        str(data.get("kind")),
        "device" if data.get("where") == "device" else str(data.get("read", "warm")),
        str(bool(data.get("augment"))),
        str(passes),
    )


def _fastest(views: Sequence[TrainingView]) -> str | None:
    if len(views) < 2:
        return None
    ranked = sorted(views, key=lambda view: view.samples_per_s or 0.0, reverse=True)
    best, others = ranked[0], ranked[1:]
    what = f"{best.label}: {_rate(best)}"
    low = _interval(best)[0]
    near = [view for view in others if _interval(view)[1] >= low]
    if not near:
        ratio = (best.samples_per_s or 0.0) / (others[0].samples_per_s or 1.0)
        return f"Fastest is {what}, {ratio:.2f} times the next ({others[0].label})."
    names = " and ".join(view.label for view in near)
    return f"The most samples/s has {what}; its interval does not set it apart from {names}."


def _rate(view: TrainingView) -> str:
    low, high = _interval(view)
    return f"{view.samples_per_s:,.0f} samples/s ({low:,.0f} to {high:,.0f})"


def _interval(view: TrainingView) -> tuple[float, float]:
    assert view.summary is not None
    low, high = view.summary.bare["samples_per_s_ci95"] or (0.0, float("inf"))
    return low, high


def _where(view: TrainingView) -> str | None:
    timing = view.timing
    if timing is None:
        return None
    step_ms = timing["step_ms"]["mean"]
    walls_ms = {name: phase["wall_ms"]["mean"] for name, phase in timing["phases"].items()}
    largest = sorted(walls_ms, key=lambda name: walls_ms[name], reverse=True)[:2]
    parts = " and ".join(f"{walls_ms[name] / step_ms:.0%} {name.replace('_', ' ')}" for name in largest)
    text = f"{view.label}: of a step of {step_ms:.3g} ms {parts}"
    waited_ms = [phase["wait_ms"] for phase in timing["phases"].values()]
    if view.threads == 1 and None not in waited_ms and sum(waited_ms) >= WAITED_RATIO * step_ms:
        waited = sum(waited_ms) / step_ms
        text += f"; {waited:.0%} of it its processes were ready to run and waited for a core"
        text += _more_than_cores(view)
    return text + "." + _loader(view, step_ms, walls_ms["loading"])


def _loader(view: TrainingView, step_ms: float, loading_ms: float) -> str:
    """How many loader processes it takes at least to make batches as fast as the rest of a step; "" where none waits.

    Both without what they waited for a core, where that is known: with a core for each process there is no such wait.
    """
    parts = view.summary.loader.get("parts") if view.summary else None
    if not parts or loading_ms < LOADING_RATIO * step_ms:
        return ""
    workers = int(view.result.loader.get("workers") or 0)
    wait_ms = _making_wait_ms(view, workers)
    making_ms = max(parts["making_ms"] - wait_ms, 0.0)
    rest_ms = max(step_ms - loading_ms - _rest_wait_ms(view), 1e-9)
    least = max(1, math.ceil(making_ms / rest_ms))
    alone = ", waits for a core apart," if wait_ms or _rest_wait_ms(view) else ""
    text = f" A batch{alone} takes {making_ms:.3g} ms to be made, the rest of a step {rest_ms:.3g} ms"
    if workers < least:
        return f"{text}: at least {least} loader process(es) for each rank are needed, each with a core."
    if wait_ms >= WAITED_RATIO * parts["making_ms"]:
        return (
            f"{text}: its {workers} loader process(es) are enough by that, but waited {wait_ms:.3g} ms of each batch "
            "for a core."
        )
    return (
        f"{text}: its {workers} loader process(es) are enough by that; what is waited for is that batches are handed "
        "over, or that some take longer than others."
    )


def _making_wait_ms(view: TrainingView, workers: int) -> float:
    """What making a batch has in it of waits for a core: the rank's own while it loads, or the loader processes'; 0
    where that is not known."""
    timing, summary = view.timing, view.summary
    assert timing is not None and summary is not None
    if not workers:
        return _waits_ms(view, ["loading"])
    wait_s, batches = summary.loader.get("wait_s"), timing["steps"] * len(timing["ranks"])
    return wait_s * 1e3 / batches if wait_s else 0.0


def _rest_wait_ms(view: TrainingView) -> float:
    assert view.timing is not None
    return _waits_ms(view, [name for name in view.timing["phases"] if name != "loading"])


def _waits_ms(view: TrainingView, names: Sequence[str]) -> float:
    """Of a rank's phases; several threads wait at once, and their sum is no part of the wall clock."""
    assert view.timing is not None
    waits_ms = [view.timing["phases"][name]["wait_ms"] for name in names]
    return sum(waits_ms) if view.threads == 1 and None not in waits_ms else 0.0


def _more_than_cores(view: TrainingView) -> str:
    """That a run has more processes than cores; "" where it has not."""
    engine, device = view.result.engine, view.result.device
    if engine is None or device is None or not device.cores:
        return ""
    workers = int(view.result.loader.get("workers") or 0)
    count = engine.processes * (1 + workers)
    return f": {count} processes share {device.cores:g} cores" if count > device.cores else ""
