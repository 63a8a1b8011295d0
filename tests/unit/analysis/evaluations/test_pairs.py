"""Two evaluations in pairs: by hand, and refused where they make no pairs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from inferbench_tasks.analysis.evaluations.listed import flat, row
from inferbench_tasks.analysis.evaluations.pairs import BOOTSTRAP, MCNEMAR, compare
from inferbench_tasks.analysis.evaluations.samples import picked, rows
from inferbench_tasks.errors import InputError
from tests.unit.analysis.evaluations.builders import SAMPLES, answers, evaluated, macro_f1

FEW, MANY = {3}, {3, 4, 5, 6, 7, 8, 9, 10, 11, 12}


def pairs(first: set[int] = FEW, second: set[int] = MANY, **more: Any) -> dict[str, Any]:
    """Those of two runs that answered these samples wrongly."""
    return compare(
        evaluated("one", first), evaluated("two", second), (answers(first), answers(second)), **more
    )


def test_nine_samples_lost_and_none_gained() -> None:
    """McNemar's p is 2 x 0.5^9, the difference 9 of 20; the samples are named, a page at a time."""
    found = pairs(limit=4)
    assert (found["samples"], found["differ"], found["judged_on"]) == (
        20,
        9,
        "20 samples of coins (samples aaaaaaaa)",
    )
    top1 = next(each for each in found["measures"] if each["measure"] == "top1_ratio")
    assert (top1["only_first"], top1["only_second"], top1["method"]) == (9, 0, MCNEMAR)
    assert top1["difference"] == pytest.approx(-0.45) and top1["p_value"] == pytest.approx(2 * 0.5**9)
    assert top1["ci95"][0] < -0.45 < top1["ci95"][1] < 0
    assert [each["sample"] for each in found["differing"]] == [4, 5, 6, 7] and found["next_offset"] == 4
    assert [each["sample"] for each in pairs(limit=4, offset=8)["differing"]] == [12]
    first = found["differing"][0]
    assert (first["label"], first["first_answer"], first["second_answer"]) == (0, 0, 1)
    assert "They answer 9 of 20 samples otherwise." in found["sentences"]
    assert any("the second is 0.45 worse (p 0.0039" in text for text in found["sentences"])


def test_equal_to_the_last_bit() -> None:
    """Said where both digests are there and the same; without one of them nothing is said of it."""
    for digests, told in ((("a", "a"), True), (("a", "b"), False), (("a", None), None), ((None, None), None)):
        runs = [evaluated(name, FEW) for name in ("one", "two")]
        for run, digest in zip(runs, digests, strict=True):
            run.extensions["evaluation"]["one_by_one"] = {"answers_digest": digest}
        found = compare(runs[0], runs[1], (answers(FEW), answers(FEW)))
        assert found["bit_equal"] is told
        assert any("to the last bit" in text for text in found["sentences"]) is (told is True)


def test_equal_alone_and_not_under_load() -> None:
    """Equal digests are of the answers to single samples; of those in the load's scenario nine of twenty differ. "All
    alike" alone would contradict the nine that are listed.
    """
    runs = [evaluated("one", FEW), evaluated("two", MANY)]
    for run in runs:
        run.extensions["evaluation"]["one_by_one"] = {"answers_digest": "a"}
    found = compare(runs[0], runs[1], (answers(FEW), answers(MANY)))
    assert (found["bit_equal"], found["differ"]) == (True, 9)
    assert found["sentences"][0] == (
        "They answer all 20 samples alike, to the last bit, one by one; in their loads they don't. They answer 9 of 20 "
        "samples otherwise."
    )


def test_top_5_is_compared_by_the_same_samples() -> None:
    """Six labels fall behind the fifth class and none comes up: McNemar's p is 2 x 0.5^6. Without the ranks of one side
    there is no p."""
    runs = [evaluated(name, FEW) for name in ("one", "two")]
    ranks = [[5, *[1] * 19], [*[7] * 7, *[4] * 13]]
    for run, rank in zip(runs, ranks, strict=True):
        value = {"value": sum(each < 5 for each in rank) / 20, "ci95": None}
        run.extensions["evaluation"]["under_load"]["measures"] = {"top5_ratio": value}
    one, two = (answers(FEW, label_rank=rank) for rank in ranks)
    (row_,) = compare(runs[0], runs[1], (one, two))["measures"]
    assert (row_["only_first"], row_["only_second"], row_["method"]) == (6, 0, MCNEMAR)
    assert row_["difference"] == pytest.approx(-0.3) and row_["p_value"] == pytest.approx(2 * 0.5**6)
    (row_,) = compare(runs[0], runs[1], (one, answers(FEW)))["measures"]
    assert row_["p_value"] is None and row_["why"] == "what it needs of each sample is not kept"


