"""The report's section on answers, from made-up tables whose figures are known."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from inferbench_tasks.analysis.report import answers, matrices
from inferbench_tasks.analysis.report.runs import RunView
from tests.unit.analysis.builders import view

PART: dict[str, Any] = {
    "unanswered": 0,
    "failures": {},
    "measures": {"top1_ratio": {"value": 0.9, "ci95": [0.8, 0.95], "method": "Wilson"}},
    "left_out": {},
}


def run(name: str, wrong: set[int], samples: int = 40, dataset: str = "digits", **part: Any) -> RunView:
    """A run that answered these samples wrongly."""
    table = pa.table(
        {
            "sample": list(range(samples)),
            "label": [at % 10 for at in range(samples)],
            "answer": [(at + (at in wrong)) % 10 for at in range(samples)],
            "score": [at / 100 for at in range(samples)],
        }
    )
    document = {
        "dataset": dataset,
        "samples": samples,
        "under_load": {**PART, **part},
        "one_by_one": PART,
        "differing": {
            "compared": samples, "bound_ratio": 0.02, "beyond_tolerance": 1, "other_class": 2, "otherwise": 2,
            "largest_ratio": 0.5, "samples": [7, 4],
        },
        "confusion": {"classes": [0, 1], "counts": [[20, 0], [2, 18]]},
    }  # fmt: skip
    made = view(None, name)
    assert made.result is not None
    made.result.extensions["evaluation"] = document
    made.answers = lambda: table
    return made


def test_a_run_without_the_block_has_no_section() -> None:
    """Nothing is listed or said of runs whose answers nobody judged."""
    plain = [view(None, "a")]
    assert answers.tables(plain) == [] and answers.words(plain) == ""


def test_measures_stand_with_their_intervals() -> None:
    """Each run's row has value, interval, the one by one beside it, and the samples that differ, by class or beyond the
    bound, which stands there with the largest difference."""
    (measures, *_) = answers.tables([run("a", {3})])
    assert measures["head"] == ["run", "top-1", "top-1 one by one", "answered otherwise under load"]
    cell = "90.00% (80.00% to 95.00%)"
    otherwise = "2 of 40 (samples 7, 4); largest difference 0.5, bound 0.02"
    assert measures["rows"] == [["a", cell, cell, otherwise]]
    assert "earlier versions" not in measures["note"]


def test_results_of_earlier_versions_were_held_to_the_conversion_s_bound() -> None:
    """It stands beside their count, and the note says that it is another one."""
    old = run("a", {3})
    assert old.result is not None
    old.result.extensions["evaluation"] |= {
        "differing": {"compared": 40, "beyond_tolerance": 1, "largest_ratio": None, "samples": [7]},
        "tolerance_ratio": 0.3,
    }
    (measures, *_) = answers.tables([old])
    assert measures["rows"][0][-1] == "1 of 40 (samples 7); largest difference beyond all numbers, bound 0.3"
    assert "Of results of earlier versions it is the bound on a conversion's difference" in measures["note"]


def test_two_runs_are_compared_sample_by_sample() -> None:
    """Twelve samples lost and none gained: 30 points, with McNemar's p of 2 x 0.5^12."""
    tables = answers.tables([run("a", set()), run("b", set(range(12)))])
    pairs = next(table for table in tables if table["title"].startswith("Against a"))
    (row,) = pairs["rows"]
    assert row[:3] == ["b", "0", "12"]
    assert row[3].startswith("-30.00 (")
    assert row[4:6] == ["0.00049", "loses 30.00 points"]
    assert row[6].startswith("-") and " to " in row[6]


def test_other_samples_are_not_compared() -> None:
    """Runs over other data or another number of samples have no pairs."""
    for other in (run("b", {1}, samples=20), run("b", {1}, dataset="other")):
        assert not [t for t in answers.tables([run("a", set()), other]) if t["title"].startswith("Against")]


def test_the_same_names_and_labels_of_other_content_are_not_compared() -> None:
    """clean/val.csv and noisy/val.csv are other samples; a result without the digest is not compared, and says so."""

    def told(name: str, digest: str | None) -> RunView:
        made = run(name, {1}, dataset="val")
        assert made.result is not None
        data = {"name": "val", "left_out": 0, **({"digest": digest} if digest else {})}
        made.result.extensions["evaluation"]["data"] = data
        return made

    def compared(*views: RunView) -> bool:
        return any(table["title"].startswith("Against") for table in answers.tables(views))

    assert compared(told("a", "1"), told("b", "1"))
    assert not compared(told("a", "1"), told("b", "2"))
    assert not compared(told("a", None), told("b", None))
    assert (
        "b does not say which content of val it saw"
        in answers.tables([told("a", "1"), told("b", None)])[0]["note"]
    )


