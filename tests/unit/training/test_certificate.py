"""What makes a training's figures not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.training import certificate, figures
from inferbench_tasks.training.disturbance import ledger, window_of
from inferbench_tasks.training.launch import first_failure
from inferbench_tasks.training.order import Answer
from tests.unit.training.epochs import answer

QUIET: dict[str, Any] = {"findings": [], "not_watched": [], "watched": True, "mode": None}
SECOND = 1_000_000_000


def summary(answers: list[Answer]) -> dict[str, Any]:
    return {
        "synchronised": figures.of_timing(answers, "inference", "ddp"),
        "bare": figures.bare(answers),
        "loss": figures.loss(answers),
    }


def verdict(answers: list[Answer], of: dict[str, Any] = QUIET) -> str:
    return str(certificate.verdict_of(certificate.certify(answers, summary(answers), of)))


def test_a_training_in_order_is_valid_and_says_what_is_not_explained() -> None:
    """Phases of 10 ms in steps of 12 ms are a warning, no failure; so is the cost of the instruments."""
    proof = certificate.certify([answer(0), answer(1)], summary([answer(0), answer(1)]), QUIET)
    assert proof["valid"] and proof["reasons"] == []
    first, second = proof["warnings"]
    assert first.startswith("the phases add up to 83.3% of the step; 2.000 ms of each step are not explained")
    assert second.startswith("with instruments the training makes 83.3% of the samples/s")


def test_too_few_steps_don_t_count() -> None:
    """Invalid, with how many there are."""
    assert verdict([answer(steps=9)]).startswith("invalid: 27 measured steps are too few (at least 30)")


def test_ranks_with_different_weights_did_not_train_together() -> None:
    """By more than the order of additions makes."""
    assert verdict([answer(0), answer(1, weights=1.0 + 1e-9)]) == "valid"
    assert "the weights of rank 1 differ from those of rank 0 by 1.0e-03" in verdict(
        [answer(0), answer(1, weights=1.001)]
    )


def test_ranks_with_different_numbers_of_steps_don_t_count() -> None:
    """The exchange would have hung, or there was none."""
    assert "different numbers of steps" in verdict([answer(0, steps=20), answer(1, steps=21)])


def test_a_loss_that_is_no_number_says_where() -> None:
    """Rank, round, timing and step of the first."""
    bad = answer(1)
    bad.epochs[3].losses = [0.5, None, None]
    said = verdict([answer(0), bad])
    assert "the loss is no finite number from step 1 of the bare epoch of round 1 on (rank 1)" in said


def recording(**totals: float) -> Recording:
    """Counters that grow to these values within ten seconds."""
    t_ns = np.array([0, 5 * SECOND, 10 * SECOND])
    series = {
        (name.partition("__")[0], name.partition("__")[2]): Series(t_ns, np.array([0.0, total / 2, total]))
        for name, total in totals.items()
    }
    return Recording(series, {})


def test_others_on_the_cores_make_a_run_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """15 of 20 core-seconds are busy, 4 of them the training's, which waited 6 s: 60% of its time."""
    monkeypatch.delenv(MODE, raising=False)
    seen = recording(
        host__cpu_busy_s_total=15, host__cpu_steal_s_total=0, server__cpu_s_total=4, client__cpu_s_total=1,
        server__waited_s_total=6,
    )  # fmt: skip
    of = ledger(seen, (0, 10 * SECOND), 2)
    assert [(f["kind"], round(f["value"], 3), f["quarantine"]) for f in of["findings"]] == [
        ("waited_for_cpu", 0.6, True), ("foreign_cpu", 0.5, False),
    ]  # fmt: skip
    assert verdict([answer(0)], of).startswith("disturbed: the training's processes waited for a core in 60%")


def test_ranks_that_wait_for_each_other_are_no_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    """More ranks than cores wait as much while nobody else uses the CPU."""
    monkeypatch.delenv(MODE, raising=False)
    seen = recording(
        host__cpu_busy_s_total=20, host__cpu_steal_s_total=0, server__cpu_s_total=19, client__cpu_s_total=0.5,
        server__waited_s_total=60,
    )  # fmt: skip
    assert ledger(seen, (0, 10 * SECOND), 2)["findings"] == []


def test_what_nobody_watched_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the machine's CPU nothing is known of others."""
    monkeypatch.delenv(MODE, raising=False)
    of = ledger(recording(), (0, 10 * SECOND), 2)
    assert of["not_watched"] == ["steal", "foreign CPU"]
    assert verdict([answer(0)], of).startswith("invalid: nobody watched the machine")
    assert window_of([(None, None), (5, 9), (3, 7)]) == (3, 9) and window_of([(None, None)]) is None


def test_the_rank_that_failed_first_is_named() -> None:
    """By torchrun's own summary."""
    text = "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 77)\n"
    assert (
        first_failure(text) == "failed: rank 1 (pid 77) was killed by signal 9, and torchrun ended the others"
    )
    assert first_failure("Traceback") is None
