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
from inferbench_tasks.tracing.counters import Track, packed, tracks_in
from inferbench_tasks.tracing.foreign.file import load, read
from inferbench_tasks.tracing.foreign.keep import keep
from inferbench_tasks.tracing.spans import write
from tests.unit.analysis.report.test_layers import sampled
from tests.unit.analysis.stack.spans import layer
from tests.unit.analysis.stack.spans import run as spans_of_run
from tests.unit.perfdb.builders import result
from tests.unit.tracing.foreign.files import otlp, otlp_span

pytestmark = [pytest.mark.integration, pytest.mark.airflow]

COUNTERS = [
    {"counter": "server's CPU, cores", "samples": 12, "least": 0.5, "mean": 1.25, "most": 2.0},
    {"counter": "server's threads", "samples": 12, "least": 7.0, "mean": 7.0, "most": 7.0},
]
TRACK = Track("server's threads", "", [1_000, 2_000], [7.0, 7.0])
#: What a result has of these, and of a sampler that failed.
WATCHED = {"counters": COUNTERS, "unseen": "the sampler ended with exit code 1: killed"}
UNSEEN = "Monitors did not see all of it: the sampler ended with exit code 1: killed.\n"


def seed(db: PerfDB, folder: Path, **of_the_quick: object) -> None:
    """A quick run of 140 us, a slow one of 180 on another runtime, one whose trace failed, one that was not traced.

    ``of_the_quick``: what else the quick one's result has of its trace."""
    for name, us, backend in (("quick", 30, "onnxruntime"), ("slow", 70, "openvino")):
        layers = [layer("c", "Conv", 100, (1, 8), output_bytes=64), layer("=s", "Softmax", us, (1, 8))]
        path = folder / f"{name}.parquet"
        write((span for at in range(3) for span in spans_of_run(at, 0, layers)), path, packed([TRACK]))
        stored = db.files.put(path, "spans.parquet", run_id=name)
        trace = {"levels": ["application", "layer"], "spans": 12, "layers": {"framework_ms": 0.1}}
        trace |= of_the_quick if name == "quick" else {}
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
    assert rows["quick"]["problem"] == rows["slow"]["problem"] == ""
    untold = {"levels": ["application", "model"], "spans": 4, "untold": {"layer": "no profile.\nits log"}}
    perfdb.save_result(result("shallow", extensions={"trace": untold}))
    (row,) = (row for row in bench.traces() if row["run"] == "shallow")
    assert row["problem"] == "level layer is not told: no profile"
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
    whole = bench.spans_table("quick")
    assert whole.num_rows == 12 and tracks_in(whole) == [TRACK], "what monitors saw comes with them"


