"""What a report says first: which run is the fastest, and what a step's time goes to.

What mends it the diagnosis says.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.observation import of_result
from inferbench_tasks.training.diagnosis.runs import wrong_column
from inferbench_tasks.training.report import expectation
from inferbench_tasks.training.report.views import TrainingView, own_wait_ms

#: So much of a step spent waiting for a core is said.
WAITED_RATIO = 0.05
#: More runs than this are told by the tables alone.
MOST_RUNS = 6


def sentences(
    views: Sequence[TrainingView], diagnoses: Sequence[tuple[TrainingView, Diagnosis]] = ()
) -> list[str]:
    """The fastest of the runs that do the same work, then each run's largest phases, then what of BenchmarkJade's
    columns stands in the wrong one, and which figures are impossible (``diagnoses``).
    """
    valid = [view for view in views if view.valid and view.samples_per_s is not None]
    if not valid:
        return ["No run is valid, so nothing is compared; what is wrong with each stands below."]
    alike = sorted(valid, key=_work)
    texts = [text for _, group in groupby(alike, _work) if (text := _fastest(list(group)))]
    texts += [text for view in valid[:MOST_RUNS] if (text := _where(view))]
    texts += [text for view in valid for text in expectation.sentences(view)]
    return texts + _of_jade(diagnoses)


def _of_jade(diagnoses: Sequence[tuple[TrainingView, Diagnosis]]) -> list[str]:
    """What holds of Jade's columns of valid runs: a sentence for each that is wrong, one for all that are right, one
    for those of which neither can be said.
    """
    texts: list[str] = []
    right: list[TrainingView] = []
    untold: list[TrainingView] = []
    for view, diagnosis in diagnoses:
        jade = view.summary.jade if view.summary else None
        wrong = [cause for cause in diagnosis.causes if cause.kind == "wrong"]
        texts += [f"{view.label}: {cause.sentence}" for cause in wrong[: MOST_RUNS - len(texts)]]
        if view.valid and jade and jade["columns"] and not wrong:
            run = of_result(view.result)
            (right if run is not None and wrong_column.hold(run) else untold).append(view)
    if untold:
        texts.append(
            f"Whether BenchmarkJade's columns of {_names(untold)} hold what they are called by could not be told: they "
            f"are not within {LEAST_SHARE:.0%} of a step of the synchronised phases, and no rule says why, or there is "
            "nothing to set beside them."
        )
    if right:
        texts.append(
            f"BenchmarkJade's columns of {_names(right)} hold what they are called by, within {LEAST_SHARE:.0%} of a "
            "step" + (": a CPU runs in step with its host." if all(_on_cpu(view) for view in right) else ".")
        )
    return texts


def _names(views: Sequence[TrainingView]) -> str:
    return views[0].label if len(views) == 1 else f"{len(views)} run(s)"


def _on_cpu(view: TrainingView) -> bool:
    return view.result.device is not None and view.result.device.kind == "cpu"


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
    # Student's interval of few rounds may go below 0, as it is stored; a rate never does.
    span = f"{number(max(0.0, low), 4)} to {number(high, 4)}"
    return f"{number(view.samples_per_s, 4)} samples/s ({span})"


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
    phases = timing["phases"].values()
    waited_ms = [own for phase in phases if (own := own_wait_ms(phase)) is not None]
    told = view.threads == 1 and len(waited_ms) == len(phases)
    if told and sum(waited_ms) >= WAITED_RATIO * step_ms:
        waited = sum(waited_ms) / step_ms
        text += f"; {waited:.0%} of it its processes were ready to run and waited for a core"
        text += _more_than_cores(view)
    return text + "."


def _more_than_cores(view: TrainingView) -> str:
    """That a run has more processes than cores; "" where it has not."""
    engine, device = view.result.engine, view.result.device
    if engine is None or device is None or not device.cores:
        return ""
    count = engine.processes * (1 + view.workers)
    return f": {count} processes share {device.cores:g} cores" if count > device.cores else ""
