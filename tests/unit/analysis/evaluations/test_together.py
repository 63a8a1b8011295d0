"""The parts of one evaluation as one: the same as if one run had asked all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from inferbench_tasks.analysis.evaluations.together import together
from inferbench_tasks.contracts.columns import rows_of_numbers
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.auc import Auc, auc
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.intervals import share
from inferbench_tasks.quality.mean_iou import MeanIou
from inferbench_tasks.submission.part import Part
from tests.unit.analysis.evaluations.builders import LABELS, SAMPLES, answers, evaluated, macro_f1

WRONG = {3, 4, 5, 12}
Asked = tuple[ResultDocument, pa.Table]


def part(
    number: int, of: int = 2, *, seed: int = 1, threads: int = 2, wrong: set[int] = WRONG, **more: Any
) -> Asked:
    """Every so many-th sample of the twenty."""
    rows = list(range(SAMPLES))[number - 1 :: of]
    job = {
        "name": f"of-{number}", "evaluate": {"part": f"{number}/{of}", "samples": None}, "load": {"seed": seed},
        "serve": {"threads": threads},
    }  # fmt: skip
    result = evaluated(f"part-{number}", wrong & set(rows), provenance={"job": job}, **more)
    return result, answers(wrong).take(rows)


def test_two_parts_are_the_whole() -> None:
    """16 of 20 right with Wilson's interval over twenty, and the macro F1 of the whole, not the mean of the halves."""
    found = together([part(2), part(1)])
    assert found["samples"] == SAMPLES and found["valid"] and found["runs"] == ["part-2", "part-1"]
    assert found["measures"]["top1_ratio"] == share(16, 20).as_dict()
    assert found["measures"]["agreement_ratio"]["value"] == 0.8
    assert found["measures"]["macro_f1"]["value"] == pytest.approx(macro_f1(WRONG))
    assert found["left_out"] == {"auc": "what it needs of each sample is not kept"}


def test_top_5_is_of_the_ranks_of_both_parts() -> None:
    """Three of twenty labels have five classes or more before them: 17 of 20, with Wilson's interval over all. Parts of
    before the ranks were kept leave it out."""
    ranks = pa.array([5, 9, *[4] * 8, *[0] * 9, 5])
    both = []
    for number in (1, 2):
        result, table = part(number)
        result.extensions["evaluation"]["under_load"]["measures"] = {
            "top5_ratio": {"value": 0.8, "ci95": None}
        }
        both.append(
            (result, table.append_column("label_rank", ranks.take(pa.array(table["sample"].to_pylist()))))
        )
    assert together(both)["measures"] == {"top5_ratio": share(17, 20).as_dict()}
    old = [(result, table.drop_columns("label_rank")) for result, table in both]
    assert together(old)["left_out"] == {"top5_ratio": "what it needs of each sample is not kept"}


def scored(number: int, scores: NDArray[np.float64], of: int = 3) -> Asked:
    """A part whose samples' scores were kept, and AUC measured."""
    result, table = part(number, of)
    result.extensions["evaluation"]["under_load"]["measures"] = {"auc": {"value": 0.5, "ci95": None}}
    own = scores[table["sample"].to_numpy()]
    return result, table.append_column("scores", rows_of_numbers(own))


def test_auc_is_of_the_scores_of_all_parts() -> None:
    """To the last digit what one run of all samples gives, with its interval, in whichever order the parts come; it is
    not the mean of the parts' own, for scores of one part rank among those of the other."""
    rng = np.random.default_rng(7)
    labels = np.array(LABELS)
    right = rng.normal(size=SAMPLES) + labels + np.where(np.arange(SAMPLES) % 2, 0.7, 0.0)
    scores = np.stack([-right, np.round(right, 1)], axis=1)  # with ties
    outputs = {"scores": scores}
    whole = Auc().of(Answered(outputs, outputs, labels))
    found = together([scored(number, scores) for number in (3, 1, 2)])
    assert found["measures"] == {"auc": whole.as_dict()} and whole.low is not None
    of_parts = [auc(scores[first::3], labels[first::3]) for first in range(3)]
    assert abs(np.mean(of_parts) - whole.value) > 1e-3