def test_one_analysis_and_the_page_of_all(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """The table of one over REST and as CSV, which refuses what is missing; the models that were traced, a row for each
    stack, and both side by side on the page.
    """
    seed(perfdb, tmp_path)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = bench.analysis("quick", "type_latency")["rows"]
    assert {row["type"]: row["ms"] for row in rows} == pytest.approx({"Conv": 0.1, "Softmax": 0.03})
    path = "/inferbench/api/traces/quick/analyses"
    text = http.get(f"{path}/type_latency", params={"format": "csv"}).text
    assert [float(row["ms"]) for row in csv.DictReader(text.splitlines())] == [row["ms"] for row in rows]
    assert bench.analysis("quick", "kernels")["missing"]
    for name, words in (("kernels?format=csv", "kernels of quick needs"), ("lairs", "did you mean 'layers'")):
        answer = http.get(f"{path}/{name}")
        assert answer.status_code == 404 and words in answer.text, answer.text
    (model,) = bench.traced_models()
    assert (model["model"], model["runs"], model["backends"]) == ("resnet50", 2, ["onnxruntime", "openvino"])
    text = http.get("/inferbench/api/stack", params={"model": "resnet50", "format": "csv"}).text
    assert {row["run"]: float(row["ms"]) for row in csv.DictReader(text.splitlines())} == pytest.approx(
        {"quick": 0.14, "slow": 0.18}
    )
    assert '?model=resnet50&amp;by=stack">resnet50</a>' in http.get("/inferbench/stack").text
    both = http.get("/inferbench/stack?model=resnet50").text
    assert both.count('<div class="side">') == 30 and "times as long" in both
    assert http.get("/inferbench/stack?model=resnet50&run=slow&run=").text.count('<div class="side">') == 15
    for asked, words in (
        ("model=vgg", "there are: resnet50"),
        ("model=resnet50&run=x", "none of these stacks"),
    ):
        page = http.get(f"/inferbench/stack?{asked}").text
        assert 'role="alert"' in page and words in page, asked


def test_a_share_of_a_load_says_so_wherever_it_is_shown(
    perfdb: PerfDB, http: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str], perfdb_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Lists, REST, the command, pages and what goes to other tools: 3 of 70 requests, and not 3. The command has what
    monitors saw meanwhile, too, and that they did not see all of it."""
    path = tmp_path / "some.parquet"
    write((span for at in range(3) for span in spans_of_run(at, 0, [])), path)
    stored = perfdb.files.put(path, "spans.parquet", run_id="some")
    trace = sampled(requests=3, of=70, spans=6) | {"file": stored.model_dump()} | WATCHED
    perfdb.save_result(result("some", extensions={"trace": trace}))
    words = "3 of 70 requests of the load were traced, 1 in 20 by chance"
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    (row,) = bench.traces()
    assert (row["requests"], row["of"]) == (3, 70)
    document = bench.trace("some")
    assert document["traced"] == words and document["trace"]["parts"][0]["part"] == "request"
    otlp_file = http.get("/inferbench/api/traces/some", params={"format": "otlp"}).json()
    (resource,) = otlp_file["resourceSpans"]
    assert {"key": "inferbench.traced", "value": {"stringValue": words}} in resource["resource"]["attributes"]
    assert "3 of 70</td>" in http.get("/inferbench/traces").text
    page = http.get("/inferbench/trace/some").text
    assert f"{words}." in page and "<b>3 of 70</b>" in page
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    out, err = printed(capsys, "trace", "show", "some")
    assert words in err and "inference" in out and err.endswith(UNSEEN)
    assert has_counters(out)
    assert json.loads(run(capsys, "trace", "show", "some", "-o", "json"))["trace"]["counters"] == COUNTERS


def test_what_monitors_saw_of_requests_asked_one_by_one(
    perfdb: PerfDB, tmp_path: Path, capsys: pytest.CaptureFixture[str], perfdb_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The command has it beneath the analyses, and that monitors did not see all of it; the table of one analysis is
    that table alone. A trace of before monitors watched has neither. JSON is what REST has."""
    seed(perfdb, tmp_path, **WATCHED)
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    out, err = printed(capsys, "trace", "show", "quick")
    assert "layer_latency" in out and has_counters(out)
    assert err.endswith(f"What monitors saw meanwhile:\n{UNSEEN}")
    document = json.loads(run(capsys, "trace", "show", "quick", "-o", "json"))
    assert document["trace"]["counters"] == COUNTERS and document["trace"]["unseen"] == WATCHED["unseen"]
    assert document["run"] == "quick" and len(document["analyses"]) >= 15
    assert not has_counters(run(capsys, "trace", "show", "quick", "--analysis", "layers"))
    out, err = printed(capsys, "trace", "show", "slow")
    assert "layer_latency" in out and not has_counters(out) and "onitors" not in err


def has_counters(out: str) -> bool:
    """Whether a table on stdout has least, mean and most of ``COUNTERS``."""
    rows = [line.split() for line in out.splitlines()]
    return all(
        row in rows
        for row in (
            ["counter", "unit", "least", "mean", "most"],
            ["server's", "CPU", "cores", "0.5000", "1.250", "2.000"],
            ["server's", "threads", "7.000", "7.000", "7.000"],
        )
    )


def test_commands_say_that_a_run_does_not_count(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Whatever of its trace is shown, beside it; of a valid run nothing is said."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    path = tmp_path / "late.parquet"
    write(spans_of_run(0, 0, [layer("c", "Conv", 100, (1, 8), output_bytes=64)]), path)
    file = perfdb.files.put(path, "spans.parquet", run_id="late").model_dump()
    layers = {"layers": [{"order": 0, "name": "c", "type": "Conv", "ms": 0.1, "output_bytes": 64}]}
    trace = {"levels": ["application", "layer"], "spans": 3, "layers": layers, "file": file}
    words = "late is invalid: the sender was late.\n"
    perfdb.save_result(result("late", verdict="invalid: the sender was late", extensions={"trace": trace}))
    perfdb.save_result(result("good", extensions={"trace": trace}))
    for more in (["show"], ["show", "-a", "layers"], ["layers"]):
        for name in ("late", "good"):
            with pytest.raises(SystemExit) as ended:
                main(["trace", more[0], name, *more[1:]])
            assert not ended.value.code
            assert (words in capsys.readouterr().err) == (name == "late"), more


def test_a_flame_graph_and_columns_over_rest(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """Sums of three requests of 190 us with a run of 140 and layers of 100 and 30; of one request; of levels alone."""
    seed(perfdb, tmp_path)
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    found = bench.flamegraph("quick")
    names = ("name", "parent", "spans", "total_ns", "self_ns")
    assert [tuple(frame[name] for name in names) for frame in found["frames"]] == [
        ("request", -1, 3, 570_000, 150_000),
        ("session.run", 0, 3, 420_000, 30_000),
        ("c", 1, 3, 300_000, 300_000),
        ("=s", 1, 3, 90_000, 90_000),
    ]
    trace = next(bench.spans("quick"))["trace_id"]
    alone = bench.flamegraph("quick", levels=["application", "layer"], trace=trace)
    assert [(frame["name"], frame["self_ns"]) for frame in alone["frames"]] == [
        ("request", 60_000), ("c", 100_000), ("=s", 30_000),
    ]  # fmt: skip
    assert len(list(bench.spans("quick", trace=trace))) == 4
    one = http.get("/inferbench/api/traces/quick/spans", params={"trace": trace, "span": 2}).json()
    assert one["total"] == 1 and one["items"][0]["attributes"]["output_bytes"] == 64
    columns = http.get("/inferbench/api/traces/quick/timeline").json()
    assert columns["spans"] == len(columns["columns"]["name"]) == 12 and columns["left_out"] == 0
    csv_lines = http.get("/inferbench/api/traces/quick/flamegraph?format=csv").text.splitlines()
    assert len(csv_lines) == 5 and "'=s" in csv_lines[-1]


def test_an_imported_trace_over_rest(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """In the list with its origin, its spans and flame graph as of a run's; that it is not measured stands by it."""
    seed(perfdb, tmp_path)
    path = tmp_path / "shop.json"
    path.write_bytes(otlp(otlp_span(1, None, 1_000, 9_000), otlp_span(2, 1, 2_000, 4_000)))
    file = load(path)
    trace = keep(perfdb, file, read(file))[0]["_id"]
    rows = http.get("/inferbench/api/traces").json()["items"]
    assert {row["run"]: row["origin"] for row in rows}[trace] == "imported" and len(rows) == 4
    assert "not measured by InferBench" in http.get(f"/inferbench/api/traces/{trace}").json()["trace"]["note"]
    frames = http.get(f"/inferbench/api/traces/{trace}/flamegraph").json()["frames"]
    assert [(frame["name"], frame["self_ns"]) for frame in frames] == [("op 1", 6_000), ("op 2", 2_000)]
    content = http.get(f"/inferbench/api/traces/{trace}?format=otlp_protobuf").content
    path.write_bytes(content)
    assert [span.name for span in read(load(path)).spans] == ["op 1", "op 2"]
    assert http.get("/inferbench/api/traces?offset=3").json()["items"] == rows[3:]


def test_pages_of_what_is_not_there(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """A run that was never traced is 404, one whose trace failed says why, two of three traces are refused in words."""
    seed(perfdb, tmp_path)
    for path, status, words in (
        ("trace/plain", 404, "was not traced"), ("trace/nobody", 404, "nobody"), ("trace/failed", 200, "no server"),
        ("trace/plain/perfetto", 404, "was not traced"), ("perfetto/nothing", 404, "no file"),
        ("perfetto/..%2f..%2fviewer.py", 404, "no file"), ("perfetto/%2fetc%2fpasswd", 404, "no file"),
        ("traces/compare?run=quick", 200, "not 1"), ("traces/compare?run=quick&run=failed", 200, "no server"),
        ("traces?origin=run&limit=1000", 200, "quick"), ("traces?limit=9999", 422, "1000"),
    ):  # fmt: skip
        answer = http.get(f"/inferbench/{path}")
        assert answer.status_code == status and words in answer.text, (path, answer.status_code, answer.text)


def test_what_can_t_be_answered(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """A run that was not traced or whose trace failed, one run to compare, a model that nobody traced: said, no 500."""
    seed(perfdb, tmp_path)
    for path, words in (
        ("/traces/plain", "was not traced"), ("/traces/failed", "no server"), ("/traces/nobody", "nobody"),
        ("/traces/compare?run=quick", "two runs are compared, not 1"), ("/stack?model=vgg", "there are: resnet50"),
        ("/traces/compare?run=quick&run=plain", "was not traced"), ("/traces/plain/spans", "was not traced"),
        ("/traces/quick?format=zipkin", "perfetto"), ("/traces/quick/spans?level=kernel", "layer"),
    ):  # fmt: skip
        answer = http.get(f"/inferbench/api{path}")
        assert answer.status_code in (404, 422) and words in answer.text, (path, answer.text)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints on stdout."""
    return printed(capsys, *arguments)[0]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What a command prints on stdout and on stderr; it has to succeed."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert not end.value.code
    captured = capsys.readouterr()
    return captured.out, captured.err


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
