"""Evaluations in a real PerfDB: over REST with the client, by the commands, and on the pages."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.analysis.evaluations.found import evaluations
from inferbench_tasks.cli.main import main
from inferbench_tasks.client import InferBench
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.analysis.evaluations.builders import answers, evaluated
from tests.unit.analysis.evaluations.test_together import part
from tests.unit.analysis.report.test_varied import VARIED
from tests.unit.perfdb.builders import result

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
NAMED = ["plain", "resize: nearest", "crop: 0.5"]
WRONG = {"good": {3}, "bad": {3, 4, 5, 6, 7, 8, 9}, "other": {1}}


def seed(db: PerfDB, folder: Path) -> None:
    """Two runs on the same samples, one on others, one that was not evaluated."""
    for name, wrong in WRONG.items():
        path = folder / f"{name}.parquet"
        pq.write_table(answers(wrong), path)
        stored = db.files.put(path, "answers.parquet", run_id=name)
        digest = ("bb" if name == "other" else "aa") * 32
        device = {"kind": "gpu" if name == "other" else "cpu", "name": "x"}
        evaluation = {"answers": stored.model_dump(), "dataset": "others" if name == "other" else "coins"}
        evaluation |= {"varied": VARIED} if name == "good" else {}
        db.save_result(evaluated(name, wrong, digest, device=device, evaluation=evaluation))
    db.save_result(result("plain"))


def test_over_rest(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """Lists by model, data set and device; one with a part of its samples; two in pairs; CSV."""
    seed(perfdb, tmp_path)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    assert {row["run"] for row in bench.evaluations()} == {*WRONG}
    assert {row["run"] for row in bench.evaluations(dataset="coins")} == {"good", "bad"}
    assert [row["run"] for row in bench.evaluations("device=gpu")] == ["other"]
    assert list(bench.evaluations("model=nobody")) == []
    assert len(list(bench.evaluations(limit=2))) == 2
    (row,) = (row for row in bench.evaluations() if row["run"] == "bad")
    assert row["measures"]["top1_ratio"]["value"] == pytest.approx(0.65)
    one = bench.evaluation("bad", only="wrong", limit=3)
    assert (one["count"], [each["sample"] for each in one["samples"]], one["next_offset"]) == (
        7,
        [9, 8, 7],
        3,
    )
    assert one["varied"] == []
    assert [each["variant"] for each in bench.evaluation("good")["varied"]] == NAMED
    assert one["document"]["dataset"] == "coins" and len(bench.evaluation("bad")["samples"]) == 20
    found = bench.compare_evaluations("good", "bad", limit=2)
    assert (found["differ"], len(found["differing"]), found["next_offset"]) == (6, 2, 2)
    top1 = next(each for each in found["measures"] if each["measure"] == "top1_ratio")
    assert top1["p_value"] == pytest.approx(2 * 0.5**6)
    text = http.get("/inferbench/api/evaluations", params={"format": "csv"}).text
    assert {each["run"]: each["top1_ratio"] for each in csv.DictReader(text.splitlines())}["good"] == "0.95"


def test_data_sets_are_found_by_the_names_that_submissions_have(
    perfdb: PerfDB, perfdb_uri: str, http: TestClient, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Generated words, whose results say that they are, and the user's folder by what it is or is called: over REST, by
    the command, on the page, where each name stands once."""
    for run, asked, stored in (
        ("drawn", "words", "words (generated)"), ("mine", "folder", "photographs"), ("own", None, "digits"),
    ):  # fmt: skip
        job = {"evaluate": {"dataset": asked}}
        known = {"dataset": stored, "data": {"generated": asked == "words"}}
        perfdb.save_result(evaluated(run, {3}, provenance={"job": job}, evaluation=known))
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    found = {
        name: [row["run"] for row in bench.evaluations(dataset=name)]
        for name in ("words", "words (generated)", "folder", "photographs", "digits", "shapes")
    }
    assert found == {
        "words": ["drawn"], "words (generated)": ["drawn"], "folder": ["mine"], "photographs": ["mine"],
        "digits": ["own"], "shapes": [],
    }  # fmt: skip
    page = http.get("/inferbench/evaluations", params={"dataset": "words"}).text
    assert page.count("20 samples of words (generated)") == page.count("(generated)") == 1
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    with pytest.raises(SystemExit):
        main(["evaluations", "list", "--dataset", "words", "-o", "json"])
    assert [row["run"] for row in json.loads(capsys.readouterr().out)] == ["drawn"]


