"""What a model's page says of its evaluations, of lines by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from inferbench_tasks.provider.ui.render import fragment


def line(run: str, part: str | None) -> dict[str, Any]:
    """Of an evaluation, as ``api.models.lines_of`` has it with its measures in words."""
    return {
        "run": run, "created": datetime(2026, 1, 1, tzinfo=UTC), "judged_on": "56 samples of digits", "part": part,
        "training": False, "backend": "onnxruntime", "precision": "fp32", "words": "top1_ratio 97.50%",
    }  # fmt: skip


def test_a_part_s_line_leads_to_the_evaluations_of_the_model() -> None:
    """Where all parts are one row; the line of a run that asked all has no such link."""
    known: dict[str, Any] = {
        "results": 2, "valid_results": 2, "trainings": [], "bricks": {"cuts": [], "predictions": []}, "manifests": [],
        "runs": [], "submissions": [],
    }  # fmt: skip
    text = fragment(
        "model.html", pages={}, here="models", name="my model", problem=None, wrong=[], known=known, facts={}, by=None,
        groups=[], settings=[], measures=[line("whole", None), line("eighth", "1/8")], shipped=[], shown=(), most=20,
    )  # fmt: skip
    link = '<a href="/inferbench/evaluations?model=my+model">evaluations</a>'
    whole, eighth = (row for row in text.split("<tr>") if "56 samples of digits" in row)
    assert f"part 1/8 alone; wholes are among the {link}" in eighth
    assert "part " not in whole and "evaluations" not in whole
