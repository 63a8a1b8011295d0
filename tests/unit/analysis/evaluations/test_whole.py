"""The parts of one evaluation as one result: the same as that of a run that asked all."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from inferbench_tasks.analysis.evaluations.beside import asks_for, missing_in, whole_key
from inferbench_tasks.analysis.evaluations.listed import row
from inferbench_tasks.analysis.evaluations.pairs import compare
from inferbench_tasks.analysis.evaluations.whole import whole_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.intervals import share
from tests.unit.analysis.evaluations.builders import SAMPLES, answers, evaluated
from tests.unit.analysis.evaluations.test_together import WRONG, Asked, part


def known(asked: Asked, samples: int = SAMPLES) -> Asked:
    """On named data of so many samples."""
    asked[0].extensions["evaluation"]["data"] = {"digest": "cd" * 32, "samples": samples, "name": "coins"}
    return asked


def test_a_whole_is_the_row_of_one_run() -> None:
    """Measures, samples and data as of a run that asked all, so that both are compared; no speed, for each part had a
    load of its own."""
    speed = {"e2e_latency_ms": {"p50": 4.5}}
    whole = whole_of([known(part(number, summary=speed)) for number in (1, 2)])
    data = {"digest": "cd" * 32, "samples": SAMPLES}
    alone = evaluated("alone", WRONG, "cd" * 32, evaluation={"data": data}, summary=speed)
    made, plain = row(whole.result.model_dump()), row(alone.model_dump())
    assert made["measures"]["top1_ratio"] == {
        name: share(16, 20).as_dict()[name] for name in ("value", "ci95")
    }
    assert (made["parts"], made["part"], made["samples"], made["verdict"]) == (2, None, SAMPLES, "valid")
    assert made["judged_on"] == plain["judged_on"] == "20 samples of coins (cdcdcdcd)"
    assert plain["p50_ms"] is not None and made["p50_ms"] is None
    assert whole.table["sample"].to_pylist() == list(range(SAMPLES))
    one = row(part(1)[0].model_dump())
    assert (one["part"], one["parts"]) == ("1/2", None)


def test_of_some_samples_the_digest_is_that_of_one_run() -> None:
    """Of content and the samples' numbers, as `stages.evaluated.samples_digest` has it."""
    whole = whole_of([known(part(1), 99), known(part(2), 99)])
    ids = np.arange(SAMPLES).astype("<i8").tobytes()
    assert whole.result.extensions["evaluation"]["samples_digest"] == (
        hashlib.sha256(b"cd" * 32 + ids).hexdigest()
    )
    assert "samples " in judged_on.of_result(whole.result)


MODEL = {"name": "resnet50", "version": 2, "source_digest": "ab" * 32}


def test_a_whole_of_a_model_s_own_data_is_paired_with_one_run() -> None:
    """Nobody has the digest of its samples: data, seed, model, its version and source, and each sample with its label
    have to be the same."""
    whole = whole_of([part(1, model=MODEL), part(2, model=MODEL)])
    assert whole.result.extensions["evaluation"]["samples_digest"] is None
    alone = evaluated("alone", WRONG, model=MODEL)
    assert compare(whole.result, alone, (whole.table, answers(WRONG)))["differ"] == 0
    for other in (
        evaluated("other", WRONG, model={**MODEL, "name": "another"}),
        evaluated("other", WRONG, model={**MODEL, "version": 3}),
        evaluated("other", WRONG, model={**MODEL, "source_digest": "cd" * 32}),
        evaluated("other", WRONG, model=MODEL, load={"arrivals": {"kind": "poisson"}, "seed": 7}),
    ):
        with pytest.raises(InputError, match="only the same samples make pairs.*they need labels"):
            compare(whole.result, other, (whole.table, answers(WRONG)))
    for evaluation in ({"data": {"digest": "cd" * 32}}, {"samples": SAMPLES - 1}):
        other = evaluated("other", WRONG, model=MODEL, evaluation=evaluation)
        with pytest.raises(InputError, match=r"only the same samples make pairs[^;]*$"):
            compare(whole.result, other, (whole.table, answers(WRONG)))
    without = pa.nulls(SAMPLES, pa.int64())
    with pytest.raises(InputError, match="only the same samples make pairs.*they need labels"):
        compare(whole.result, alone, (unlabelled(whole.table), answers(WRONG, label=without)))