def save_part(
    db: PerfDB, folder: Path, run: str, invocation: str | None, number: int, of: int = 2, verdict: str = "valid",
    failed: bool = False, attempt: int = 1, labelled: bool = True, **more: Any,
) -> None:  # fmt: skip
    """The result of a part of the twenty samples, without answers where it failed."""
    result, table = part(number, of, invocation_id=invocation, verdict=verdict, **more)
    if not labelled:
        at = table.column_names.index("label")
        table = table.set_column(at, "label", pa.nulls(table.num_rows, pa.int64()))
    if failed:
        result.extensions.clear()
    else:
        path = folder / f"{run}.parquet"
        pq.write_table(table, path)
        stored = db.files.put(path, "answers.parquet", run_id=run)
        result.extensions["evaluation"]["answers"] = stored.model_dump()
    db.save_result(result.model_copy(update={"run_id": run, "attempt": attempt}))


def test_parts_are_one_evaluation_wherever_they_are_listed(
    perfdb: PerfDB, http: TestClient, tmp_path: Path
) -> None:
    """One row over all samples over REST and on the page, found by its worst part's verdict, and paired as one; where a
    part failed there is no figure, and the row says which. A part whose others nobody asked stands by itself."""

    save = partial(save_part, perfdb, tmp_path)
    for number in (1, 2):
        save(f"whole.{number}", "whole", number)
        save(f"late.{number}", "late", number, verdict="invalid: late" if number == 2 else "valid")
        save(
            f"broken.{number}",
            "broken",
            number,
            verdict="failed: load, it broke" if number == 2 else "valid",
            failed=number == 2,
        )
    save("single.1", "single", 1, 3)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = {row["run"]: row for row in bench.evaluations()}
    assert {run: (row["parts"], row["part"], row["verdict"]) for run, row in rows.items()} == {
        "whole.1": (2, None, "valid"),
        "late.1": (2, None, "invalid: part 2/2: late"),
        "broken.1": (2, None, "failed: load, part 2/2: it broke"),
        "single.1": (None, "1/3", "valid"),
    }
    assert rows["whole.1"]["measures"]["top1_ratio"]["value"] == 0.8 and rows["whole.1"]["samples"] == 20
    assert rows["broken.1"]["measures"] == {}
    assert rows["broken.1"]["withheld"] == (
        "no figure of all: part 2/2 (failed: load, it broke) has no answers"
    )
    assert {row["run"] for row in bench.evaluations("verdict=valid")} == {"whole.1", "single.1"}
    assert {row["run"] for row in bench.evaluations("verdict=invalid")} == {"late.1"}
    # Of each part 18 of 20 right, as is told by hand; of all together 16.
    assert {row["run"] for row in bench.evaluations("top1_ratio<=0.85")} == {"whole.1", "late.1"}
    assert {row["run"] for row in bench.evaluations("top1_ratio>0.85")} == {"single.1"}
    assert {row["run"] for row in bench.evaluations("top1_ratio<=0.85 verdict=valid")} == {"whole.1"}
    alone = bench.compare_evaluations("whole.1", "broken.1")
    assert alone["samples"] == 10 and alone["sentences"][0].startswith("These are parts 1/2 alone")
    pages = [
        http.get("/inferbench/api/evaluations", params={"limit": 1, "offset": at}).json() for at in range(4)
    ]
    assert {each["items"][0]["run"] for each in pages} == {*rows}
    assert [each["next_offset"] for each in pages] == [1, 2, 3, None]
    page = http.get("/inferbench/evaluations").text
    assert page.count("and the other parts, 2 in all") == 3 and "part 1/3 alone" in page
    assert bench.compare_evaluations("whole.2", "late.1")["samples"] == 20
    refused = http.get("/inferbench/api/evaluations/together", params={"run": ["broken.1"]})
    assert refused.status_code == 422 and "part 2/2 (failed: load, it broke) has no answers" in refused.text
    pair = http.get("/inferbench/api/evaluations/compare", params={"run": ["whole.1", "whole.2"]})
    assert pair.status_code == 422 and "parts of one evaluation" in pair.text


