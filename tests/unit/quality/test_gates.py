"""How the benchmarks of answers judge, on made-up rows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchmarks.mlmodelscope import accuracies, scenarios
from benchmarks.mlmodelscope.faults import FAULTS

IMAGES = 10_000


def run(what: str, others: int = 0, **more: Any) -> dict[str, Any]:
    """One runtime's answers in one scenario, so many of which are not the class 0."""
    answers = [1] * others + [0] * (IMAGES - others)
    return {"what": what, "answers": answers, "unanswered": 0, "against": "", "verdict": "valid", **more}


def test_any_two_runs_differ_in_at_most_three_images() -> None:
    """Three pass, four have failed, whichever two these are; the two are named."""
    assert scenarios.answers_judged([run("a"), run("b", 3), run("c")], [])[0] == 0
    code, words = scenarios.answers_judged([run("a"), run("b", 2), run("c", 4)], [])
    assert code == 1
    assert words == [
        "classes in full precision: any two of 3 runs differ in at most 4 of 10,000 images (a and c; limit 3): FAILED"
    ]


def test_what_is_missing_is_not_judged_and_what_failed_has_failed() -> None:
    """A runtime that can't run here, and a run without all answers, are told; a doubt about the answers fails."""
    code, words = scenarios.answers_judged([run("a"), run("b")], ["triton: no library"])
    assert code == 2 and words[0] == "not judged: triton: no library"
    code, words = scenarios.answers_judged([run("a"), run("b"), run("c", unanswered=2)], [])
    assert code == 2 and "c: not judged: 2 images got no answer" in words[0] and "two of 2 runs" in words[1]
    code, words = scenarios.answers_judged([run("a"), run("b", against="4 samples differ")], ["x"])
    assert code == 1 and "b: FAILED: 4 samples differ" in words
    assert scenarios.answers_judged([run("a")], [])[0] == 2


def fault(wrong: list[int], found: list[int], **more: Any) -> dict[str, Any]:
    """A server that answered these samples wrongly, and those that were named."""
    row = {
        "what": "swaps",
        "samples": IMAGES,
        "said": len(wrong),
        "wrong": wrong,
        "found": found,
        "unanswered": 0,
    }
    return {**row, "against": "2 samples differ", **more}


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (fault([4, 7], [7, 4]), 0),
        (fault([4, 7], [4]), 1),
        (fault([4, 7], [4, 7, 9]), 1),
        (fault([], []), 1),  # a server without a fault shows nothing
        (fault([4, 7], [4, 7], said=3), 1),
        (fault([4, 7], [4, 7], against=""), 1),
        (fault([4, 7], [4, 7, 9], unanswered=1), 2),  # what was not answered was not answered wrongly
    ],
)
def test_a_fault_is_found_with_just_its_samples(row: dict[str, Any], code: int) -> None:
    """Fewer or more of them fail, as does a run that counts all the same."""
    assert scenarios.faults_judged([row], [])[0] == code


def test_three_servers_have_faults() -> None:
    """Those that have to be found."""
    assert list(FAULTS) == ["errs only in batches", "swaps two answers", "repeats its last answer"]


def entries(count: int) -> pd.DataFrame:
    """So many models in two precisions each, one of them without a figure."""
    rows = [
        {"model": f"m{at // 2}", "framework": "torch", "precision": ("fp32", "int8")[at % 2], "value": 0.9}
        for at in range(count)
    ]
    return pd.DataFrame([*rows, {**rows[0], "model": "x", "value": None}])


def test_twenty_entries_with_an_accuracy_are_wanted() -> None:
    """An entry is a model, a framework and a precision, and counts once; one without a figure doesn't."""
    code, words = accuracies.judged(entries(20), 0)
    assert code == 0 and words.startswith("20 entries have a measured accuracy (10 models by framework")
    assert accuracies.judged(entries(19), 0)[0] == 1
    assert accuracies.judged(entries(19), 3)[0] == 2
    twice = pd.concat([entries(19), entries(19)])
    assert accuracies.judged(twice, 0)[0] == 1
    assert accuracies.judged(pd.DataFrame(), 5)[0] == 2


def test_the_shipped_submissions_ask_for_more_than_twenty_entries() -> None:
    """Canonical families of both frameworks, five architectures on Fashion-MNIST, in three precisions, RNNs in two."""
    counts = {}
    for name in accuracies.SUBMISSIONS:
        plain, jobs = accuracies.points(name)
        assert "load" not in plain and "evaluate" in plain
        assert len({accuracies.key_of(name, job) for job in jobs}) == len(jobs)
        counts[name] = [len(group) for group in accuracies.of_models(jobs)]
    assert counts["canonical-accuracy"] == [3, 3, 2, 3] * 2 and counts["fashion-accuracy"] == [3] * 6