def unlabelled(table: pa.Table) -> pa.Table:
    """The same answers to samples of which nobody knows what is right."""
    at = table.column_names.index("label")
    return table.set_column(at, "label", pa.nulls(table.num_rows, pa.int64()))


def test_two_wholes_of_samples_without_labels_are_of_one_model() -> None:
    """Of as many samples of data of one name, without a digest or labels: those of another model may be others."""
    one, same, other = (
        whole_of([part(number, model=model) for number in (1, 2)])
        for model in (MODEL, {**MODEL, "precision": "int8"}, {**MODEL, "source_digest": "cd" * 32})
    )
    assert judged_on.of_result(one.result) == judged_on.of_result(other.result) == "20 samples of coins"
    tables = (unlabelled(one.table), unlabelled(other.table))
    assert compare(one.result, same.result, tables)["differ"] == 0
    assert compare(one.result, other.result, (one.table, other.table))["differ"] == 0
    with pytest.raises(InputError, match="no digest tells which samples"):
        compare(one.result, other.result, tables)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("valid", "valid"), "valid"),
        (("valid", "invalid: late"), "invalid: part 2/2: late"),
        (("disturbed: steal took 9%", "invalid: late"), "invalid: part 2/2: late"),
        (("failed: load, it broke", "invalid: late"), "failed: load, part 1/2: it broke"),
        (("cancelled: load", "valid"), "cancelled: load, part 1/2"),
    ],
)
def test_a_whole_is_worth_what_its_worst_part_is(verdicts: tuple[str, str], said: str) -> None:
    """With the part and its reasons."""
    parts = [part(1, verdict=verdicts[0]), part(2, verdict=verdicts[1])]
    assert str(whole_of(parts).result.verdict) == said


def test_what_is_missing_is_named() -> None:
    """A part that failed with its verdict, one that has no result yet; a whole of the others there is none."""

    def stored(result: ResultDocument) -> dict[str, object]:
        return result.model_dump()

    failed = part(2, 3, verdict="failed: load, it broke")[0]
    failed.extensions.clear()
    there = {1: stored(part(1, 3)[0]), 2: stored(failed)}
    assert missing_in(there) == ["2/3 (failed: load, it broke)", "3/3 (no result yet)"]
    with pytest.raises(InputError, match="each has to be there once"):
        whole_of([part(1, 3), part(3, 3)])


def test_parts_of_one_evaluation_have_one_key() -> None:
    """Not those of another seed, of other numbers, of another invocation; a run that asked all has none."""
    keys = [whole_key(part(*args, **more)[0].model_dump()) for args, more in (
        ((1,), {}), ((2,), {}), ((1,), {"seed": 2}), ((1, 3), {}), ((1,), {"invocation_id": "other"}),
    )]  # fmt: skip
    assert keys[0] == keys[1] and len(set(keys)) == 4
    assert whole_key(evaluated("alone", set()).model_dump()) is None


@pytest.mark.parametrize(
    ("submission", "asks"),
    [
        ({"evaluate": {"parts": 4}}, True),
        ({"evaluate": {"parts": "auto"}}, True),
        ({"evaluate": {}, "sweep": {"grid": {"evaluate.parts": [2, 4]}}}, True),
        ({"sweep": {"zip": [{"evaluate": [{"parts": 4}, {}]}]}}, True),
        ({"evaluate": {"parts": 8}}, False),
        ({"evaluate": {}, "sweep": {"grid": {"evaluate.part": ["1/4", "2/4"]}}}, False),
    ],
)
def test_a_submission_asks_for_all_parts_or_names_some(submission: dict[str, object], asks: bool) -> None:
    """Of four: those that are named by hand may have the others elsewhere."""
    assert asks_for(submission, 4) is asks
