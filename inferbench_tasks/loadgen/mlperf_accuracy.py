"""MLPerf LoadGen's accuracy mode: each sample of its data set once, and its own log of what was answered to each.

As in MLPerf it is a test of its own beside the one that is timed. LoadGen is given a digest of each answer (MLPerf's
own systems give the answer itself, which its log would hold as hexadecimal digits, however large), and writes it down
beside the number of the sample.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.contracts.answers_digest import answers_digest
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.loadgen.mlperf import ACCURACY, DETAIL, SUMMARY, parse_detail, parse_errors
from inferbench_tasks.loadgen.plan import LoadPlan

MODE = "AccuracyOnly"
#: Nobody knows how long all samples take. Each ends by its timeout, so that only a LoadGen that hangs is held up here.
_LONGEST_NS = 24 * 3600 * 10**9


class AccuracyLog(BaseModel):
    """What LoadGen wrote of one test. ``answers``: the number of a sample and the hexadecimal digits that were given
    for it ("" for none), in LoadGen's order. ``errors``: what it calls errors. ``logs``: its files, as paths.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    scenario: str
    mode: str
    samples: int
    answers: tuple[tuple[int, str], ...]
    errors: tuple[str, ...]
    logs: tuple[str, ...]


def read_accuracy(folder: Path) -> AccuracyLog | None:
    """What LoadGen left in ``folder``; None if it did not come to its end."""
    logs = [folder / name for name in (SUMMARY, DETAIL, ACCURACY)]
    if not all(path.exists() for path in logs):
        return None
    detail = logs[1].read_text(errors="replace")
    values = parse_detail(detail)
    try:
        entries = json.loads(logs[2].read_text(errors="replace"))
        answers = tuple((int(entry["qsl_idx"]), str(entry["data"]).lower()) for entry in entries)
        return AccuracyLog(
            version=str(values["loadgen_version"][-1]),
            scenario=str(values["effective_scenario"][-1]),
            mode=str(values["effective_test_mode"][-1]),
            samples=int(values["effective_accuracy_sample_count"][-1]),
            answers=answers,
            errors=parse_errors(detail),
            logs=tuple(map(str, logs)),
        )
    except (ValueError, LookupError, TypeError):
        return None


def accuracy_plan(plan: LoadPlan, samples: int) -> LoadPlan:
    """A load by LoadGen as its accuracy mode: all of the inputs' ``samples``, however long it takes."""
    assert plan.mlperf is not None and plan.keep_answers
    assert plan.in_order or plan.batches[0].batch_size > 1  # the number of a sample is its row
    segments = tuple(segment.model_copy(update={"end_ns": _LONGEST_NS}) for segment in plan.segments)
    mlperf = plan.mlperf.model_copy(update={"accuracy": True, "requests": samples, "max_queries": None})
    return plan.model_copy(update={"segments": segments, "measure_end_ns": _LONGEST_NS, "mlperf": mlperf})


def sample_digests(outputs: Arrays) -> list[str]:
    """``answers_digest`` of each row by itself."""
    count = len(next(iter(outputs.values()))) if outputs else 0
    return [
        answers_digest({name: np.asarray(array)[at, ...] for name, array in outputs.items()})
        for at in range(count)
    ]
