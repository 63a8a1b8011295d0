"""What each change of the pre-processing did, from made-up answers whose figures are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.analysis.evaluations.varied import rows
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.stages.asked import Asked
from inferbench_tasks.stages.varied import vary
from inferbench_tasks.stages.varied_samples import Varied

SAMPLES = 20
LABELS = np.arange(SAMPLES, dtype=np.int64) % 3
IDS = np.arange(100, 100 + SAMPLES, dtype=np.int64)
#: The source model errs in the last two samples.
SOURCE: Arrays = {
    "scores": np.eye(3, dtype=np.float32)[np.where(np.arange(SAMPLES) < 18, LABELS, (LABELS + 1) % 3)]
}


def answered(wrong: set[int], unanswered: int = 0) -> Asked:
    """The label's class, but for these samples the one behind it."""
    named = [(label + (at in wrong)) % 3 for at, label in enumerate(LABELS)]
    there = np.arange(SAMPLES) >= unanswered
    latency_ms = np.where(there, 2.0, np.nan)
    return Asked({"scores": np.eye(3, dtype=np.float32)[named]}, there, latency_ms, {}, 1)


class Two(Varied):
    """Two variants, whose inputs say which they are."""

    def inputs(self, at: int) -> Arrays:
        return {"input": np.full((SAMPLES, 1), at, dtype=np.float32)}


#: The times of the first variant are 1 to 20 ms, the second's ten times that, the plain ones' 3 ms.
TIMES_MS = np.stack([np.arange(1, SAMPLES + 1), 10 * np.arange(1, SAMPLES + 1)]).astype(np.float64)
VARIED = Two(
    [("resize", "nearest"), ("crop", 0.5)], [20, 7], TIMES_MS, np.full(SAMPLES, 3.0), "a processor", Path()
)


def found(
    first: Asked, second: Asked, plain: Asked, labels: NDArray[np.int64] | None = LABELS
) -> tuple[dict[str, Any], Any]:
    """Document and table; each variant is asked what it is of, once."""
    asked: list[tuple[float, str]] = []

    def ask(inputs: Arrays, name: str) -> Asked:
        asked.append((float(inputs["input"][0, 0]), name))
        return (first, second)[len(asked) - 1]

    document, table = vary(VARIED, ask, plain, SOURCE, labels, IDS, ["macro_f1"], "no labels")
    assert asked == [(0.0, "resize: nearest"), (1.0, "crop: 0.5")]
    return document, table


def test_each_variant_is_compared_with_the_plain_one_in_pairs() -> None:
    """Plain: 18 of 20 right. The first loses three of them and gains one, McNemar's p of 1 to 3 is 10/16; the second
    loses eight and gains none, 2 / 2^8; corrected for two variants the smaller one is twice that, the other stays.
    """
    document, _ = found(answered({0, 1, 2, 19}), answered({*range(8), 18, 19}), answered({18, 19}))
    assert document["measure"] == "top1_ratio" and document["processor"] == "a processor"
    plain, first, second = rows({"varied": document})
    assert (plain["variant"], plain["value"], plain["difference"], plain["preprocess_ms"]) == (
        "plain",
        0.9,
        None,
        3.0,
    )
    assert (first["variant"], first["value"], first["only_plain"], first["only_variant"]) == (
        "resize: nearest", 0.8, 3, 1,
    )  # fmt: skip
    assert first["difference"] == pytest.approx(-0.1) and second["difference"] == pytest.approx(-0.4)
    # Bonett and Price: of 3 + 1 and 1 + 1 by 20 + 2 samples.
    half = 1.959964 * math.sqrt((6 / 22 - (2 / 22) ** 2) / 22)
    assert first["difference_ci95"] == pytest.approx([-2 / 22 - half, -2 / 22 + half])
    assert (first["p_value"], second["p_value"]) == (pytest.approx(0.625), pytest.approx(2 * 2 / 2**8))
    assert (first["answers_changed"], second["answers_changed"]) == (4, 8)
    assert (first["inputs_changed"], second["inputs_changed"]) == (20, 7)
    assert (first["preprocess_ms"], second["preprocess_ms"]) == (10.5, 105.0)
    assert {*document["variants"][0]["measures"]} == {"top1_ratio", "macro_f1"}
    assert 0.5 < first["ci95"][0] < 0.8 < first["ci95"][1]


def test_every_answer_is_kept() -> None:
    """A row for each sample of each variant, the plain ones first, with its id, its answer and its times."""
    _, table = found(answered({0}), answered(set(), unanswered=2), answered(set()))
    assert table.num_rows == 3 * SAMPLES and table["sample"].to_pylist() == 3 * IDS.tolist()
    assert table["variant"].to_pylist()[::SAMPLES] == ["plain", "resize: nearest", "crop: 0.5"]
    first, second = (table.slice(at * SAMPLES, SAMPLES).to_pylist() for at in (1, 2))
    assert (first[0]["answer"], first[0]["latency_ms"], first[1]["preprocess_ms"]) == (1, 2.0, 2.0)
    assert [row["answer"] for row in second[:3]] == [None, None, 2]
    assert second[0]["score"] is None and second[0]["latency_ms"] is None


def test_figures_are_withheld_where_samples_got_no_answer() -> None:
    """Of that variant alone; where the plain ones lack some, nothing is compared with them."""
    document, _ = found(answered({0}), answered(set(), unanswered=2), answered(set()))
    _, first, second = rows({"varied": document})
    assert second["withheld"] == "2 of 20 samples got no answer" and second["value"] is None
    assert second["p_value"] is None and second["answers_changed"] is None
    assert first["withheld"] is None and first["p_value"] == 1.0
    document, _ = found(answered({0}), answered({1}), answered(set(), unanswered=1))
    plain, first, _ = rows({"varied": document})
    assert plain["withheld"] and first["value"] == 0.95 and first["difference"] is None


def test_without_labels_it_is_the_agreement_with_the_source_model() -> None:
    """Which names another class than the label in the last two samples."""
    document, _ = found(answered({0}), answered({18, 19}), answered({18, 19}), labels=None)
    plain, first, second = rows({"varied": document})
    assert document["measure"] == "agreement_ratio"
    assert [row["value"] for row in (plain, first, second)] == [1.0, 0.85, 1.0]
    assert (first["only_plain"], second["difference"], second["answers_changed"]) == (3, 0.0, 0)


def test_scores_that_name_no_class_are_never_right() -> None:
    """NaN, as a type that overflows gives."""
    broken = answered(set())
    broken.outputs["scores"][4] = np.nan
    document, _ = found(broken, answered(set()), answered(set()))
    _, first, _ = rows({"varied": document})
    assert (first["value"], first["only_plain"], first["answers_changed"]) == (0.95, 1, 1)


def test_an_evaluation_that_varied_nothing_has_no_rows() -> None:
    """Neither has one of before."""
    assert rows({"dataset": "digits"}) == []