def test_a_model_s_own_data_is_told_by_the_digest_of_what_was_asked() -> None:
    """Another version of the data has the same name, ids and labels; results of before the digest count as the same."""

    def compared(*digests: str | None) -> bool:
        views = [run(name, {1}) for name in "ab"]
        for view_, digest in zip(views, digests, strict=True):
            assert view_.result is not None
            view_.result.extensions["evaluation"] |= {"samples_digest": digest} if digest else {}
        return any(table["title"].startswith("Against") for table in answers.tables(views))

    assert compared("1", "1") and compared("1", None) and compared(None, None)
    assert not compared("1", "2")


def test_runs_without_labels_are_compared_by_their_agreement() -> None:
    """int8 agrees with its source in twelve samples fewer: the same 30 points with McNemar's p, and no macro F1. Other
    source models make no pairs, and labels are what counts where there are some."""

    def unlabelled(name: str, wrong: set[int], shift: int = 0, labelled: bool = False) -> RunView:
        made = run(name, wrong)
        table = made.answers() if made.answers else None
        assert table is not None
        source = pa.array([(at + shift) % 10 for at in range(40)])
        table = table.append_column("answer_source", source)
        if not labelled:
            table = table.set_column(1, "label", pa.nulls(40, pa.int64()))
        made.answers = lambda: table
        return made

    def pairs(*views: RunView) -> list[dict[str, Any]]:
        return [table for table in answers.tables(views) if table["title"].startswith("Against")]

    (table,) = pairs(unlabelled("a", set()), unlabelled("b", set(range(12))))
    assert table["title"] == "Against a, agreement with the source model, sample by sample"
    (row,) = table["rows"]
    assert row[:3] == ["b", "0", "12"] and row[4:] == ["0.00049", "loses 30.00 points"]
    assert len(row) == len(table["head"]) and table["note"].endswith("there are no labels.")
    assert pairs(unlabelled("a", set()), unlabelled("b", {1}, shift=1)) == []
    (table,) = pairs(unlabelled("a", set(), labelled=True), unlabelled("b", {1}, labelled=True))
    assert table["title"] == "Against a, sample by sample"


def test_images_of_training_are_said_to_be() -> None:
    """A reader of the accuracy learns that models are usually trained on these samples."""
    made = run("a", set(), dataset="mnist-5k")
    assert made.result is not None
    made.result.extensions["evaluation"]["data"] = {"name": "mnist-5k", "training": True, "digest": "1"}
    assert "mnist-5k has images that models are usually trained on" in answers.tables([made])[0]["note"]


def test_samples_that_loadgen_asked_are_said_to_be() -> None:
    """In which mode, that it was a test of its own, and whether its own log has the answers that are judged."""

    def note(unanswered: int = 0, errors: tuple[str, ...] = (), **apart: int) -> str:
        made = run("a", set(), unanswered=unanswered)
        assert made.result is not None
        counts = {name: {"count": apart.get(name, 0)} for name in ("missing", "repeated", "differing")}
        said = {"version": "6.0.17 @ d6147c7eb7", "mode": "AccuracyOnly", "scenario": "Server", "logged": 40}
        made.result.extensions["evaluation"]["mlperf"] = {**said, **counts, "errors": [*errors]}
        text: str = answers.tables([made])[0]["note"]
        return text

    assert (
        "a was asked by MLPerf LoadGen 6.0.17 in its AccuracyOnly mode (Server), a test of its own beside the one that "
        "is timed; its accuracy log has each of 40 samples once, with the answer that is judged. No MLPerf result."
    ) in note()
    assert "other answers or samples than are judged (1 missing, 2 differing)" in note(missing=1, differing=2)
    assert "with the answer that is judged, or with none (3, whose requests failed). No MLPerf" in note(3)
    assert "judged; LoadGen itself found errors (error_runtime). No MLPerf" in note(errors=("error_runtime",))
    assert "LoadGen" not in answers.tables([run("a", set())])[0]["note"]


def test_what_was_withheld_is_said_where_the_figure_would_be() -> None:
    """A run with samples that got no answer shows the reason, not a share of the others."""
    one = run("a", set())
    two = run("b", set(), withheld="1 of 40 samples got no answer", measures={})
    rows = answers.tables([one, two])[0]["rows"]
    assert rows[1][1] == "1 of 40 samples got no answer"


def test_the_surest_mistakes_come_first() -> None:
    """The wrong answers with the largest scores, five of each run."""
    mistakes = answers.tables([run("a", {1, 5, 9, 20, 30, 31})])[-1]
    assert [row[1] for row in mistakes["rows"]] == ["31", "30", "20", "9", "5"]


def test_mistakes_that_are_not_listed_are_said() -> None:
    """Five of each run, of the first 16 runs: of 17 the last has none in the table, and its note says so."""
    (several,) = [each for each in answers.tables([run("a", {1})]) if each["title"] == "Surest mistakes"]
    assert "at most 5" in several["note"] and "runs are looked at" not in several["note"]
    many = [run(f"r{at}", {1}) for at in range(17)]
    table = answers.tables(many)[-1]
    assert [row[0] for row in table["rows"]] == [f"r{at}" for at in range(16)]
    assert table["note"].endswith("The first 16 of 17 runs are looked at.")


