"""Bricks over REST, in commands and as a page, on a real PerfDB: what each says is calculated by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.facts import BrickFacts, facts_of, with_network
from inferbench_tasks.brick_jobs.known_bricks import network_of, put_bricks
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.study_times import Member, times_of
from inferbench_tasks.brick_jobs.summary import summary
from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.cli.bricks import app
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import Provenance, SubmissionInfo
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui.bricks import predicted
from tests.unit.bricks.graphs import image, residual

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/bricks"
SETTING = Setting(processor="Some CPU", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
KEY = "ab" * 32
#: Milliseconds of each brick; each model's bricks, and its own milliseconds: factors of 2, 2, 2 and 4 over the sums.
BRICKS = {"a": 1.0, "b": 3.0}
MODELS = {
    "one": (("a", "b"), 8.0),
    "two": (("a", "a"), 4.0),
    "three": (("b",), 6.0),
    "four": (("b", "b", "a"), 28.0),
}


def result(identity: str, ms: float, **more: Any) -> Result:
    times = {"warm": (ms * 1e6,) * 3} | ({} if identity.startswith(WHOLE) else {"streamed": (ms * 5e5,) * 3})
    fields = {
        "identity": identity, "key": KEY if identity == "a" else identity * 8, "operators": (f"Op{identity}",),
        "setting": SETTING, "session": "s.000/1", "method": Method(), "rounds_ns": times,
        "raw_ns": {"warm": ((1,), (2,), (3,))},
    }  # fmt: skip
    return Result.model_validate(fields | more)


def cuts() -> list[CutModel]:
    return [
        CutModel(
            at=at, name=name, copies=3 if name == "one" else 1, task=None, digest="d", batch_size=1, granularity="1",
            layers=len(parts), operators=(f"Op{WHOLE}{name}",), whole=WHOLE + name, parts=parts,
            needs=tuple((index - 1,) if index else () for index in range(len(parts))),
        )
        for at, (name, (parts, _)) in enumerate(MODELS.items())
    ]  # fmt: skip


def known() -> dict[str, Result]:
    whole = {WHOLE + name: result(WHOLE + name, ms) for name, (_, ms) in MODELS.items()}
    return {name: result(name, ms) for name, ms in BRICKS.items()} | whole


@pytest.fixture
def bricks(perfdb: PerfDB) -> PerfDBResults:
    """All of them measured, and cut as they are."""
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 1.0})
    for one in known().values():
        store.put(one)
    for one_cut in cuts():
        facts = {"model": one_cut.name, "batch_size": 1, "instruction_set": "x", "layers": one_cut.layers}
        store.put_cut(one_cut.whole, one_cut.granularity, one_cut.parts, one_cut.needs, facts)
    return store


def test_a_model_never_calibrates_itself() -> None:
    """`four` is 4 times its sum, the others twice: it is predicted at twice, they at the mean of 2, 2 and 4."""
    made = predictions(cuts(), known(), calibrate_on=3)
    [four] = made[3]
    assert four.constructed.ms == pytest.approx(7) and four.best.ms == pytest.approx(14)
    assert (
        four.measured is not None
        and four.measured.ms == pytest.approx(28)
        and four.calibrated_by == ["one", "two", "three"]
    )
    [one] = made[0]
    assert one.factor == pytest.approx(16 ** (1 / 3)) and one.best.ms == pytest.approx(4 * 16 ** (1 / 3))
    assert one.streamed.ms == pytest.approx(2) and one.by_operators[0]["share_ratio"] == pytest.approx(0.75)


def test_two_others_calibrate_nothing() -> None:
    """Two give no factor; the sums stay, with how far the three others' are off in their intervals: of `four` a factor
    of 2 each, times 3.18 (Student's of three), which is 2 to the power of 3.18 up and down."""
    made = predictions(cuts(), known(), calibrate_on=2)
    assert all(one.calibrated is None and one.best == one.uncalibrated for [one] in made.values())
    [four] = made[3]
    assert four.best.ms == four.constructed.ms == four.constructed.high_ms and four.judged_by == 3
    assert four.best.high_ms == pytest.approx(7 * 2**3.182446305284263)
    assert four.best.low_ms == pytest.approx(7 / 2**3.182446305284263)


def test_a_copy_under_another_name_calibrates_nothing() -> None:
    """The same operators in the same order: it is the same model."""
    twins = [*cuts()[:3], cuts()[0].model_copy(update={"at": 3, "name": "twin"})]
    assert predictions(twins, known(), 3)[0][0].calibrated is None


def test_a_model_without_all_of_its_bricks_has_no_prediction() -> None:
    """There is no figure that leaves some out."""
    without = {name: one for name, one in known().items() if name != "a"}
    assert set(predictions(cuts(), without, 3)) == {2}


def test_errors_and_speed_up_over_all_models() -> None:
    """Copies count in the models' time and not in the errors: (3 x 8 + 4 + 6 + 28) / (1 + 3) = 15.5."""
    [row] = summary(cuts(), known(), predictions(cuts(), known(), 3))
    assert row["speedup_ratio"] == pytest.approx(15.5)
    assert (row["bricks"], row["unique"], row["models"], row["architectures"]) == (3 * 2 + 2 + 1 + 3, 2, 6, 4)
    assert row["plain"]["geometric_mean"] == pytest.approx((0.5**3 * 0.25) ** 0.25)
    assert row["plain"]["mean_absolute_error_ratio"] == pytest.approx((3 * 0.5 + 0.75) / 4)
    assert row["plain"]["within_ratio"] == 0
    assert row["calibrated"]["models"] == 4


def facts(tmp_path: Path, key: str = KEY, **more: Any) -> BrickFacts:
    """A convolution, with a real network of its own."""
    graph = layer_graph(residual(tmp_path / "m.onnx"), image(), "source", tmp_path / "view")
    first = next(cut(graph, 1))
    made = with_network(facts_of(graph, first, 2e6, 3e6), graph, first, tmp_path)
    return made.model_copy(update={"key": key, **more})


def test_a_study_knows_its_models_times_on_each_device(bricks: PerfDBResults, perfdb: PerfDB) -> None:
    """Those of a corpus by what they are made of; by name where that is not known of what was cut, and never those of
    another version. Copies are the corpus'. A second device has one of them, one on which no model was timed as a whole
    is none. What was cut at other sizes, batches or views is not looked at."""
    other = SETTING.model_copy(update={"processor": "Other CPU"})
    bare = SETTING.model_copy(update={"processor": "Third CPU"})
    for setting, names in ((other, ("b", WHOLE + "three")), (bare, ("a", "b"))):
        store = PerfDBResults(perfdb, setting)
        store.set_base_ns({"dense": 1.0})
        for name in names:
            store.put(known()[name].model_copy(update={"setting": setting}))
    aside: dict[str, object] = {"model": "two", "batch_size": 1, "instruction_set": "x", "layers": 1}
    others: tuple[dict[str, object], ...] = (
        {"batch_size": 2},
        {"view": "portable", "instruction_set": None},
        {"precision": "int8"},
    )
    for count, more in enumerate(others, 1):
        bricks.put_cut(WHOLE + "two", "1", ("b",) * count, ((),) * count, aside | more)
    perfdb.collection("decompositions").update_one(
        {"model": "three"}, {"$set": {"model": "an older name", "made_from": ["its key"]}}
    )
    perfdb.collection("decompositions").update_one(
        {"model": "four"}, {"$set": {"made_from": ["a newer version's"]}}
    )
    members = [
        Member("one", 3, "nobody's"), Member("two", 1, None), Member("three", 1, "its key"), Member("six", 1, None),
        Member("four", 1, "an older version's"),
    ]  # fmt: skip
    rows = {one["device"]: one for one in times_of(perfdb, members)}
    assert set(rows) == {"Some CPU", "Other CPU"}
    assert [of["end_to_end_ms"] for of in rows["Some CPU"]["models"]] == pytest.approx([8, 4, 6])
    assert rows["Some CPU"]["without"] == ["six", "four"]
    assert rows["Some CPU"]["granularities"][0]["speedup_ratio"] == pytest.approx((3 * 8 + 4 + 6) / 4)
    assert [of["model"] for of in rows["Other CPU"]["models"]] == ["three"]


def test_a_brick_s_shapes_and_network_are_kept_once_and_shown(
    http: TestClient, bricks: PerfDBResults, perfdb: PerfDB, tmp_path: Path
) -> None:
    """Of one that was kept without a network it is added, and a second one is not; of others nothing is known."""
    before = http.get(f"{API}/{KEY}").json()
    assert [before[name] for name in ("inputs", "outputs", "weights", "flops", "bytes", "network")] == [
        None
    ] * 6
    whole = facts(tmp_path)
    put_bricks(perfdb, [whole.model_copy(update={"network": None})])
    assert http.get(f"{API}/{KEY}").json()["network"] is None
    with pytest.raises(InputError, match="PerfDB has no network of abababab"):
        network_of(perfdb, KEY)
    for _ in range(2):
        put_bricks(perfdb, [whole])
    one = http.get(f"{API}/{KEY[:10]}").json()
    assert one["inputs"] == [{"dtype": "float32", "shape": [1, 3, 8, 8]}]
    assert one["weights"] == [{"dtype": "float32", "shape": [4, 3, 3, 3]}]
    assert (one["flops"], one["bytes"]) == (2e6, 3e6) and len(one["models"]) == 3
    assert whole.network is not None and network_of(perfdb, KEY) == whole.network.read_bytes()
    assert perfdb.collection("fs.files").count_documents({"metadata.brick": KEY}) == 1
    unmeasured = facts(tmp_path, "cd" * 32, network=None, no_network="too large")
    put_bricks(perfdb, [unmeasured])
    found = http.get(f"{API}/{'cd' * 32}").json()
    assert found["operators"] == ["Conv"] and found["results"] == [] and found["no_network"] == "too large"


def test_the_command_shows_shapes_and_writes_the_network(
    bricks: PerfDBResults, perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With weights in it; a file that is there stays as it is, and what was never kept is said."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    put_bricks(perfdb, [facts(tmp_path)])
    to = tmp_path / "brick.onnx"
    said = CliRunner().invoke(app, ["show", KEY, "--save", str(to)])
    assert said.exit_code == 0, said.output
    assert (
        "takes float32[1, 3, 8, 8], with weights float32[4, 3, 3, 3]; gives float32[1, 4, 8, 8]"
        in said.output
    )
    assert "about 2 MFLOP, and about 3 MB moved in a run" in said.output
    [weights] = onnx.load(to).graph.initializer
    assert list(weights.dims) == [4, 3, 3, 3]
    with pytest.raises(InputError, match="is there already"):
        CliRunner().invoke(app, ["show", KEY, "--save", str(to)], catch_exceptions=False)
    with pytest.raises(InputError, match="measured before networks were kept"):
        CliRunner().invoke(app, ["show", "b" * 8, "--save", str(tmp_path / "b")], catch_exceptions=False)


def test_rest_lists_bricks_and_shows_one(http: TestClient, bricks: PerfDBResults) -> None:
    """The newest first, times in ms; one by the start of its key, with its models."""
    items = http.get(API).json()["items"]
    assert {(row["operators"], row["warm_ms"], row["streamed_ms"]) for row in items} == {
        ("Opa", 1, 0.5),
        ("Opb", 3, 1.5),
    }
    assert [row["operators"] for row in http.get(API, params={"model": "three"}).json()["items"]] == ["Opb"]
    assert http.get(API, params={"limit": 1}).json()["next_offset"] == 1
    one = http.get(f"{API}/{KEY[:10]}").json()
    assert one["key"] == KEY and {of["model"] for of in one["models"]} == {"one", "two", "four"}
    assert http.get(f"{API}/{'0' * 64}").status_code == 404
    assert http.get(f"{API}/.*").status_code == 404
    assert http.get(API, params={"device": "other"}).status_code == 422


def test_rest_predicts_from_what_is_stored(http: TestClient, bricks: PerfDBResults) -> None:
    """By the same rules as a submission: `four` at 14 ms; a model that was never cut is a 404."""
    found = http.get(f"{API}/predict", params={"model": "four", "device": "some cpu"}).json()
    assert (
        found["predicted_ms"] == pytest.approx(14) and found["coverage_ratio"] == 1 and found["missing"] == 0
    )
    assert found["measured_ms"] == pytest.approx(28) and sorted(found["calibrated_by"]) == [
        "one",
        "three",
        "two",
    ]
    assert http.get(f"{API}/predict", params={"model": "five"}).status_code == 404
    assert http.get(f"{API}/predict", params={"model": "four", "device": "gpu"}).status_code == 404
    assert http.get(f"{API}/predict", params={"model": "four", "batch_size": 2}).status_code == 404


def test_a_model_cut_in_another_view_does_not_calibrate_itself(
    http: TestClient, bricks: PerfDBResults
) -> None:
    """`four` was measured in the portable view too, 28 ms over one brick of 1 ms: it goes by another name there, and is
    the model that is asked for all the same. By the three others it stays at 14 ms."""
    bricks.put(result("p", 1.0))
    bricks.put(result(WHOLE + "four-portable", 28.0))
    facts = {"model": "four", "batch_size": 1, "instruction_set": None, "layers": 1, "view": "portable"}
    bricks.put_cut(WHOLE + "four-portable", "1", ("p",), ((),), facts)
    found = http.get(f"{API}/predict", params={"model": "four"}).json()
    assert sorted(found["calibrated_by"]) == ["one", "three", "two"] and found["view"] == "runtime"
    assert found["predicted_ms"] == pytest.approx(14)
    bricks.put(result("q", 2.0))
    facts |= {"model": "five", "layers": 1}
    bricks.put_cut(WHOLE + "five", "1", ("q",), ((),), facts)
    assert http.get(f"{API}/predict", params={"model": "five"}).json()["calibrated_by"] is None


def test_what_is_missing_is_told_and_never_guessed(http: TestClient, bricks: PerfDBResults) -> None:
    """A model with a brick that nobody measured: in the gaps, and without a figure."""
    assert http.get(f"{API}/gaps").json()["items"] == []
    bricks.put(result("c", 1.0, disturbed="busy"))
    facts = {"model": "five", "batch_size": 1, "instruction_set": "x", "layers": 2}
    bricks.put_cut(WHOLE + "five", "1", ("a", "c"), ((), (0,)), facts)
    [gap] = http.get(f"{API}/gaps").json()["items"]
    assert (gap["model"], gap["bricks"], gap["missing"]) == ("five", 2, 1)
    found = http.get(f"{API}/predict", params={"model": "five"}).json()
    assert found["predicted_ms"] is None and found["missing"] == 1 and found["coverage_ratio"] is None
    [device] = http.get(f"{API}/devices").json()["items"]
    assert (device["bricks"], device["models"]) == (2, 4)


def test_what_was_timed_again_is_no_further_brick(
    http: TestClient, bricks: PerfDBResults, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bricks and four models, one brick and one model in three sessions: two and four are known. Of a disturbed
    time the command says so."""
    for session in ("t.000/1", "u.000/1"):
        bricks.put(result("a", 1.5, session=session))
        bricks.put(result(WHOLE + "one", 9.0, session=session))
    [device] = http.get(f"{API}/devices").json()["items"]
    assert (device["bricks"], device["models"]) == (2, 4)
    bricks.put(result("a", 7.0, session="v.000/1", disturbed="busy"))
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    shown = CliRunner().invoke(app, ["show", KEY[:8]]).stdout.splitlines()
    [head, *lines] = [line.split() for line in shown if "─" not in line][:5]
    assert head[-1] == "disturbed"
    assert {line[0]: line[-1] for line in lines} == {"1.000": "no", "1.500": "no", "7.000": "yes"}


def test_a_study_is_what_was_found_last(http: TestClient, data_dir: Any) -> None:
    """404 for one that was not made, and for a corpus that there is not; what somebody's file is called that was
    studied makes it no study of ours."""
    assert http.get(f"{API}/study/paper50").status_code == 404
    folder = data_dir / "bricks" / "studies"
    folder.mkdir(parents=True)
    for name, corpus in (
        ("paper50-mine-source-G1", "paper50-mine.yaml"),
        ("paper50-source-G2", "x/paper50.yaml"),
    ):
        (folder / f"{name}.json").write_text(json.dumps({"corpus": corpus}))
    assert http.get(f"{API}/study/paper50").status_code == 404
    (folder / "paper50-source-G1.json").write_text('{"corpus": "paper50"}')
    assert http.get(f"{API}/study/paper50").json() == {"studies": [{"corpus": "paper50"}]}
    assert http.get(f"{API}/study/other").status_code == 404


def test_commands_say_the_same(
    perfdb_uri: str, bricks: PerfDBResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """list, show and gaps; an unknown key is the user's error."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    runner = CliRunner()
    rows = json.loads(runner.invoke(app, ["list", "--operators", "Opb", "-o", "json"]).stdout)
    assert [row["warm_ms"] for row in rows] == [3]
    assert json.loads(runner.invoke(app, ["show", KEY[:8], "-o", "json"]).stdout)["key"] == KEY
    assert json.loads(runner.invoke(app, ["gaps", "-o", "json"]).stdout) == []
    assert runner.invoke(app, ["show", "0" * 8]).exit_code != 0


def test_the_page_shows_them(http: TestClient, perfdb: PerfDB, bricks: PerfDBResults) -> None:
    """Devices, the prediction beside what was measured, and nothing that a name could inject."""
    [one] = predictions(cuts(), known(), 3)[3]
    perfdb.save_result(
        BricksResult(
            run_id="x.000", job_id="x", submission=SubmissionInfo(name="x"), verdict=VALID, role="model",
            model={"name": "<script>four"}, setting=SETTING.model_dump(mode="json"), predictions=[one],
        )
    )  # fmt: skip
    text = http.get("/inferbench/bricks").text
    assert "Some CPU" in text and "&lt;script&gt;four" in text and "<script>four" not in text
    assert ">14<" in text.replace("14.0", "14") and "Nothing, of the models that were cut." in text
    assert "No valid prediction on such a device" in http.get("/inferbench/bricks?device=none").text


def test_no_runtime_or_precision_hides_another_on_the_page(http: TestClient, perfdb: PerfDB) -> None:
    """One model by two runtimes, by two versions of one, and in int8: four lines; of one setting the newest alone."""
    [one] = predictions(cuts(), known(), 3)[3]
    runtimes = ("onnxruntime 1", "onnxruntime 1", "onnxruntime 2", "openvino 1", "onnxruntime 1")
    for at, runtime in enumerate(runtimes):
        job = {"bricks": {"precision": "int8" if at == 4 else "fp32"}}
        perfdb.save_result(
            BricksResult(
                run_id=f"x.00{at}", job_id="x", submission=SubmissionInfo(name="x"), verdict=VALID, role="model",
                model={"name": "four"}, setting={**SETTING.model_dump(mode="json"), "runtime": runtime},
                predictions=[one], provenance=Provenance(**{"job": job}),
            )
        )  # fmt: skip
    rows = predicted(perfdb, "")
    assert sorted((row["runtime"], row["precision"], row["run"]) for row in rows) == [
        ("onnxruntime 1", "fp32", "x.001"),
        ("onnxruntime 1", "int8", "x.004"),
        ("onnxruntime 2", "fp32", "x.002"),
        ("openvino 1", "fp32", "x.003"),
    ]
    text = http.get("/inferbench/bricks?device=SOME").text
    assert text.count("<td>openvino 1</td>") == 1 and text.count("<td>int8</td>") == 1
    assert not predicted(perfdb, "S.me")


def test_what_two_models_share(http: TestClient, bricks: PerfDBResults) -> None:
    """`one` and `four` have a and b, `two` has a, `three` b: 1, 1/2 and 0, as picture, lines and CSV."""
    items = http.get(f"{API}/shared").json()["items"]
    ratios = {(row["model"], row["other"]): row["jaccard_ratio"] for row in items}
    assert len(items) == 16 and all(ratios[name, name] == 1 for name in MODELS)
    assert (ratios["one", "four"], ratios["two", "one"], ratios["two", "three"]) == (1, 0.5, 0)
    assert http.get(f"{API}/shared?format=csv").text.splitlines()[0] == "model,other,jaccard_ratio"
    assert http.get(f"{API}/shared", params={"device": "other"}).status_code == 422
    text = http.get("/inferbench/bricks").text
    assert "<title>one, two: 0.500</title>" in text and "<title>two, three" not in text
    assert "they have 2 different bricks" in text and "add up to 6." in text


def test_one_model_shares_with_nobody(http: TestClient, perfdb: PerfDB) -> None:
    """No picture of a single model, at another batch or granularity, or of none."""
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 1.0})
    for name, batch in (("one", 1), ("two", 2)):
        store.put_cut(
            WHOLE + name, "1", ("a",), ((),), {"model": name, "batch_size": batch, "instruction_set": "x"}
        )
        assert http.get(f"{API}/shared").json()["items"] == []
        assert "What models share" not in http.get("/inferbench/bricks").text


def test_advice_on_models_and_devices(
    http: TestClient, bricks: PerfDBResults, perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models of a task are ranked by what is predicted of them; a second device, half known, is left out, and so it
    is when all is known there, but nothing that calibrates it."""
    for name in ("four", "one"):
        perfdb.collection("decompositions").update_one({"model": name}, {"$set": {"task": "t"}})
    found = http.get(f"{API}/advise", params={"task": "t", "slo_ms": 1000}).json()
    first = 4 * 16 ** (1 / 3)
    assert [(row["model"], row["predicted_ms"]) for row in found["ranked"]] == [
        ("one", pytest.approx(first)), ("four", pytest.approx(14)),
    ]  # fmt: skip
    assert found["ranked"][1]["faster_than_next_probability"] is None
    assert found["ranked"][1]["within_slo_probability"] > 0.99
    slower = SETTING.model_copy(update={"processor": "Other CPU"})
    other = PerfDBResults(perfdb, slower)
    other.set_base_ns({"dense": 1.0})
    other.put(result("a", 1.0, setting=slower))
    found = http.get(f"{API}/advise", params={"model": "four"}).json()
    assert [row["device"] for row in found["ranked"]] == ["Some CPU"]
    assert [row["device"] for row in found["left_out"]] == ["Other CPU"]
    other.put(result("b", 1.0, setting=slower))
    found = http.get(f"{API}/advise", params={"model": "four"}).json()
    assert [(row["device"], len(row["calibrated_by"] or ())) for row in found["ranked"]] == [("Some CPU", 3)]
    [left] = found["left_out"]  # 1 + 1 + 1 ms, which no whole model calibrates there
    assert left["device"] == "Other CPU" and "its bricks take 3 ms (100.0%" in left["why"]
    for params in ({}, {"model": "four", "task": "t"}, {"task": "none"}, {"task": "t"}, {"model": "five"}):
        assert http.get(f"{API}/advise", params=params).status_code == 404
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    done = CliRunner().invoke(app, ["advise", "--model", "four", "-o", "json"])
    assert [row["device"] for row in json.loads(done.stdout)["ranked"]] == ["Some CPU"]


def test_models_are_compared_with_as_many_threads(
    http: TestClient, bricks: PerfDBResults, perfdb: PerfDB
) -> None:
    """With four threads, later, `two` and `six` were measured, uncalibrated; with one thread `one`, `two` and `four`
    are known: these are ranked, with one thread each, and `six`, which has times with four alone, is left out."""
    for name in ("one", "two", "four"):
        perfdb.collection("decompositions").update_one({"model": name}, {"$set": {"task": "t"}})
    more = SETTING.model_copy(update={"threads": 4, "cores": 4})
    fast = PerfDBResults(perfdb, more)
    fast.set_base_ns({"dense": 1.0})
    for name in "ac":
        fast.put(result(name, 0.5, setting=more))
    facts = {"model": "six", "batch_size": 1, "instruction_set": "x", "layers": 1, "task": "t"}
    bricks.put_cut(WHOLE + "six", "1", ("c",), ((),), facts)
    found = http.get(f"{API}/advise", params={"task": "t", "device": "some cpu"}).json()
    assert {row["threads"] for row in found["ranked"]} == {1}
    assert {row["model"]: row["predicted_ms"] for row in found["ranked"]}["four"] == pytest.approx(14)
    assert sorted(row["model"] for row in found["ranked"]) == ["four", "one", "two"]
    [six] = found["left_out"]
    assert six["model"] == "six" and "1 of 1 unique bricks have no time there" in six["why"]


def test_another_precision_is_another_model(http: TestClient, bricks: PerfDBResults) -> None:
    """Under the same name: each is found by its own, and fp32 is what is meant where none is said."""
    facts = {"model": "four", "batch_size": 1, "instruction_set": "x", "layers": 1, "precision": "int8"}
    bricks.put_cut(WHOLE + "int8", "1", ("b", "b"), ((), (0,)), facts)
    asked = {"model": "four", "precision": "int8"}
    found = http.get(f"{API}/predict", params=asked).json()
    assert (found["constructed_ms"], found["precision"]) == (pytest.approx(6), "int8")
    assert found["calibrated_by"] is None  # by none of another precision
    assert http.get(f"{API}/predict", params={"model": "four"}).json()["constructed_ms"] == pytest.approx(7)
    assert http.get(f"{API}/predict", params=asked | {"precision": "fp16"}).status_code == 404
    assert http.get(f"{API}/predict", params=asked | {"precision": "fp8"}).status_code == 422


def test_a_name_is_the_model_that_was_cut_last_under_it(http: TestClient, bricks: PerfDBResults) -> None:
    """Another content under an old name: its own bricks count, also while the old one's are better known."""
    facts = {"model": "one", "batch_size": 1, "instruction_set": "x", "layers": 1, "digest": "new"}
    bricks.put_cut(WHOLE + "new", "1", ("b", "b"), ((), (0,)), facts)
    found = http.get(f"{API}/predict", params={"model": "one"}).json()
    assert (found["constructed_ms"], found["digest"]) == (pytest.approx(6), "new")
    bricks.put_cut(WHOLE + "newer", "1", ("b", "z"), ((), (0,)), facts | {"digest": "newer"})
    found = http.get(f"{API}/predict", params={"model": "one"}).json()
    assert (found["predicted_ms"], found["missing"], found["digest"]) == (None, 1, "newer")
    bricks.put_cut(WHOLE + "one", "1", ("a", "b"), ((), (0,)), {"model": "one"})  # the first one again
    assert http.get(f"{API}/predict", params={"model": "one"}).json()["constructed_ms"] == pytest.approx(4)
