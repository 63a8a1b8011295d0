"""Which jobs are parts of one evaluation, and so one configuration by its speed; the rest is tried on a real PerfDB."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.lines import line_of
from inferbench_tasks.analysis.recommend.parts import asked_but_for_part
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result

JOB: dict[str, Any] = {
    "name": "x", "block": 1, "serve": {"threads": 1}, "evaluate": {"dataset": "d", "part": "1/8"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"evaluate": {"dataset": "d", "part": "8/8"}}, True),
        ({"evaluate": {"dataset": "d", "part": "1/2"}}, True),
        ({"name": "y", "block": 2, "tags": ["z"]}, True),
        ({"serve": {"threads": 2}}, False),
        ({"evaluate": {"dataset": "other", "part": "1/8"}}, False),
    ],
)
def test_jobs_that_differ_in_their_part_alone_are_one(changes: dict[str, Any], same: bool) -> None:
    """Whichever part it is, of however many, whatever it is called, and in which block it was run; other threads or
    other samples are another job."""
    assert (asked_but_for_part(JOB | changes) == asked_but_for_part(JOB)) is same


def test_a_row_says_which_part_its_run_is() -> None:
    """That of a run that asked all of its samples, or none, says nothing."""
    parts = []
    for job in (JOB, {**JOB, "evaluate": None}, {}):
        document = result(provenance={"job": job}).model_dump()
        parts.append(line_of(document, FIGURES["p99_ms"], ()).row(1, None, "")["part"])
    assert parts == ["1/8", None, None]