def test_a_mistake_without_a_number_is_none_of_the_surest() -> None:
    """A NaN among the scores neither stands in the list nor breaks its order."""
    made = run("a", {1, 5, 9, 20, 30, 31})
    table = made.answers()  # type: ignore[misc]
    scores = [float("nan") if at in (9, 30) else at / 100 for at in range(40)]
    changed = table.set_column(3, "score", pa.array(scores, from_pandas=False))
    made.answers = lambda: changed
    assert [row[1] for row in answers.tables([made])[-1]["rows"]] == ["31", "20", "5", "1"]


def test_classes_are_shown_as_counted() -> None:
    """Rows are classes, columns answers; a cell is as dark as its share of the class: 2 of 20 are a tenth."""
    (table,) = matrices.tables([run("a", set())])
    assert table["head"] == ["class of the sample", "as 0", "as 1"]
    assert table["rows"] == [["0", "20", "0"], ["1", "2", "18"]]
    assert table["shares"] == [[1.0, 0.0], [0.1, 0.9]]


def test_of_many_classes_the_confused_ones_are_listed() -> None:
    """Thirty classes of ten samples: of class 3 four were answered as 5, of class 7 one as 8; no more is told."""
    counts = [[10 * (row == column) for column in range(30)] for row in range(30)]
    counts[3][3], counts[3][5], counts[7][7], counts[7][8] = 6, 4, 9, 1
    one = run("a", set())
    assert one.result is not None
    one.result.extensions["evaluation"]["confusion"] = {"classes": list(range(30)), "counts": counts}
    (table,) = matrices.tables([one])
    assert table["title"] == "Classes that were taken for others, of 30"
    assert table["rows"] == [["3", "5", "4", "40.0%"], ["7", "8", "1", "10.0%"]]
    assert table["note"].startswith("All pairs: 2.")


def confused(classes: list[int], counts: list[list[int]]) -> list[dict[str, Any]]:
    """The tables of a run with this confusion."""
    one = run("a", set())
    assert one.result is not None
    one.result.extensions["evaluation"]["confusion"] = {"classes": classes, "counts": counts}
    return matrices.tables([one])


def test_an_answer_that_names_no_class_is_no_class() -> None:
    """The number -1 among the answers is the last column, "as no class", and no row; a class of which nothing else was
    answered has it too, and among many classes it is what a sample was answered as.
    """
    (table,) = confused([-1, 0, 1], [[0, 0, 0], [3, 17, 0], [0, 2, 18]])
    assert table["head"] == ["class of the sample", "as 0", "as 1", "as no class"]
    assert table["rows"] == [["0", "17", "0", "3"], ["1", "2", "18", "0"]]
    assert table["shares"] == [[0.85, 0.0, 0.15], [0.1, 0.9, 0.0]] and table["numbers"] == [1, 2, 3]
    (table,) = confused([-1, 0], [[0, 0], [3, 17]])
    assert table["rows"] == [["0", "17", "3"]]
    counts = [[9 * (row == column) for column in range(31)] for row in range(31)]
    counts[0][0], counts[5][0] = 0, 1
    (table,) = confused(list(range(-1, 30)), counts)
    assert table["title"] == "Classes that were taken for others, of 30"
    assert table["rows"] == [["4", "no class", "1", "10.0%"]]


def test_of_many_classes_that_were_all_right_there_is_no_table() -> None:
    """None of 0 pairs."""
    assert (
        confused(list(range(30)), [[10 * (row == column) for column in range(30)] for row in range(30)]) == []
    )


def test_of_many_pairs_the_most_frequent_are_listed() -> None:
    """Thirty classes each of which was once taken for the next: 25 of 30 pairs."""
    shifted = [[(column - row) % 30 in (0, 1) and 1 for column in range(30)] for row in range(30)]
    (table,) = confused(list(range(30)), shifted)
    assert len(table["rows"]) == 25 and table["note"].startswith("The 25 most frequent of 30 pairs")


def test_runs_whose_classes_are_not_shown_are_counted() -> None:
    """Of six runs, one of them without classes, the first four with some are shown, and the last table says so."""
    runs = [run(name, set()) for name in "abcdef"]
    assert runs[1].result is not None
    del runs[1].result.extensions["evaluation"]["confusion"]
    shown = matrices.tables(runs)
    assert [table["title"][-1] for table in shown] == ["a", "c", "d", "e"]
    assert shown[-1]["note"].endswith(
        " The 4 first of 5 runs with classes; all counts are in the result as JSON."
    )
    assert not any("first of" in table["note"] for table in (*shown[:-1], *matrices.tables(runs[:5])))
