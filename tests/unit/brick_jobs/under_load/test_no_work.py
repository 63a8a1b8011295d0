"""What the server adds, from the records of loads of a model of no work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest

from inferbench_tasks.brick_jobs.under_load import no_work
from inferbench_tasks.brick_jobs.under_load.no_work import (
    NUMBERS,
    PAUSES_S,
    call_ns,
    measured,
    write_model,
    write_pauses,
)
from inferbench_tasks.brick_jobs.under_load.overhead import PAUSES_NS, Overhead
from inferbench_tasks.errors import StageError
from inferbench_tasks.loadgen.records import SCHEMA_WITH_SPANS, SamplesWriter
from inferbench_tasks.submission.schema import JobSpec
from tests.unit.brick_jobs.under_load.test_overhead import CONDITIONS

#: Requests of each load: the first tenth is warm-up, one in ten of the others failed.
REQUESTS = 1000


def records(path: Path, gap_ns: int) -> None:
    """One answer every ``gap_ns``, 250 us after it was meant to leave, 50 of them the instance's; warm-up and errors
    take 9 ms."""
    at = np.arange(REQUESTS)
    warm, failed = at < REQUESTS // 10, at % 10 == 9
    done = at * gap_ns + 10_000_000
    known: dict[str, Any] = {
        "phase": np.where(warm, "warmup", "measure"),
        "status": np.where(failed, "timeout", "ok"),
        "done_ns": done,
        "intended_ns": done - np.where(warm | failed, 9_000_000, 250_000),
        "server_inference_ns": np.full(REQUESTS, 50_000),
    }
    columns = []
    for field in SCHEMA_WITH_SPANS:
        values = known.get(field.name, np.zeros(REQUESTS, np.int64)).tolist()
        if pa.types.is_dictionary(field.type):
            values = [str(value) for value in values]
            columns.append(pa.array(values).dictionary_encode().cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    with SamplesWriter(path, spans=True) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=SCHEMA_WITH_SPANS))


def runner(runs: Path, verdict: str) -> Callable[[JobSpec, Path], Mapping[str, Any]]:
    """Runs nothing: a user gets an answer each 400 us, many users one each 100 us."""

    def run(spec: JobSpec, folder: Path) -> Mapping[str, Any]:
        run_id = f"run-{len(list(runs.iterdir()))}"
        (runs / run_id).mkdir()
        many = spec.traffic.arrivals.kind == "closed_loop"
        records(runs / run_id / "samples.parquet", 100_000 if many else 400_000)
        return {"run_id": run_id, "verdict": verdict}

    return run


def ask(tmp_path: Path, verdict: str, monkeypatch: pytest.MonkeyPatch) -> Overhead:
    monkeypatch.setattr(no_work, "call_ns", lambda path, numbers: 3_000.0)
    runs, files = tmp_path / "runs", tmp_path / "files"
    runs.mkdir()
    files.mkdir()
    return measured(
        CONDITIONS, files, runner(runs, verdict), lambda run_id: runs / run_id, lambda what, done, of: None
    )


def test_warm_up_and_errors_are_in_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """111 us of the event loop (nine of ten of those each 100 us are good), 47 of the instance (its 50 without
    a call of 3), the rest of 250."""
    found = ask(tmp_path, "valid", monkeypatch)
    assert found.disturbed is None and len(found.runs) == 6
    for point, numbers in zip(found.points, NUMBERS, strict=True):
        assert point.wire_bytes == 4 * (numbers + 1) and point.requests == 810
        assert point.front_ns == pytest.approx(111_000, rel=0.01) and point.batch_ns == 47_000
        assert point.rest_ns[100] == pytest.approx(250_000 - 50_000 - point.front_ns)


def test_disturbed_loads_are_named_and_failed_ones_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of the verdict, once; a failure ends it."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    found = ask(tmp_path / "one", "disturbed: other processes used 1.7 of 2 cores", monkeypatch)
    assert found.disturbed == "disturbed: other processes used 1.7 of 2 cores"
    with pytest.raises(StageError, match="could not be measured: failed: serve, no port"):
        ask(tmp_path / "two", "failed: serve, no port", monkeypatch)


def test_pauses_are_of_all_lengths(tmp_path: Path) -> None:
    """Every doubling from 0.5 to 64 ms at least a hundred times, within the load."""
    lines = write_pauses(tmp_path / "pauses.csv").read_text().split()
    at = np.array(lines[1:], np.int64)
    counts, _ = np.histogram(np.diff(at), PAUSES_NS)
    assert lines[0] == "at" and at[0] == 0 and at[-1] < PAUSES_S * 1e9
    assert counts.min() > 100


def test_the_model_gives_the_first_number_of_each_sample(tmp_path: Path) -> None:
    """Of any number of samples."""
    session = onnxruntime.InferenceSession(write_model(tmp_path / "m.onnx", 3))
    [answer] = session.run(None, {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert answer.tolist() == [[0.0], [3.0]]


def test_a_call_of_the_model_is_timed_as_bricks_are(tmp_path: Path) -> None:
    """A real one, with its tensors bound: it takes some time."""
    assert call_ns(write_model(tmp_path / "m.onnx", 3), 3) > 0
