"""The parts of one evaluation as one: the same as if one run had asked all of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from inferbench_tasks.analysis.evaluations.together import together
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.intervals import share
from inferbench_tasks.submission.part import Part
from tests.unit.analysis.evaluations.builders import SAMPLES, answers, evaluated, macro_f1

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


def test_a_measure_that_one_part_lacks_is_said_to_be_left_out() -> None:
    """A part without a large object has no precision of large ones, and what the other has is not all of it."""
    one, other = part(1), part(2)
    both = one[0].extensions["evaluation"]["under_load"]["measures"]
    both["average_precision_large"] = {"value": 0.5, "ci95": None}
    found = together([one, other])
    assert found["left_out"]["average_precision_large"] == "not every part has it"
    assert "average_precision_large" not in found["measures"]


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
    import numpy as np

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