def test_what_is_drawn_anew_and_what_is_not_kept() -> None:
    """Macro F1 by draws of both together, with an interval around its difference; AUC has none, and says why."""
    measures = {each["measure"]: each for each in pairs()["measures"]}
    f1, auc = measures["macro_f1"], measures["auc"]
    assert f1["method"] == BOOTSTRAP and f1["difference"] == pytest.approx(macro_f1(MANY) - macro_f1(FEW))
    assert f1["ci95"][0] < f1["difference"] < f1["ci95"][1] < 0 and f1["p_value"] < 0.01
    assert (auc["method"], auc["p_value"], auc["why"]) == (
        None,
        None,
        "what it needs of each sample is not kept",
    )


def test_parts_of_other_measures_are_drawn_too() -> None:
    """Word errors of (errors, words) for each sample: the whole's rates differ as the results say."""
    one, two = [[0.0, 2.0]] * 20, [[1.0, 2.0]] * 10 + [[0.0, 2.0]] * 10
    results = [evaluated("one", FEW), evaluated("two", FEW)]
    for result, value in zip(results, (0.0, 0.25), strict=True):
        result.extensions["evaluation"]["under_load"]["measures"] = {"word_error_ratio": {"value": value}}
    tables = [
        answers(FEW, parts_word_error_ratio=each, answer=pa.nulls(20, pa.int64())) for each in (one, two)
    ]
    found = compare(results[0], results[1], (tables[0], tables[1]))
    (words,) = found["measures"]
    assert (words["difference"], words["method"], found["differ"]) == (pytest.approx(0.25), BOOTSTRAP, 10)
    assert any("Word error rate: the second is 0.25 worse" in text for text in found["sentences"])


def test_a_measure_that_is_not_installed_here_is_not_compared_and_the_others_are() -> None:
    """Its figures stand, and why there is no p."""
    results, tables = [], []
    for name, wrong in (("one", FEW), ("two", MANY)):
        result = evaluated(name, wrong)
        result.extensions["evaluation"]["under_load"]["measures"]["acorns"] = {"value": 0.5, "ci95": None}
        results.append(result)
        tables.append(answers(wrong, parts_acorns=[[1.0]] * 20))
    found = compare(results[0], results[1], (tables[0], tables[1]))
    rows_ = {each["measure"]: each for each in found["measures"]}
    assert rows_["acorns"]["p_value"] is None
    assert rows_["acorns"]["why"].startswith("Unknown measure of quality 'acorns'; known: ")
    assert rows_["top1_ratio"]["difference"] == pytest.approx(-0.45)


def test_equal_answers_are_no_difference() -> None:
    """Nothing differs: p is 1 and nothing is said to be better."""
    found = pairs(FEW, FEW)
    assert found["differ"] == 0 and found["differing"] == [] and found["next_offset"] is None
    assert {each["p_value"] for each in found["measures"] if each["method"]} == {1.0}
    assert not any("better" in text or "worse" in text for text in found["sentences"])


def test_samples_that_don_t_give_the_results_figures_are_no_pairs() -> None:
    """A file of answers that is of something else shows no p."""
    found = compare(evaluated("one", FEW), evaluated("two", MANY), (answers(FEW), answers({1})))
    top1 = next(each for each in found["measures"] if each["measure"] == "top1_ratio")
    assert top1["p_value"] is None and "does not give the results' figures" in top1["why"]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (evaluated("two", FEW, samples_digest="bb" * 32), "only the same samples make pairs"),
        (evaluated("two", FEW, evaluation={"dataset": "others"}), "only the same samples make pairs"),
        (evaluated("two", FEW, extensions={}), "two was not evaluated"),
    ],
)
def test_other_samples_make_no_pairs(second: Any, words: str) -> None:
    """Of other content, other data, or not evaluated at all."""
    with pytest.raises(InputError, match=words):
        compare(evaluated("one", FEW), second, (answers(FEW), answers(FEW)))


def test_labels_that_differ_make_no_pairs() -> None:
    """Though the results say that the samples are the same."""
    other = answers(FEW, label=[0] * 20)
    with pytest.raises(InputError, match="other samples"):
        compare(evaluated("one", FEW), evaluated("two", FEW), (answers(FEW), other))


def test_a_run_that_does_not_count_is_said_to_be_none() -> None:
    """Its pairs are shown, with the verdict first."""
    late = evaluated("two", FEW, verdict="invalid: late")
    found = compare(evaluated("one", FEW), late, (answers(FEW), answers(FEW)))
    assert found["sentences"][0] == "two does not count: invalid: late"


