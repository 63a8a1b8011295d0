"""Measures of answers are compared over the same samples, and over no others."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.report.alike import judged_on_others, unlike
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.comparison import compare
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

TOP1 = FIGURES["top1_ratio"]


def judged(
    run_id: str, right: float, half: float, samples: int = 450, digest: str | None = None, **more: Any
) -> ResultDocument:
    """A run with that top-1 and that half of its interval, on so many samples of digits, or of data with a digest."""
    evaluation: dict[str, Any] = {"dataset": "folder" if digest else "digits", "samples": samples}
    if digest:
        evaluation["data"] = {"digest": digest}
    quality = {"top1_ratio": {"value": right, "ci95": [right - half, right + half], "method": "Wilson"}}
    return result(
        run_id,
        submission={"name": run_id, "digest": run_id * 8},
        model={"name": run_id, "task": "image-classification", "dataset": "digits"},
        extensions={"evaluation": evaluation},
        summary={"quality": quality},
        **more,
    )


def test_ranks_are_within_the_samples_that_were_judged() -> None:
    """0.99 on ten samples is first of its own and beats nobody; what is within noise shares a rank."""
    runs = [
        judged("few", 0.99, 0.2, 10),
        judged("a", 0.95, 0.01),
        judged("b", 0.949, 0.01),
        judged("c", 0.7, 0.01),
    ]
    rows = ranked([run.model_dump() for run in runs], TOP1, ())
    assert [(row["run"], row["rank"], row["dataset"]) for row in rows] == [
        ("few", 1, "10 samples of digits"),
        ("a", 1, "450 samples of digits"),
        ("b", 1, "450 samples of digits"),
        ("c", 3, "450 samples of digits"),
    ]


def test_a_folder_of_the_same_name_with_other_content_is_other_data() -> None:
    """By the digest of its content: no ratio, no verdict, and the reason in words."""
    one, two = judged("one", 0.5, 0.1, digest="aa" * 32), judged("two", 0.9, 0.1, digest="bb" * 32)
    rows = {row["field"]: row for row in compare([one, two])}
    assert rows["top1_ratio"]["two ratio"] is None
    assert rows["evaluated on"] == {
        "field": "evaluated on",
        "one": "450 samples of folder (aaaaaaaa)",
        "two": "450 samples of folder (bbbbbbbb)",
    }
    assert unlike(TOP1, one, two)
    assert "evaluated on 450 samples of folder (bbbbbbbb), not" in (judged_on_others(one, two) or "")


def test_the_same_data_is_compared_whatever_the_load() -> None:
    """How right answers are does not follow from the rate; the ratio is 0.9 / 0.5."""
    other_load = {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 1}
    one, two = judged("one", 0.5, 0.1), judged("two", 0.9, 0.1, load=other_load)
    rows = {row["field"]: row for row in compare([one, two])}
    assert rows["top1_ratio"]["two ratio"] == 1.8
    assert "evaluated on" not in rows
    assert not unlike(TOP1, one, two)
    assert unlike(FIGURES["p50_ms"], one, two)
    assert judged_on_others(one, two) is None


def test_who_was_not_evaluated_says_so() -> None:
    """A result without the block is judged on nothing, and there is nothing to warn of."""
    assert judged_on.of_document(result().model_dump()) == judged_on.NOTHING
    assert judged_on_others(result(), judged("one", 0.5, 0.1)) is None


def drawn(
    run_id: str, seed: int, which: str | None = None, right: float = 0.5, digest: str | None = "cc" * 32
) -> ResultDocument:
    """A run that was asked 20 samples by that seed; ``which``: their digest, None in results of before."""
    load = {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": 1, "seed": seed}
    made = judged(
        run_id, right, 0.01, 20, digest, load=load, provenance={"job": {"evaluate": {"samples": 20}}}
    )
    if which:
        made.extensions["evaluation"]["samples_digest"] = which
    return made


@pytest.mark.parametrize("which", [("dd" * 32, "ee" * 32), (None, None)])
@pytest.mark.parametrize("digest", ["cc" * 32, None])
def test_as_many_samples_by_another_seed_are_other_samples(
    which: tuple[str | None, str | None], digest: str | None
) -> None:
    """No ratio, no verdict, no common rank, in results of before, too, and of a model's own data; the words say why."""
    one, two = drawn("one", 1, which[0], 0.5, digest), drawn("two", 2, which[1], 0.9, digest)
    rows = {row["field"]: row for row in compare([one, two])}
    assert rows["top1_ratio"]["two ratio"] is None
    assert rows["evaluated on"]["one"] != rows["evaluated on"]["two"]
    assert unlike(TOP1, one, two)
    assert "evaluated on other samples (load.seed 2, not 1): 20 samples of" in (
        judged_on_others(one, two) or ""
    )
    assert [row["rank"] for row in ranked([two.model_dump(), one.model_dump()], TOP1, ())] == [1, 1]


@pytest.mark.parametrize(("seeds", "which"), [((1, 2), "dd" * 32), ((1, 1), None)])
def test_the_same_drawn_samples_are_compared(seeds: tuple[int, int], which: str | None) -> None:
    """By their digest, whatever the seed; by the seed where there is no digest. The ratio is 0.9 / 0.5."""
    one, two = drawn("one", seeds[0], which), drawn("two", seeds[1], which, 0.9)
    rows = {row["field"]: row for row in compare([one, two])}
    assert rows["top1_ratio"]["two ratio"] == 1.8
    assert "evaluated on" not in rows and judged_on_others(one, two) is None
    assert [row["rank"] for row in ranked([two.model_dump(), one.model_dump()], TOP1, ())] == [1, 2]


def test_all_samples_of_named_data_are_the_same_in_results_of_before() -> None:
    """Their digest is that of the data itself, whatever the seeds."""
    old, new = (judged(name, 0.5, 0.1, digest="aa" * 32) for name in ("old", "new"))
    old.load.seed, new.load.seed = 1, 2
    new.extensions["evaluation"]["samples_digest"] = "aa" * 32
    assert judged_on.of_result(old) == judged_on.of_result(new) == "450 samples of folder (aaaaaaaa)"
