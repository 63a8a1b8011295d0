"""Traced runs in a real PerfDB: over REST with the client, and by the commands; each figure by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.cli.main import main
from inferbench_tasks.client import InferBench
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.spans import write
from tests.unit.analysis.stack.spans import layer
from tests.unit.analysis.stack.spans import run as spans_of_run
from tests.unit.perfdb.builders import result

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def seed(db: PerfDB, folder: Path) -> None:
    """A quick run of 140 us, a slow one of 180 on another runtime, one whose trace failed, one that was not traced."""
    for name, us, backend in (("quick", 30, "onnxruntime"), ("slow", 70, "openvino")):
        layers = [layer("c", "Conv", 100, (1, 8), output_bytes=64), layer("=s", "Softmax", us, (1, 8))]
        path = folder / f"{name}.parquet"
        write((span for at in range(3) for span in spans_of_run(at, 0, layers)), path)
        stored = db.files.put(path, "spans.parquet", run_id=name)
        trace = {"levels": ["application", "layer"], "spans": 12, "layers": {"framework_ms": 0.1}}
        about = {"kind": backend, "version": "1", "launcher": "process", "settings": {"threads": 2}}
        extensions = {"trace": trace | {"file": stored.model_dump()}}
        db.save_result(result(name, backend=about, extensions=extensions))
    db.save_result(result("failed", extensions={"trace": {"problem": "no server\nits log"}}))
    db.save_result(result("plain"))


def test_over_rest(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """Lists, analyses, spans by level and name, the difference and the stacks, in the client's words."""
    seed(perfdb, tmp_path)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = {row["run"]: row for row in bench.traces()}
    assert set(rows) == {"quick", "slow", "failed"} and rows["failed"]["problem"] == "no server"
    document = bench.trace("quick")
    assert document["framework_ms"] == pytest.approx(0.14) and document["layers_ratio"] == pytest.approx(
        130 / 140
    )
    table = next(each for each in document["analyses"] if each["name"] == "type_latency")
    assert [(row["type"], row["ms"]) for row in table["rows"]] == [
        ("Conv", pytest.approx(0.1)),
        ("Softmax", pytest.approx(0.03)),
    ]
    assert [span["name"] for span in bench.spans("slow", level="layer", name="=")] == ["=s"] * 3
    assert len(list(bench.spans("slow", limit=5))) == 5
    found = bench.compare_traces("quick", "slow")
    assert sum(row["difference_ms"] for row in found["rows"]) == pytest.approx(0.04)
    assert found["rows"][0]["left"] == "=s" and found["rows"][0]["ratio"] == pytest.approx(70 / 30)
    beside = bench.stack("resnet50")
    assert [each["run"] for each in beside["stacks"]] == ["slow", "quick"]
    assert [(each["left"], each["right"]) for each in beside["comparisons"]] == [("quick", "slow")]
    perfetto = http.get("/inferbench/api/traces/quick", params={"format": "perfetto"}).json()
    assert sum(event["ph"] == "X" for event in perfetto["traceEvents"]) == 12


def test_what_can_t_be_answered(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """A run that was not traced or whose trace failed, one run to compare, a model that nobody traced: said, no 500."""
    seed(perfdb, tmp_path)
    for path, words in (
        ("/traces/plain", "was not traced"), ("/traces/failed", "no server"), ("/traces/nobody", "nobody"),
        ("/traces/compare?run=quick", "two runs are compared, not 1"), ("/stack?model=vgg", "there are: resnet50"),
        ("/traces/compare?run=quick&run=plain", "was not traced"), ("/traces/plain/spans", "was not traced"),
        ("/traces/quick?format=jaeger", "perfetto"), ("/traces/quick/spans?level=kernel", "layer"),
    ):  # fmt: skip
        answer = http.get(f"/inferbench/api{path}")
        assert answer.status_code in (404, 422) and words in answer.text, (path, answer.text)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints on stdout."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert not end.value.code
    return capsys.readouterr().out


def test_by_commands(
    perfdb: PerfDB,
    perfdb_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same figures; every table as CSV and Parquet, where a name that looks like a formula is none."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    seed(perfdb, tmp_path)
    rows = json.loads(run(capsys, "trace", "show", "quick", "--analysis", "layers", "-o", "json"))["rows"]
    assert [row["ms"] for row in rows] == pytest.approx([0.1, 0.03, 0.01])
    document = json.loads(run(capsys, "trace", "compare", "quick", "slow", "-o", "json"))
    assert document["difference_ms"] == pytest.approx(0.04)
    folder = tmp_path / "tables"
    run(capsys, "stack", "resnet50", "--by", "version", "--to", str(folder))
    stored = json.loads((folder / "stack.json").read_bytes())
    assert [each["run"] for each in stored["stacks"]] == ["slow", "quick"]
    parquet = pq.read_table(folder / "quick..slow.difference.parquet").to_pylist()
    assert parquet[0]["left"] == "=s" and parquet[0]["difference_ms"] == pytest.approx(0.04)
    with (folder / "quick..slow.difference.csv").open() as file:
        assert next(csv.DictReader(file))["left"] == "'=s"
    for arguments in (["trace", "show", "failed"], ["stack", "vgg"], ["stack", "resnet50", "--by", "user"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
