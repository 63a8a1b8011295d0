"""Which cuts of a model count."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.names import Names
from inferbench_tasks.bricks.runtimes import DEFAULT


def test_a_cut_of_before_these_were_kept_is_followed_by_the_next_one() -> None:
    """Precision, runtime and view: without them it was of fp32, of ONNX Runtime, in its view; of others it is none."""
    of: dict[str, Any] = {"model": "m", "batch_size": 1, "granularity": "1", "instruction_set": "x"}
    kept = {"precision": "fp32", "runtime": DEFAULT, "view": "runtime"}
    new, other = {**of, **kept, "at": "new"}, {**of, **kept, "precision": "int8", "at": "other"}
    older = [{**of, "at": "old"}, {**of, "view": "runtime", "precision": None, "at": "older"}]
    assert [one["at"] for one in Names([]).current([new, other, *older])] == ["new", "other"]
    assert [one["at"] for one in Names([]).current(older)] == ["old"]
