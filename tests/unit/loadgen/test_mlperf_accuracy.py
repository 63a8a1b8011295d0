"""MLPerf LoadGen's accuracy log, read and made; by hand, without LoadGen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.contracts.answers_digest import answers_digest
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.loadgen.mlperf import ACCURACY, DETAIL, SUMMARY, forget, parse_errors, read_verdict
from inferbench_tasks.loadgen.mlperf_accuracy import accuracy_plan, read_accuracy, sample_digests
from inferbench_tasks.loadgen.mlperf_schedule import asked_offsets_ns, seeds, server_offsets_ns
from tests.load_servers import endpoint, load_plan
from tests.unit.loadgen.accuracy_logs import write_logs


def test_the_log_has_each_answer_by_its_sample(tmp_path: Path) -> None:
    """In LoadGen's order, with the digits as our digests have them, and what it calls errors apart."""
    write_logs(tmp_path, [(2, "0A"), (0, ""), (1, "FF")])
    log = read_accuracy(tmp_path)
    assert log is not None
    assert log.answers == ((2, "0a"), (0, ""), (1, "ff"))
    assert (log.mode, log.scenario, log.samples, log.version) == (
        "AccuracyOnly",
        "Server",
        3,
        "6.0.17 @ d6147c7eb7",
    )
    assert log.errors == ("error_runtime: two completions of one query",)
    assert [Path(path).name for path in log.logs] == [SUMMARY, DETAIL, ACCURACY]
    assert read_verdict(tmp_path) is None  # it judges nothing in this mode


@pytest.mark.parametrize("broken", ["cut", "missing", "other"])
def test_half_a_log_is_none(tmp_path: Path, broken: str) -> None:
    """A LoadGen that was ended has not told of all samples."""
    write_logs(tmp_path, [(0, "0A"), (1, "FF")])
    path = tmp_path / ACCURACY
    if broken == "cut":
        path.write_text(path.read_text()[:-4])
    elif broken == "missing":
        path.unlink()
    else:
        path.write_text(json.dumps([{"seq_id": 0}]))
    assert read_accuracy(tmp_path) is None


def test_a_test_begins_without_the_logs_of_the_one_before(tmp_path: Path) -> None:
    """Or a LoadGen that dies at once would have its log."""
    write_logs(tmp_path, [(0, "0A")])
    forget(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_loadgen_is_told_in_its_words() -> None:
    """Warnings are none."""
    line = ':::MLLOG {{"key": "{}", "value": "x\\n y", "metadata": {{"is_error": {}, "is_warning": true}}}}'
    assert parse_errors("\n".join([line.format("a", "true"), line.format("b", "false")])) == ("a: x y",)


def test_a_sample_has_the_digest_of_its_own_row() -> None:
    """Of all outputs, by name, type and shape; texts as they are, however wide their field is."""
    outputs: Arrays = {
        "scores": np.arange(6, dtype=np.float32).reshape(2, 3),
        "class": np.array([4, 5]),
        "text": np.array(["a", "longer"]),
    }
    first, second = sample_digests(outputs)
    assert first != second
    alone = {name: array[:1] for name, array in outputs.items()} | {"text": np.array(["a"], dtype=object)}
    assert sample_digests(alone) == [first]
    assert first == answers_digest({name: array[0, ...] for name, array in outputs.items()})
    assert sample_digests({**outputs, "class": np.array([4, 5], dtype=np.int32)})[0] != first
    assert sample_digests({}) == []


def test_the_accuracy_mode_ends_with_its_samples(tmp_path: Path) -> None:
    """Not with the load's time; its schedule is that of LoadGen's seed, of as many queries as it sent."""
    arrivals = {"kind": "server", "rate_rps": 50.0}
    plan = load_plan(
        tmp_path, endpoint("http", 1), arrivals=arrivals, engine="mlperf_loadgen", warmup_s=0.0, duration_s=1.0,
        max_requests=7, target_latency_ms=100.0,
    )  # fmt: skip
    plan = accuracy_plan(plan.model_copy(update={"keep_answers": True, "in_order": True}), 16)
    assert plan.mlperf is not None
    assert (plan.mlperf.accuracy, plan.mlperf.requests, plan.mlperf.max_queries) == (True, 16, None)
    assert plan.measure_end_ns == plan.segments[-1].end_ns > 3600 * 10**9
    assert asked_offsets_ns(plan, 300).tolist() == server_offsets_ns(50.0, seeds(plan.seed)[2], 300).tolist()
