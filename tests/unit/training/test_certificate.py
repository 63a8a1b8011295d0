"""What makes a training's figures not count."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.training import certificate, figures
from inferbench_tasks.training.launch import first_failure
from inferbench_tasks.training.order import Answer
from tests.unit.training.epochs import answer

QUIET: dict[str, Any] = {"findings": [], "not_watched": [], "watched": True, "mode": None}


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
    assert first == (
        "the phases add up to 83.3% of the step; 2.000 ms of each step are none of theirs, 1.000 of it the time in "
        "which their clocks are read"
    )
    assert second.startswith("with instruments the run makes 83.3% of the samples/s")


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


def test_the_rank_that_failed_first_is_named() -> None:
    """By torchrun's own summary."""
    text = "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 77)\n"
    assert (
        first_failure(text) == "failed: rank 1 (pid 77) was killed by signal 9, and torchrun ended the others"
    )
    assert first_failure("Traceback") is None


def test_what_the_failed_rank_raised_is_told() -> None:
    """Its last word, and not another rank's, in the one line that lists show."""
    text = (
        "[rank0]: RuntimeError: Connection closed by peer\n[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "x.py", line 1\n[rank1]: OSError: [Errno 28] No space left on device\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n"
    )
    assert first_failure(text) == (
        "failed: rank 1 (pid 77) ended with exit code 1 (OSError: [Errno 28] No space left on device), and "
        "torchrun ended the others"
    )


def reading(read: str, *ratios: float | None) -> str:
    """The verdict of a run of three rounds; ``ratios``: of its first epochs, of the others the last one's."""
    run = answer(0)
    for place, epoch in enumerate(run.epochs):
        epoch.resident_ratio = ratios[min(place, len(ratios) - 1)]
    return str(certificate.verdict_of(certificate.certify([run], summary([run]), QUIET, read)))


def test_cold_reads_of_files_in_memory_don_t_count() -> None:
    """2% of them may have stayed; 40% in one epoch are invalid; nor do they count where nobody could look."""
    assert reading("cold", 0.02) == "valid"
    assert reading("cold", 0.0, 0.4, 0.0).startswith(
        "invalid: 40% of the files were still in memory at the start of an epoch with cold reads (at most 2%)"
    )
    assert "nobody knows whether cold reads were cold" in reading("cold", 0.0, None)


def test_warm_reads_of_files_that_left_the_memory_don_t_count() -> None:
    """What is called preparing would have the disk in it; files whose place nobody tells are taken for warm."""
    assert reading("warm", 0.98) == reading("warm", None) == "valid"
    assert reading("warm", 1.0, 0.6, 1.0).startswith(
        "invalid: 60% of the files were in memory at the start of an epoch with warm reads (at least 98%)"
    )


def distinct(samples: int | None, *counts: int | None) -> str:
    """The verdict of two ranks whose epochs took so many samples more than once."""
    runs = [answer(0), answer(1)]
    for run in runs:
        for epoch, count in zip(run.epochs, counts, strict=False):
            epoch.repeated = count
    proof = certificate.certify(runs, summary(runs), QUIET, samples=samples)
    return str(certificate.verdict_of(proof))


def test_samples_that_were_taken_twice_don_t_count() -> None:
    """Two ranks of 11 samples may repeat one, of 12 none; what nobody counted is not judged."""
    assert distinct(11, 1, 1) == distinct(12, 0, 0) == distinct(12, None, None) == "valid"
    assert distinct(12, 0, 1).startswith(
        "invalid: 1 sample(s) were taken more than once in the bare epoch of round 0 (at most 0, which fill up 2 rank"
    )
    assert "6 sample(s) were taken more than once in the synchronised epoch" in distinct(11, 6)


def test_the_certificate_tells_the_most_that_were_repeated() -> None:
    """Of all epochs; None where nobody counted."""
    run = answer(0)
    assert certificate.certify([run], summary([run]), QUIET)["repeated"] is None
    run.epochs[2].repeated = 3
    assert certificate.certify([run], summary([run]), QUIET)["repeated"] == 3
