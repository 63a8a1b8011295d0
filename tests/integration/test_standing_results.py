"""A job that was lost may be given its result without figures before its scheduler has it run again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from inferbench_tasks.analysis.report.finalise import without_figures
from inferbench_tasks.contracts.verdict import VALID, Verdict
from inferbench_tasks.perfdb.documents import ResultDocument, RunDocument, SubmissionInfo
from inferbench_tasks.perfdb.finalise import standing
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment
from inferbench_tasks.stages import unloaded
from inferbench_tasks.training import result as trainings
from inferbench_tasks.training.result import TrainingResult, TrainingSummary

pytestmark = pytest.mark.integration
AT = datetime(2026, 12, 1, tzinfo=UTC)
LOST = Verdict.failed("train", "it ended without a word")
FILE = Attachment(id="0" * 24, name="samples.parquet", sha256="0" * 64, bytes=1)
KINDS = [
    (ResultDocument, unloaded.has_figures, without_figures, {"samples": FILE}),
    (
        TrainingResult,
        trainings.has_figures,
        trainings.without_figures,
        {"summary": TrainingSummary(synchronised={}, bare={}, loss={})},
    ),
]


def run() -> RunDocument:
    return RunDocument(
        run_id="inv.000", job_id="j", invocation_id="inv", submission=SubmissionInfo(name="n", user="u"),
        status="failed", started_at=AT, updated_at=AT, verdict=LOST,
    )  # fmt: skip


@pytest.mark.parametrize(("schema", "has_figures", "lost", "figures"), KINDS, ids=["serving", "training"])
def test_what_is_measured_after_all_is_the_next_attempt(
    perfdb: PerfDB, schema: Any, has_figures: Any, lost: Any, figures: dict[str, Any]
) -> None:
    """A stage that had not begun in the job's first life counts from one again: its result goes beside that of the life
    that was lost, and one that is repeated changes nothing."""
    assert standing(perfdb, schema, "inv.000", 1, has_figures) == (1, None)
    perfdb.save_result(lost(run(), LOST))
    attempt, stands = standing(perfdb, schema, "inv.000", 1, has_figures)
    assert (attempt, stands) == (2, None)
    measured = lost(run(), VALID).model_copy(update={"attempt": attempt, **figures})
    assert perfdb.save_result(measured)
    for repeated in (1, 2):
        _, stands = standing(perfdb, schema, "inv.000", repeated, has_figures)
        assert stands is not None and stands.attempt == 2 and stands.verdict.valid
    assert standing(perfdb, schema, "inv.000", 3, has_figures) == (3, None)
