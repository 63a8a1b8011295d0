"""What is said of answers, from made-up ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from inferbench_tasks.analysis.evaluations.samples import rows
from inferbench_tasks.contracts import arrays
from inferbench_tasks.contracts.answers import Meaning
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import Judgement
from inferbench_tasks.quality.judge import judge as measured
from inferbench_tasks.quality.named_classes import ClassReader
from inferbench_tasks.stages import answers_apart, answers_judged, answers_table
from inferbench_tasks.stages.answers_apart import passes_apart
from inferbench_tasks.stages.answers_judged import judge
from inferbench_tasks.stages.answers_table import table_of, with_parts
from inferbench_tasks.stages.asked import Asked

SOURCE = {"scores": np.eye(3)}
LABELS = IDS = np.arange(3, dtype=np.int64)


def judged(
    under_load: Asked,
    alone: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    bound_ratio: float,
    *,
    meaning: Meaning = "classes",
    **more: Any,
) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """What is said of them in full precision, with one bound on both differences."""
    apart = passes_apart(under_load, alone, source, meaning, bound_ratio)
    return judge(
        under_load, alone, source, labels, ids, bound_ratio,
        apart=apart, exact=True, meaning=meaning, **more,
    )  # fmt: skip


def all_or_none(answered: bool) -> Asked:
    """The source's answers to all samples, or no answer to any."""
    return Asked(
        outputs=SOURCE if answered else {},
        answered=np.full(3, answered),
        latency_ms=np.full(3, 1.0 if answered else np.nan),
        statuses={} if answered else {"timeout": 3},
        passes=1,
    )


def test_figures_are_withheld_where_nothing_is_answered() -> None:
    """Under load, alone, or both: the reason stands where the figures would, and nothing is compared."""
    for load, alone in ((False, True), (True, False), (False, False)):
        asked = all_or_none(load), all_or_none(alone)
        document, _ = judged(*asked, SOURCE, LABELS, IDS, 1e-4)
        assert document["differing"]["compared"] == document["differing"]["beyond_tolerance"] == 0
        for part, there in ((document["under_load"], load), (document["one_by_one"], alone)):
            assert part.get("withheld") == (None if there else "3 of 3 samples got no answer")
            assert ("measures" in part) == ("answers_digest" in part) == there
        assert table_of(*asked, SOURCE, LABELS, IDS).column("answer").null_count == (0 if load else 3)


def test_a_server_that_does_not_answer_single_samples_does_not_count() -> None:
    """Without answers one by one nothing shows what the load did to the others: invalid, by how many of which kind.
    Failures under load are the load's figures; without a load ``unloaded`` counts both passes."""
    for load in (True, False):
        asked = all_or_none(load), all_or_none(False)
        _, reasons = judged(*asked, SOURCE, LABELS, IDS, 1e-4)
        (reason,) = reasons
        assert (reason.check, reason.figure, reason.bound) == ("evaluate.unanswered", 3, 0)
        assert reason.text.startswith("3 of 3 samples got no answer one by one (3 timeout), ")
    assert not judged(all_or_none(False), all_or_none(True), SOURCE, LABELS, IDS, 1e-4)[1]
    unloaded = judged(all_or_none(True), all_or_none(False), SOURCE, LABELS, IDS, 1e-4, loaded=False)
    assert not unloaded[1]


def test_each_sample_says_which_device_answered_it() -> None:
    """So that parts of one evaluation that several devices asked can be told apart once they are one; lists of one run
    leave out what is the same in each row."""
    for device in ("EPYC", None):
        table = table_of(all_or_none(True), all_or_none(True), SOURCE, LABELS, IDS, device=device)
        assert (
            table.column("device").to_pylist() == [device] * 3
            and str(table.schema.field("device").type) == "string"
        )
        assert all("device" not in row and row["sample"] in (0, 1, 2) for row in rows(table, 3, 0))