def test_scores_that_make_no_auc_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is no number, and more of them than are ranked at once."""
    scores = np.arange(2.0 * SAMPLES).reshape(SAMPLES, 2)
    monkeypatch.setattr("inferbench_tasks.analysis.evaluations.together._MOST_SCORES", 2 * SAMPLES - 1)
    parts = [scored(number, scores) for number in (1, 2, 3)]
    assert "too many scores" in together(parts)["left_out"]["auc"]
    monkeypatch.undo()
    scores[3, 1] = np.nan
    found = together([scored(number, scores) for number in (1, 2, 3)])
    assert found["left_out"] == {"auc": "some scores are no finite numbers"} and not found["measures"]


def test_a_part_that_met_fewer_classes_of_pixels_is_a_part_all_the_same() -> None:
    """Masks of classes 0 to 1 in one part and 0 to 2 in the other: the mean IoU of all pixels together."""
    rng = np.random.default_rng(3)
    targets = rng.integers(0, 2, (SAMPLES, 4, 4))
    answers = np.where(rng.random(targets.shape) < 0.8, targets, 1 - targets)
    targets[1, 0, 0] = answers[3, 0, 0] = 2  # of the second part
    measure, both = MeanIou(), []
    whole = measure.of(Answered({"m": answers}, {"m": answers}, targets={"masks": targets}))
    for number in (1, 2):
        result, table = part(number)
        rows = table["sample"].to_numpy()
        own = Answered({"m": answers[rows]}, {"m": answers[rows]}, targets={"masks": targets[rows]})
        kept = [row.tolist() for row in measure.parts(own)]
        result.extensions["evaluation"]["under_load"]["measures"] = {"mean_iou": {"value": 0.5, "ci95": None}}
        both.append((result, table.append_column("parts_mean_iou", pa.array(kept, pa.list_(pa.float64())))))
    assert len(both[0][1]["parts_mean_iou"][0]) < len(both[1][1]["parts_mean_iou"][0])
    assert together(both)["measures"]["mean_iou"] == whole.as_dict()


def test_a_measure_that_one_part_lacks_is_said_to_be_left_out() -> None:
    """A part without a large object has no precision of large ones, and what the other has is not all of it."""
    one, other = part(1), part(2)
    both = one[0].extensions["evaluation"]["under_load"]["measures"]
    both["average_precision_large"] = {"value": 0.5, "ci95": None}
    found = together([one, other])
    assert found["left_out"]["average_precision_large"] == "not every part has it"
    assert "average_precision_large" not in found["measures"]


def test_a_measure_that_is_not_installed_here_is_left_out_and_the_others_stand() -> None:
    """The parts' workers had a package's measure that this machine has not."""
    one, other = part(1), part(2)
    for result, _ in (one, other):
        result.extensions["evaluation"]["under_load"]["measures"]["acorns"] = {"value": 0.5, "ci95": None}
    found = together([one, other])
    assert found["left_out"]["acorns"].startswith("Unknown measure of quality 'acorns'; known: ")
    assert found["measures"]["top1_ratio"] == share(16, 20).as_dict()


def test_parts_of_before_and_after_a_field_came_are_of_one_evaluation() -> None:
    """A job of before lacks what says the usual thing now."""
    old, new = part(1), part(2)
    job = (new[0].provenance.model_extra or {})["job"]
    job["load"]["from"] = "server_host"
    assert together([old, new])["samples"] == SAMPLES
    job["load"]["from"] = "other_host"
    with pytest.raises(InputError, match=r"asked otherwise: load\.from"):
        together([old, new])


def test_parts_of_samples_of_other_measures() -> None:
    """Word errors of (errors, words) for each sample: of all words, not the mean of two rates."""
    both = []
    for number in (1, 2):
        result, table = part(number)
        words = [[1.0, 2.0 if number == 1 else 8.0]] * table.num_rows
        table = table.append_column("parts_word_error_ratio", pa.array(words))
        measures = {"word_error_ratio": {"value": 0.5, "ci95": None}}
        result.extensions["evaluation"]["under_load"]["measures"] = measures
        both.append((result, table))
    found = together(both)
    assert found["measures"]["word_error_ratio"]["value"] == pytest.approx(20 / (10 * 2 + 10 * 8))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([part(1)], "these are 1/2: of 2 parts each has to be there once"),
        ([part(1), part(1)], "these are 1/2, 1/2"),
        ([part(1, 2), part(2, 3)], "these are 1/2, 2/3"),
        ([part(1), part(2, seed=2)], "asked otherwise: load.seed"),
        ([part(1), part(2, threads=4)], "asked otherwise: serve.threads"),
        ([part(1), part(2, format="openvino")], "format is openvino"),
        ([part(1), part(2, model={"name": "resnet50", "version": 3})], "model.version is 3 and not 2"),
        ([part(1), part(2, evaluation={"data": {"version": 2}})], "data.version is 2 and not None"),
        ([part(1), part(2, evaluation={"under_load": {"unanswered": 2}})], "2 samples of part-2 have no answer"),
        ([part(1), (evaluated("all", set()), answers(set()))], "asked all of its samples|asked otherwise"),
    ],
)  # fmt: skip
def test_what_is_no_whole_is_refused(parts: list[Asked], why: str) -> None:
    """A part that is missing, there twice, of other parts, samples, jobs, models or stacks, without answers, or no part
    at all. Names and other labels of jobs may differ."""
    with pytest.raises(InputError, match=why):
        together(parts)


def test_a_part_that_does_not_count_is_said() -> None:
    """Then nothing of the whole does."""
    found = together([part(1), part(2, verdict="invalid: lateness")])
    assert not found["valid"] and found["verdicts"][1].startswith("invalid")


def test_parts_are_disjoint_and_all() -> None:
    """Of any number of samples, by rows in turns."""
    for count in (7, 20, 101):
        for of in (2, 3, 7):
            rows = [Part(number, of).of_rows(np.arange(count)) for number in range(1, of + 1)]
            assert sorted(np.concatenate(rows)) == list(range(count))
            assert max(map(len, rows)) - min(map(len, rows)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/1", "1/1001", "a", "1", "-1/2", "1/2/3", "1 / 2"])
def test_what_is_no_part(text: str) -> None:
    """The message says what one is."""
    with pytest.raises(ValueError, match="a part is a number of so many"):
        Part.read(text)


def test_parts_of_one_file_are_parts_whatever_its_weights_were_called() -> None:
    """One part was asked by an earlier version, which called each file fp32."""
    model = {"name": "m", "digest": "aa", "source_digest": "aa"}
    both = [
        part(number, model={**model, "precision": called}) for number, called in ((1, "int8"), (2, "fp32"))
    ]
    assert together(both)["samples"] == SAMPLES
