"""What a model's page lists of its evaluations, by hand."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.provider.api.models import lines_of


def attempt(run: str, number: int, verdict: str, value: float) -> dict[str, Any]:
    """An evaluated attempt as PerfDB gives it back."""
    measures = {"top1_ratio": {"value": value}}
    return {
        "run_id": run,
        "attempt": number,
        "verdict": verdict,
        "created_at": f"2026-01-0{number}",
        "extensions": {
            "evaluation": {"dataset": "digits", "samples": 4, "under_load": {"measures": measures}}
        },
    }


def test_a_part_and_samples_of_a_training_are_said() -> None:
    """An eighth of the samples is no evaluation of all, and those that a model was trained on are no new ones."""
    part = attempt("a", 1, "valid", 0.75) | {"provenance": {"job": {"evaluate": {"part": "1/8"}}}}
    trained = attempt("b", 1, "valid", 0.75)
    trained["extensions"]["evaluation"]["data"] = {"training": True}
    lines = lines_of([part, trained])
    assert [(each["part"], each["training"]) for each in lines] == [("1/8", False), (None, True)]


def test_only_a_run_s_valid_last_attempt_is_listed() -> None:
    """The disturbed attempt before a valid one and the valid one before a lost one are not: the run opens the last."""
    found = [
        attempt("a", 2, "valid", 0.75),
        attempt("a", 1, "disturbed: steal", 0.25),
        attempt("b", 2, "failed: serve, lost", 0.0),
        attempt("b", 1, "valid", 0.5),
        attempt("c", 1, "valid", 1.0),
    ]
    lines = lines_of(found)
    assert [(each["run"], each["attempt"], each["measures"]["top1_ratio"]["value"]) for each in lines] == [
        ("a", 2, 0.75),
        ("c", 1, 1.0),
    ]