def test_a_part_keeps_all_scores_for_auc(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they were answered, as many as there is room for; a run of all samples has no use for them, and lists of
    samples don't show them."""
    asked = all_or_none(True)
    plain = table_of(asked, asked, SOURCE, LABELS, IDS)

    def table(part: bool, measures: Sequence[str] = ("top1_ratio", "auc")) -> pa.Table:
        return with_parts(plain, SOURCE, SOURCE, {}, dict.fromkeys(measures), part=part)

    assert table(part=True)["scores"].to_pylist() == SOURCE["scores"].tolist()
    assert all("scores" not in row for row in rows(table(part=True), 3, 0))
    for lean in (table(part=False), table(part=True, measures=("top1_ratio",))):
        assert "scores" not in lean.column_names
    monkeypatch.setattr(answers_table, "MOST_SCORES", 8)
    assert "scores" not in table(part=True).column_names


@pytest.mark.parametrize("alike", [True, False])
def test_the_same_answers_are_judged_once(monkeypatch: pytest.MonkeyPatch, alike: bool) -> None:
    """Both passes have their own figures, which are worked out anew only of answers that differ in a bit."""
    calls: list[Answered] = []

    def counted(answered: Answered, names: Sequence[str]) -> Judgement:
        calls.append(answered)
        return measured(answered, names)

    monkeypatch.setattr(answers_judged, "measured", counted)
    other = SOURCE["scores"].copy()
    other[0] = np.nextafter(other[0], 2) if not alike else other[0]
    again = Asked({"scores": other}, np.full(3, True), np.full(3, 1.0), {}, 1)
    document, reasons = judged(all_or_none(True), again, SOURCE, LABELS, IDS, 1e-4)
    one, two = document["under_load"], document["one_by_one"]
    assert len(calls) == (1 if alike else 2) and not reasons
    assert (one["answers_digest"] == two["answers_digest"]) == alike
    assert one["measures"] == two["measures"] and one["measures"]["top1_ratio"]["value"] == 1.0
    assert (one["tied"], one["left_out"]) == (two["tied"], two["left_out"])


def of_values(values: NDArray[np.float32]) -> Asked:
    """Ten samples' answers of several axes."""
    return Asked({"y": values}, np.full(10, True), np.full(10, 1.0), {}, 1)


def test_large_answers_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three samples at a time give what all give together: by the largest value of all, and NaN beside none is told.
    Nothing of double precision is larger than a part."""
    rng = np.random.default_rng(2)
    one = rng.normal(size=(10, 4, 5)).astype(np.float32)
    two = one + rng.normal(scale=1e-2, size=one.shape).astype(np.float32)
    two[8, 0, 0] = 50  # the largest of all, far behind the first part
    broken = two.copy()
    broken[1, 2, 3] = np.nan
    expected = np.abs(one.astype(float) - two).reshape(10, -1).max(axis=1) / 50
    sizes: list[int] = []
    apart = answers_apart._apart

    def watched(a: NDArray[np.float32], b: NDArray[np.float32], scale: float) -> NDArray[np.float64]:
        sizes.append(a.size)
        return apart(a, b, scale)

    monkeypatch.setattr(answers_apart, "_apart", watched)
    monkeypatch.setattr(arrays, "_NUMBERS", 60)
    ids = np.arange(10)
    document, _ = judged(of_values(one), of_values(two), {"y": two}, None, ids, 1e-4, meaning="values")
    assert document["differing"]["largest_ratio"] == pytest.approx(expected.max())
    assert document["differing"]["beyond_tolerance"] == int((expected > 1e-4).sum())
    assert max(sizes) == 60 and sum(sizes) == 2 * one.size
    largest = document["under_load"]["measures"]["largest_difference_ratio"]["value"]
    assert largest == pytest.approx(expected.max())
    document, _ = judged(of_values(one), of_values(broken), {"y": two}, None, ids, 2.0, meaning="values")
    assert document["differing"]["samples"] == [1] and document["differing"]["largest_ratio"] is None


@pytest.mark.parametrize(("count", "stored"), [(3, 3), (1_000, 1_000), (1_001, 1_000)])
def test_recall_and_precision_are_of_all_classes_of_imagenet(count: int, stored: int) -> None:
    """Of more than a thousand the first thousand, with how many there are."""
    scores = {"scores": np.eye(count, dtype=np.float32)}
    asked = Asked(scores, np.full(count, True), np.ones(count), {}, 1)
    labels = ids = np.arange(count, dtype=np.int64)
    document, _ = judged(asked, asked, scores, labels, ids, 1e-4, measures=("top1_ratio",))
    assert [row["class"] for row in document["classes"]] == [*range(stored)]
    assert document["classes_total"] == count and ("confusion" in document) == (count <= 100)


def test_answers_are_judged_without_what_takes_a_second_to_import() -> None:
    """Neither pandas nor scipy.stats is needed for the figures of classes and for the table of answers."""
    code = (
        "import io, sys, numpy as np, pyarrow.parquet as pq\n"
        "from inferbench_tasks.stages.answers_apart import passes_apart, with_apart\n"
        "from inferbench_tasks.stages.answers_judged import judge\n"
        "from inferbench_tasks.stages.answers_table import table_of\n"
        "from inferbench_tasks.stages.asked import Asked\n"
        "labels = ids = np.arange(60) % 3\n"
        "scores = {'scores': np.eye(3)[labels] + 3 * np.random.default_rng(1).random((60, 3))}\n"
        "asked = Asked(scores, np.full(60, True), np.full(60, 1.0), {}, 1)\n"
        "apart = passes_apart(asked, asked, scores, 'classes', 1e-4)\n"
        "document, _ = judge(asked, asked, scores, labels, ids, 1e-4, apart=apart, exact=True)\n"
        "assert document['under_load']['measures']['auc']['ci95'], document\n"
        "file = io.BytesIO()\n"
        "table = with_apart(table_of(asked, asked, scores, labels, ids), apart)\n"
        "pq.write_table(table, file, compression='zstd')\n"
        "assert pq.ParquetFile(file).metadata.num_rows == 60\n"
        "assert not {'pandas', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_named_classes_are_the_data_sets_in_figures_and_the_models_beside_each_other() -> None:
    """Labels are set against what a model's classes are called; the two passes are compared as they were answered, so
    that scores which lie apart are seen where both name one class of the data set."""
    reader = ClassReader(labels=(1, 0, 0), least=(0.0,) * 3, below=(-1,) * 3, count=2, rule="a rule")
    labels = np.array([1, 0, 0])
    swapped = {"scores": np.eye(3)[[0, 2, 1]]}
    alone = replace(all_or_none(True), outputs=swapped)
    document, reasons = judged(all_or_none(True), alone, SOURCE, labels, IDS, 1e-4, classes=reader)
    for part in ("under_load", "one_by_one"):
        assert document[part]["measures"]["top1_ratio"]["value"] == 1.0
        assert document[part]["measures"]["agreement_ratio"]["value"] == 1.0
    assert document["confusion"] == {"classes": [0, 1], "counts": [[2, 0], [0, 1]]}
    assert [row["class"] for row in document["classes"]] == [0, 1] and document["classes_total"] == 2
    assert document["differing"]["samples"] == [1, 2] and document["differing"]["other_class"] == 2
    assert [reason.check for reason in reasons] == ["evaluate.differing"]


#: A model that gives a class's number beside its scores, as scikit-learn's do.
NUMBERED: Arrays = {"label": np.arange(3), "scores": np.eye(3, dtype=np.float32)}


def numbered(label: Sequence[int], *scale: float) -> Asked:
    """These numbers, and the scores of each sample times a factor."""
    outputs = {"label": np.array(label), "scores": (NUMBERED["scores"].T * np.array(scale)).T}
    return Asked(outputs, np.full(3, True), np.full(3, 1.0), {}, 1)


@pytest.mark.parametrize(
    ("answers", "exact", "exact_labels", "counted", "floats", "figure"),
    [
        # On the edge another class is the same answer; scores beyond the tolerance are not.
        (numbered([0, 1, 2], 1, 1, 1), True, False, 0, 0, None),
        (numbered([0, 2, 2], 1, 1, 1), True, False, 1, 0, None),
        (numbered([0, 2, 2], 0.5, 1, 1), True, False, 2, 1, 1),
        (numbered([0, 1, 2], 0.5, 0.9, 1), True, False, 2, 2, 2),
        (numbered([0, 1, 2], 0.9995, 1, 1), True, False, 0, 0, None),
        (numbered([0, 1, 2], np.nan, 1, 1), True, False, 1, 1, 1),
        # Where the server computes as the source did numbers have to be its own.
        (numbered([0, 2, 2], 1, 1, 1), True, True, 1, None, 1),
        # At less than full precision both are told only.
        (numbered([0, 2, 2], 0.5, 1, 1), False, False, 2, 1, None),
    ],
)
def test_floats_are_held_to_the_tolerance_also_where_a_class_s_number_may_be_another(
    answers: Asked, exact: bool, exact_labels: bool, counted: int, floats: int | None, figure: int | None
) -> None:
    """``counted``: samples that are answered otherwise than by the source model; ``floats``: of these the ones whose
    scores are; ``figure``: what the verdict says, None where the run counts."""
    apart = passes_apart(answers, answers, NUMBERED, "classes", 1e-4)
    document, reasons = judge(
        answers, answers, NUMBERED, None, IDS, 1e-3, apart=apart, exact=exact, exact_labels=exact_labels
    )
    found = document["from_source"]
    assert found["beyond_tolerance"] == counted and found.get("floats", {}).get("beyond_tolerance") == floats
    assert [(one.check, one.figure) for one in reasons] == (
        [] if figure is None else [("evaluate.from_source", figure)]
    )


def test_what_the_verdict_says_of_floats_is_how_far_they_are_apart() -> None:
    """And not that numbers are others, which have no distance."""
    answers = numbered([1, 2, 0], 0.5, 1, 1)
    apart = passes_apart(answers, answers, NUMBERED, "classes", 1e-4)
    document, (reason,) = judge(
        answers, answers, NUMBERED, None, IDS, 1e-3, apart=apart, exact=True, exact_labels=False
    )
    assert document["from_source"]["largest_ratio"] is None
    assert document["from_source"]["floats"] == {
        "compared": 3, "beyond_tolerance": 1, "largest_ratio": 0.5, "samples": [0], "left_out": 0,
    }  # fmt: skip
    assert "(by up to 0.5 of the largest value, 0.001 is allowed): 0" in reason.text


def test_of_scores_alone_nothing_is_told_twice() -> None:
    """A model without class numbers has one comparison, wherever it computes."""
    asked, source = all_or_none(True), {"scores": np.eye(3) * 2}
    apart = passes_apart(asked, asked, source, "classes", 1e-4)
    document, (reason,) = judge(
        asked, asked, source, None, IDS, 1e-3, apart=apart, exact=True, exact_labels=False
    )
    assert "floats" not in document["from_source"] and reason.figure == 3


#: What a detector finds in three pictures: two classes, whose scores are almost the same in the first one.
DETECTED: Arrays = {
    "labels": np.array([[1, 2]] * 3),
    "scores": np.array([[0.800001, 0.8], [0.9, 0.5], [0.7, 0.3]], np.float32),
    "boxes": np.array([[[0, 0, 10, 10], [50, 60, 80, 90]]] * 3, np.float32),
}


def detected(*changed: int, **outputs: NDArray[Any]) -> Asked:
    """These, but for pictures whose two boxes have changed places."""
    swapped = {name: array.copy() for name, array in DETECTED.items()}
    for name, array in swapped.items():
        array[list(changed)] = DETECTED[name][list(changed)][:, ::-1]
    return Asked(swapped | outputs, np.full(3, True), np.full(3, 1.0), {}, 1)


@pytest.mark.parametrize(
    ("answers", "exact_labels", "floats", "figure"),
    [
        # The first picture's boxes change places with their classes: right, and it is said of how many.
        (detected(0), False, (3, 0, 1), None),
        # Where scores are far apart that has another reason than rounding.
        (detected(0, 1, 2), False, (3, 2, 3), 2),
        # Other classes everywhere do not hide that all the rest is wrong.
        (detected(labels=np.full((3, 2), 77), scores=np.full((3, 2), 0.01, np.float32)), False, (3, 3, 3), 3),
        (detected(), False, (3, 0, 0), None),
        # Other boxes beside the same classes.
        (detected(boxes=DETECTED["boxes"][:, ::-1]), False, (3, 3, 0), 3),
        (detected(0), True, None, 1),
    ],
)
def test_two_boxes_of_one_score_may_change_places_with_their_classes(
    answers: Asked, exact_labels: bool, floats: tuple[int, int, int] | None, figure: int | None
) -> None:
    """Rows that follow classes are held only where the classes are the source's, scores always; samples of which rows
    are left out are counted."""
    apart = passes_apart(answers, answers, DETECTED, "values", 1e-4)
    document, reasons = judge(
        answers, answers, DETECTED, None, IDS, 1e-3,
        apart=apart, exact=True, exact_labels=exact_labels, meaning="values",
    )  # fmt: skip
    found = document["from_source"].get("floats")
    told = found and (found["compared"], found["beyond_tolerance"], found["left_out"])
    assert told == floats and [reason.figure for reason in reasons] == ([] if figure is None else [figure])


def test_of_no_floats_nothing_is_said() -> None:
    """A model that gives classes alone has none to compare; others are told, and no reason where they may be."""
    source: Arrays = {"label": np.arange(3)}
    answers = Asked({"label": np.array([0, 2, 2])}, np.full(3, True), np.full(3, 1.0), {}, 1)
    apart = passes_apart(answers, answers, source, "classes", 1e-4)
    for exact_labels in (False, True):
        document, reasons = judge(
            answers, answers, source, None, IDS, 1e-3, apart=apart, exact=True, exact_labels=exact_labels
        )
        assert "floats" not in document["from_source"] and document["from_source"]["beyond_tolerance"] == 1
        assert [reason.figure for reason in reasons] == ([1] if exact_labels else [])