def test_samples_are_picked_by_what_is_wrong_with_them() -> None:
    """Wrong ones with the surest first, those that are otherwise under load, those without an answer."""
    table = answers({3, 9})
    assert [each["sample"] for each in rows(picked(table, "wrong"), 10, 0)] == [9, 3]
    assert picked(table, "otherwise").num_rows == picked(table, "unanswered").num_rows == 0
    alone = answers({3}, answer_one_by_one=[0] * 20)
    assert {each["sample"] for each in rows(picked(alone, "otherwise"), 50, 0)} == {*range(1, 20, 2)} - {3}
    late = answers(set(), latency_ms=[None] + [1.0] * 19, answer=[None] + [0] * 19)
    assert [each["sample"] for each in rows(picked(late, "unanswered"), 50, 0)] == [0]
    assert len(rows(table, 7, 18)) == 2


def test_samples_that_differ_within_a_class_are_picked() -> None:
    """Where a file has the difference of each sample: all that are otherwise, the furthest apart first; of the same
    classes too."""
    apart = [0.0] * SAMPLES
    apart[4], apart[9] = 0.3, float("inf")
    table = answers(set(), apart_ratio=apart, otherwise=[ratio > 0.02 for ratio in apart])
    assert [each["sample"] for each in rows(picked(table, "otherwise"), 10, 0)] == [9, 4]
    nothing = {"apart_ratio": pa.nulls(SAMPLES, pa.float64()), "otherwise": pa.nulls(SAMPLES, pa.bool_())}
    missing = answers(set(), **nothing)
    assert picked(missing, "otherwise").num_rows == 0


def test_samples_of_a_training_are_said_to_be_of_one() -> None:
    """In the row and first among the sentences of a comparison."""
    data = {"data": {"training": True, "digest": "cd" * 32, "name": "coins"}}
    runs = [evaluated(name, FEW, evaluation=data) for name in ("one", "two")]
    assert row(runs[0].model_dump())["training"] and not row(evaluated("plain", FEW).model_dump())["training"]
    found = compare(runs[0], runs[1], (answers(FEW), answers(FEW)))
    assert found["sentences"][0].startswith("Models are usually trained on these samples")


def test_a_row_has_measures_beside_speed() -> None:
    """Each measure with its interval, which CSV has as columns; what was withheld has its reason."""
    (cells,) = flat([row(evaluated("one", FEW).model_dump())])
    assert (cells["dataset"], cells["top1_ratio"], cells["top1_ratio_low"]) == ("coins", 0.95, 0.85)
    assert cells["auc_low"] is None and cells["otherwise"] == 0 and "p99_ms" in cells
    assert cells["otherwise_bound_ratio"] is None
    held = {"compared": SAMPLES, "bound_ratio": 0.02, "beyond_tolerance": 0, "other_class": 1, "otherwise": 1,
            "largest_ratio": 0.01, "samples": [3]}  # fmt: skip
    told = row(evaluated("three", FEW, evaluation={"differing": held, "tolerance_ratio": 0.3}).model_dump())
    assert (told["otherwise"], told["otherwise_bound_ratio"], told["otherwise_largest_ratio"]) == (
        1,
        0.02,
        0.01,
    )
    old = row(evaluated("four", FEW, evaluation={"tolerance_ratio": 0.3}).model_dump())
    assert (old["otherwise"], old["otherwise_bound_ratio"], old["otherwise_largest_ratio"]) == (0, 0.3, None)
    withheld = evaluated("two", FEW, evaluation={"under_load": {"withheld": "1 of 20 samples got no answer"}})
    found = row(withheld.model_dump())
    assert found["measures"] == {} and found["withheld"] == "1 of 20 samples got no answer"


def _vectors(first: float, second: float) -> dict[str, Any]:
    """Two runs whose answers are no classes, with these parts of a sample each (errors of one word)."""
    results = [evaluated("one", FEW), evaluated("two", FEW)]
    for result, value in zip(results, (first, second), strict=True):
        result.extensions["evaluation"]["under_load"]["measures"] = {"word_error_ratio": {"value": value}}
    none = pa.nulls(20, pa.int64())
    tables = [answers(FEW, parts_word_error_ratio=[[v, 1.0]] * 20, answer=none) for v in (first, second)]
    return compare(results[0], results[1], (tables[0], tables[1]))


def test_rounding_is_no_difference_and_parts_are_no_answers() -> None:
    """Parts of 0.5 and 0.5 + 1e-9 are one, and nothing is better; 0.5 and 0.6 differ in a measure, of which it is not
    said that the answers differ.
    """
    near, far = _vectors(0.5, 0.5 + 1e-9), _vectors(0.5, 0.6)
    assert near["differ"] == 0 and far["differ"] == 20
    assert "They differ in a measure of 0 of 20 samples." in near["sentences"]
    assert not any("the second is" in text for text in near["sentences"])
    assert "They differ in a measure of 20 of 20 samples." in far["sentences"]
    assert any("the second is 0.1 worse" in text for text in far["sentences"])
    assert not any("answer" in text for text in [*near["sentences"], *far["sentences"]])