def test_parts_that_nobody_asked_all_of_stand_by_themselves(
    perfdb: PerfDB, http: TestClient, tmp_path: Path
) -> None:
    """Two of four by hand are two rows, compared with their like; one of four that a submission asked for is withheld;
    parts whose last attempts all failed are rows of their earlier ones; an odd one ends no list."""
    save = partial(save_part, perfdb, tmp_path)
    for number in (1, 2):
        save(f"hand.{number}", "hand", number, 4)
        save(f"again.{number}", "again", number)
        save(f"again.{number}", "again", number, verdict="failed: load, it broke", failed=True, attempt=2)
        save(f"odd.{number}", "odd", number)
    save("other.1", "other", 1, 4)
    perfdb.start_run("planned.1", "planned", "job", {"name": "s"})
    perfdb.keep_submission("planned", {"name": "s", "evaluate": {"parts": 4}})
    save("planned.1", "planned", 1, 4)
    perfdb.collection("results").update_one(
        {"run_id": "odd.2"}, {"$unset": {"extensions.evaluation.answers": ""}}
    )
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = {row["run"]: row for row in bench.evaluations()}
    assert {run: (row["parts"], row["part"], row["attempt"]) for run, row in rows.items()} == {
        "hand.1": (None, "1/4", 1), "hand.2": (None, "2/4", 1), "other.1": (None, "1/4", 1),
        "again.1": (None, "1/2", 1), "again.2": (None, "2/2", 1), "odd.1": (2, None, 1), "planned.1": (4, None, 1),
    }  # fmt: skip
    assert "2/4 (no result yet)" in rows["planned.1"]["withheld"] and "KeyError" in rows["odd.1"]["withheld"]
    assert bench.compare_evaluations("hand.1", "other.1")["samples"] == 5


def top1(right: float) -> dict[str, Any]:
    """What a part of ten samples says of these."""
    measures = {"top1_ratio": {"value": right, "ci95": None}}
    return {"samples": 10, "under_load": {"unanswered": 0, "measures": measures}}


def test_a_part_by_hand_is_compared_with_that_part_of_a_whole(
    perfdb: PerfDB, http: TestClient, tmp_path: Path
) -> None:
    """1/2 by hand and the whole of `parts: 2` have other samples, so that 1/2 of both makes the pairs, and the first
    sentence says why: two of ten samples are lost, McNemar's p is 2 x 0.5^2. With the other part there are none."""
    save = partial(save_part, perfdb, tmp_path)
    for number in (1, 2):
        save(f"whole.{number}", "whole", number, evaluation=top1(0.8))
    save("hand.1", "hand", 1, wrong=set(), evaluation=top1(1.0))
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    for runs, difference in ((("hand.1", "whole.1"), -0.2), (("whole.1", "hand.1"), 0.2)):
        found = bench.compare_evaluations(*runs)
        assert (found["runs"], found["samples"], found["differ"]) == ([*runs], 10, 2)
        (row,) = found["measures"]
        assert row["difference"] == pytest.approx(difference) and row["p_value"] == pytest.approx(0.5)
        assert found["sentences"][0] == (
            "These are parts 1/2 alone, for there is no whole of both: hand.1 stands without its other parts."
        )
    other = http.get("/inferbench/api/evaluations/compare", params={"run": ["hand.1", "whole.2"]})
    assert other.status_code == 422 and "only the same samples make pairs" in other.text


