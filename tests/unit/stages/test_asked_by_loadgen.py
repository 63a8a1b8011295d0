"""MLPerf LoadGen's accuracy log beside the answers that are judged, from logs made by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.mlperf_accuracy import sample_digests
from inferbench_tasks.stages import asked
from inferbench_tasks.stages.asked_by_loadgen import AccuracyTests
from inferbench_tasks.submission.schema import LoadSpec
from tests.load_servers import endpoint
from tests.unit.loadgen.accuracy_logs import write_logs

OUTPUTS: Arrays = {"scores": np.eye(4, dtype=np.float32)}
DIGESTS = sample_digests(OUTPUTS)
ALL = np.full(4, True)
IDS = np.array([10, 20, 30, 40])


def told(
    tmp_path: Path,
    answers: list[tuple[int, str]],
    answered: list[bool] | None = None,
    *,
    errors: tuple[str, ...] = (),
) -> tuple[dict[str, list[int]], list[str]]:
    """Which samples are named, of a test with these answers; and the reasons."""
    write_logs(tmp_path, answers, samples=4, errors=errors)
    tests = AccuracyTests(4)
    tests.add(tmp_path, np.arange(4))
    document, reasons = tests.compared(OUTPUTS, ALL if answered is None else np.array(answered), IDS)
    assert document["logged"] == len(answers)
    named = {name: document[name]["samples"] for name in ("missing", "repeated", "differing")}
    assert {reason.check for reason in reasons} <= {"evaluate.loadgen_log"}
    return {name: samples for name, samples in named.items() if samples}, [reason.text for reason in reasons]


def test_each_sample_once_with_its_own_answer_is_right(tmp_path: Path) -> None:
    """In any order, and in LoadGen's capital digits."""
    assert told(tmp_path, [(at, DIGESTS[at].upper()) for at in (3, 0, 2, 1)]) == ({}, [])


def test_a_sample_that_is_not_in_the_log_is_named(tmp_path: Path) -> None:
    """By its place in the data set; it differs from nothing."""
    named, reasons = told(tmp_path, [(0, DIGESTS[0]), (1, DIGESTS[1]), (3, DIGESTS[3])])
    assert named == {"missing": [30]}
    assert reasons == ["1 of 4 samples do not stand in MLPerf LoadGen's accuracy log: 30"]


def test_a_sample_that_was_asked_twice_is_named(tmp_path: Path) -> None:
    """Though both answers are the one that is judged."""
    named, reasons = told(tmp_path, [(at, DIGESTS[at]) for at in (0, 1, 2, 3, 1)])
    assert named == {"repeated": [20]}
    assert reasons == ["1 of 4 samples stand in MLPerf LoadGen's accuracy log more than once: 20"]


def test_swapped_answers_are_named(tmp_path: Path) -> None:
    """Both samples: a fault of ours between LoadGen and the judge."""
    named, _ = told(tmp_path, [(0, DIGESTS[1]), (1, DIGESTS[0]), (2, DIGESTS[2]), (3, DIGESTS[3])])
    assert named == {"differing": [10, 20]}


def test_no_answer_is_none_in_both(tmp_path: Path) -> None:
    """A failed request is given to LoadGen as nothing; an answer that only one of both has is told."""
    answers = [(0, ""), *((at, DIGESTS[at]) for at in (1, 2, 3))]
    assert told(tmp_path, answers, [False, True, True, True]) == ({}, [])
    assert told(tmp_path, answers)[0] == {"differing": [10]}
    assert told(tmp_path, answers, [False, False, True, True])[0] == {"differing": [20]}


def test_nothing_answered_at_all_is_no_difference(tmp_path: Path) -> None:
    """Then outputs have no names."""
    write_logs(tmp_path, [(at, "") for at in range(4)], errors=())
    tests = AccuracyTests(4)
    tests.add(tmp_path, np.arange(4))
    assert tests.compared({}, ~ALL, IDS)[1] == ()


def test_loadgens_own_errors_count(tmp_path: Path) -> None:
    """Whatever the answers are."""
    _, reasons = told(tmp_path, [(at, DIGESTS[at]) for at in range(4)], errors=("two completions",))
    assert reasons == ["MLPerf LoadGen found errors in its accuracy mode: error_runtime: two completions"]


def test_several_tests_are_one_log_and_each_keeps_its_files(tmp_path: Path) -> None:
    """A test's number of a sample is its place among those of that test."""
    tests = AccuracyTests(4, tmp_path / "kept")
    for name, rows in (("one", [0, 2]), ("two", [3, 1])):
        write_logs(tmp_path / name, [(1, DIGESTS[rows[1]]), (0, DIGESTS[rows[0]])], errors=())
        tests.add(tmp_path / name, np.array(rows))
    document, reasons = tests.compared(OUTPUTS, ALL, IDS)
    assert not reasons and document["tests"] == 2 and document["logged"] == 4
    names = [Path(log).name for log in document["logs"]]
    assert len(names) == len(set(names)) == 6 and names[-1] == "accuracy-2-mlperf_log_accuracy.json"
    assert all(Path(log).stat().st_size for log in document["logs"])


def test_a_sample_that_loadgen_did_not_ask_is_missing_and_asked_in_no_other_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second test would have its answer, and the log each sample once, though LoadGen's own test left one out."""
    folder = tmp_path / "evaluate"

    def three(*order: object) -> asked._Found:
        write_logs(folder, [(at, DIGESTS[at]) for at in (0, 1, 3)], samples=4, errors=())
        rows = np.array([0, 1, 3])
        return asked._Found(rows, rows, np.ones(3), {"scores": OUTPUTS["scores"][rows]}, {})

    monkeypatch.setattr(asked, "_plan", lambda *order: SimpleNamespace(folder=str(folder)))
    monkeypatch.setattr(asked, "_apply", three)
    load = LoadSpec.model_validate({"arrivals": {"kind": "single_stream"}, "engine": "mlperf_loadgen"})
    samples: Arrays = {"x": np.zeros((4, 1), dtype=np.float32)}
    found = asked.ask(load, samples, OUTPUTS, endpoint("http", 1), folder=folder, base_dir=tmp_path)
    assert found.loadgen is not None and found.passes == 1 and found.unanswered == 1
    document, reasons = found.loadgen.compared(found.outputs, found.answered, IDS)
    assert document["missing"] == {"count": 1, "samples": [30]} and document["differing"]["count"] == 0
    assert [reason.text for reason in reasons] == [
        "1 of 4 samples do not stand in MLPerf LoadGen's accuracy log: 30"
    ]


def test_another_test_than_the_one_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    """Of another mode, of other samples, or without its log."""
    tests = AccuracyTests(2)
    with pytest.raises(LoadError, match="left no log"):
        tests.add(tmp_path, np.arange(2))
    write_logs(tmp_path, [(0, DIGESTS[0]), (1, DIGESTS[1])], mode="PerformanceOnly")
    with pytest.raises(LoadError, match="PerformanceOnly"):
        tests.add(tmp_path, np.arange(2))
    write_logs(tmp_path, [(0, DIGESTS[0]), (7, DIGESTS[1])])
    with pytest.raises(LoadError, match="asked sample 7 of 2"):
        tests.add(tmp_path, np.arange(2))
