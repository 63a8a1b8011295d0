"""The documents: strict where they are ours, open where other parts add."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from inferbench_tasks.perfdb.documents import RunDocument, StageRecord
from tests.unit.perfdb.builders import result


@pytest.mark.parametrize("verdict", ["ok", "invalid", "failed: ", "Valid", "valid ", "invalid:x"])
def test_only_known_verdicts(verdict: str) -> None:
    """A verdict has one of four forms; the message lists them."""
    with pytest.raises(ValidationError, match="'invalid: <reasons>'"):
        result(verdict=verdict)


@pytest.mark.parametrize(
    "verdict", ["valid", "invalid: late; few\nsamples", "failed: load, x", "cancelled: load"]
)
def test_known_verdicts(verdict: str) -> None:
    """Reasons are free text; only ``valid`` counts."""
    assert result(verdict=verdict).valid == (verdict == "valid")


def test_an_unknown_field_is_refused_and_an_extension_kept() -> None:
    """A typo at the top is an error; parts that others shape keep what they are given."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        result(sumary={})
    assert result(certificate={"ks": {"p": 0.3}}).certificate == {"ks": {"p": 0.3}}
    assert result(summary={"timeseries": {"t_s": [0, 1]}}).summary.model_dump()["timeseries"] == {
        "t_s": [0, 1]
    }


@pytest.mark.parametrize("figure", [float("nan"), float("inf")])
def test_a_figure_is_finite_or_none(figure: float) -> None:
    """NaN never enters as a figure."""
    with pytest.raises(ValidationError, match="finite"):
        result(summary={"throughput_rps": figure})


def test_the_latest_execution_of_a_stage() -> None:
    """A stage that was tried again is known by its last attempt."""
    now = datetime.now(UTC)
    records = [
        StageRecord(stage="load", attempt=a, state=s, started_at=now) for a, s in ((1, "failed"), (2, "done"))
    ]
    run = RunDocument(
        run_id="r", invocation_id="i", job_id="j", submission={"name": "s"},
        started_at=now, updated_at=now, stages=records,
    )  # fmt: skip
    load = run.stage("load")
    assert load is not None
    assert load.state == "done"
    assert run.stage("serve") is None