def test_parts_are_compared_where_nothing_tells_that_the_wholes_are_the_same(
    perfdb: PerfDB, http: TestClient, tmp_path: Path
) -> None:
    """Two models' own data without labels: of a part there is a digest of its samples, of the whole there is none."""
    for invocation in ("one", "two"):
        for number in (1, 2):
            model = {"name": "resnet50", "source_digest": invocation}
            save_part(
                perfdb, tmp_path, f"{invocation}.{number}", invocation, number, labelled=False, model=model
            )
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    found = bench.compare_evaluations("one.2", "two.2")
    assert found["samples"] == 10 and found["sentences"][0].startswith("These are parts 2/2 alone")
    assert "no digest tells which samples" in found["sentences"][0]


def test_a_part_of_no_invocation_is_no_whole(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """It is said of what it is a part; brought here from elsewhere it is a row of its own."""
    save_part(perfdb, tmp_path, "brought", None, 1)
    refused = http.get("/inferbench/api/evaluations/together", params={"run": ["brought"]})
    assert refused.status_code == 422
    assert "these are 1/2: of 2 parts each has to be there once" in refused.text
    assert [row["part"] for row in evaluations(perfdb)] == ["1/2"]


def test_a_whole_that_is_withheld_is_read_once(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a query on its figures, its row and all later lists together; again each time where its answers could not be
    read, for they may be there the next time."""
    read: list[str] = []
    really = PerfDB.get_result

    def counted(db: PerfDB, run: str, attempt: int | None = None) -> ResultDocument:
        read.append(run)
        return really(db, run, attempt)

    for invocation in ("broken", "lost"):
        for number in (1, 2):
            failed = invocation == "broken" and number == 2
            verdict = "failed: load, it broke" if failed else "valid"
            run = f"{invocation}.{number}"
            save_part(perfdb, tmp_path, run, invocation, number, verdict=verdict, failed=failed)
    lost = perfdb.get_result("lost.1").extensions["evaluation"]["answers"]
    perfdb.files.delete(lost["id"])
    monkeypatch.setattr(PerfDB, "get_result", counted)
    for times in (1, 2):
        rows = {row["run"]: row["withheld"] for row in evaluations(perfdb, "top1_ratio=none")}
        assert "part 2/2 (failed: load, it broke) has no answers" in rows["broken.1"]
        assert "has no file" in rows["lost.1"]
        assert (read.count("broken.1"), read.count("broken.2")) == (1, 1)
        assert (read.count("lost.1"), read.count("lost.2")) == (times, times)


def test_what_can_t_be_answered(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """Not evaluated, other samples, one run, a bound that is too large: said, no 500."""
    seed(perfdb, tmp_path)
    for path, words in (
        ("/evaluations/plain", "was not evaluated"), ("/evaluations/nobody", "nobody"),
        ("/evaluations/good?only=some", "otherwise"), ("/evaluations/good?limit=501", "500"),
        ("/evaluations/compare?run=good&run=other", "only the same samples make pairs"),
        ("/evaluations/compare?run=good", "two different runs"), ("/evaluations?q=modell=x", "Unknown field"),
        ("/evaluations/compare?run=good&run=plain", "was not evaluated"),
    ):  # fmt: skip
        answer = http.get(f"/inferbench/api{path}")
        assert answer.status_code in (404, 422) and words in answer.text, (path, answer.text)


def test_on_the_pages(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """The list has each run with its measures, the filter narrows it, pairs name the samples; problems are said."""
    seed(perfdb, tmp_path)
    page = http.get("/inferbench/evaluations").text
    assert all(f'value="{name}"' in page for name in WRONG) and "20 samples of coins" in page
    assert "of the newest 500 that match" in page
    narrowed = http.get("/inferbench/evaluations", params={"dataset": "others"}).text
    assert 'value="other"' in narrowed and 'value="good"' not in narrowed
    pairs = http.get("/inferbench/evaluations/compare", params={"run": ["good", "bad"]}).text
    assert "They answer 6 of 20 samples otherwise." in pairs and "McNemar, exact" in pairs
    assert (
        'role="alert"' in http.get("/inferbench/evaluations/compare", params={"run": ["good", "other"]}).text
    )
    assert 'role="alert"' in http.get("/inferbench/evaluations", params={"q": "modell=x"}).text


def test_parts_as_one(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """One run of two stands for both: 16 of 20 right, over REST, as CSV and on the page; what is no part is said."""
    for number in (1, 2):
        found, table = part(number, invocation_id="two")
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path)
        stored = perfdb.files.put(path, "answers.parquet", run_id=found.run_id)
        found.extensions["evaluation"]["answers"] = stored.model_dump()
        perfdb.save_result(found)
    seed(perfdb, tmp_path)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    assert bench.evaluation_together("part-1")["measures"]["top1_ratio"]["value"] == 0.8
    page = http.get("/inferbench/evaluations/together?run=part-1").text
    assert "20 samples in 2 parts" in page and "/inferbench/run/part-2" in page and ">0.8<" in page
    assert "what it needs of each sample is not kept" in page
    refused = http.get("/inferbench/evaluations/together?run=good").text
    assert 'role="alert"' in refused and "asked all of its samples" in refused
    assert "Give one run" in http.get("/inferbench/evaluations/together").text


def test_pages_of_data_sets(perfdb: PerfDB, http: TestClient) -> None:
    """The list has those that are named and those that models bring; one has its version, classes, licence, measures
    with their formulas and results; of the user's data nothing is made up, and an unknown name is said.
    """
    job = {"evaluate": {"dataset": "words"}}
    perfdb.save_result(
        evaluated("read", {3}, provenance={"job": job}, evaluation={"dataset": "words (generated)"})
    )
    text = http.get("/inferbench/datasets").text
    assert "/inferbench/dataset/words" in text and "Those that models bring" in text
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    known = bench.dataset("words")
    (version,) = known["versions"]
    page = http.get("/inferbench/dataset/words").text
    assert f"words@{version['version']}" in page and version["samples_sha256"] in page
    assert all(f">{metric['name']}<" in page and metric["formula"] for metric in known["metrics"])
    assert "/inferbench/run/read" in page
    assert "It has no manifest" in http.get("/inferbench/dataset/folder").text
    answer = http.get("/inferbench/dataset/wordz")
    assert answer.status_code == 404 and "did you mean &#39;words&#39;" in answer.text
    assert http.get("/inferbench/api/datasets/wordz").status_code == 404


def test_by_the_commands(
    perfdb: PerfDB,
    perfdb_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same rows, samples and pairs; a kind of samples that there is none of is refused."""
    seed(perfdb, tmp_path)

    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)

    def told(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["evaluations", *arguments])
        assert ended.value.code == code
        out, err = capsys.readouterr()
        return err if code else out

    assert {row["run"] for row in json.loads(told("list", "--dataset", "coins", "-o", "json"))} == {
        "good",
        "bad",
    }
    head, _, *lines = told("list", "--dataset", "coins").splitlines()
    assert head.split()[0] == "run" and "answers_digest" not in head
    assert {line.split()[0]: float(line.split()[head.split().index("value")]) for line in lines} == {
        "good": 0.95,
        "bad": 0.65,
    }
    document = json.loads(told("show", "bad", "--only", "wrong", "-n", "2", "-o", "json"))
    assert (document["count"], len(document["samples"])) == (7, 2)
    assert json.loads(told("compare", "good", "bad", "-o", "json"))["differ"] == 6
    assert "McNemar" in told("compare", "good", "bad")
    shown = json.loads(told("show", "good", "-o", "json"))["varied"]
    assert [each["variant"] for each in shown] == NAMED and shown[1]["p_value"] == 0.219
    assert "resize: nearest" in told("show", "good")
    assert "known: all, wrong" in told("show", "bad", "--only", "some", code=2)


def test_the_table_of_systems(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """Over REST, as CSV and on its page: the same rows; a model that nobody ran is said."""
    seed(perfdb, tmp_path)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = bench.systems()
    assert {row["measure"] for row in rows} == {"top1_ratio", None}
    text = http.get("/inferbench/api/systems", params={"format": "csv"}).text
    assert len(list(csv.DictReader(text.splitlines()))) == len(rows)
    assert "Models by system" in http.get("/inferbench/systems").text
    answer = http.get("/inferbench/api/systems", params={"model": "vgg"})
    assert answer.status_code == 422 and "no valid run of vgg" in answer.text
