"""Stage ``trace`` with real servers: spans from client to layer, and what becomes of a trace that fails."""

from __future__ import annotations

import os
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.analysis.stack.kernels import kernels_of
from inferbench_tasks.analysis.stack.kinds import kind_of
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.monitors import perf_events
from inferbench_tasks.protocols.traceparent import one_in_context
from inferbench_tasks.stages import trace
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.tracing.counters import tracks_in
from inferbench_tasks.tracing.profiled import with_library, without_deeper
from inferbench_tasks.tracing.spans import spans_of
from tests.integration.test_serving import leftovers
from tests.serving_cases import (
    Case,
    dense_as,
    dense_case,
    serve_input,
)  # fmt: skip
from tests.unit.monitors.test_perf_events import SOFTWARE, counts

pytestmark = pytest.mark.integration
REQUESTS = 5


def order(case: Case, folder: Path, load: dict[str, Any] | None = None, **block: Any) -> Input:
    """What the stage takes, for a few requests in one round."""
    # An id of its own: files that run beside this one have servers of runs of the usual name.
    given = serve_input(case, folder, load=load, run_id=f"traced-{uuid.uuid4().hex[:8]}")
    job = given.job.model_dump(mode="json") | {"trace": {"requests": REQUESTS, "rounds": 1, **block}}
    format_ = case.model.format
    job["convert"]["format"] = format_
    job["serve"]["backend"] = {"onnx": "onnxruntime", "savedmodel": "tfs_protocol"}.get(format_, format_)
    fields = given.model_dump() | {"job": job}
    return Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})


def looping(folder: Path) -> Case:
    """``scores``: x doubled three times, by a Loop whose body adds."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["v2"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [
            value("at", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("v", TensorProto.FLOAT, ["n", 3]),
        ],
        [value("on", TensorProto.BOOL, []), value("v2", TensorProto.FLOAT, ["n", 3])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["times", "", "x"], ["scores"], body=body)],
        "looping",
        [value("x", TensorProto.FLOAT, ["n", 3])],
        [value("scores", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor("times", TensorProto.INT64, [], [3])],
    )
    path = folder / "looping.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    spec = TensorSpec(name="x", dtype="float32", shape=(3,))
    scores = spec.model_copy(update={"name": "scores"})
    base = dense_case(folder).model
    model = base.model_copy(update={"path": str(path), "inputs": (spec,), "outputs": (scores,)})
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    return Case(model, {"x": x}, {"scores": x * 8})


def test_a_request_is_seen_down_to_its_layers(tmp_path: Path) -> None:
    """Each request is one trace over four levels; layers are the model's own; no server is left."""
    inp = order(dense_case(tmp_path), tmp_path)
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert "problem" not in output.document, output.document
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    assert len({span.trace_id for span in spans}) == REQUESTS
    assert (
        output.document["spans"] == len(spans)
        and output.document["unanswered"] == output.document["lost"] == 0
    )
    by_trace = [[s for s in spans if s.trace_id == trace_id] for trace_id in {s.trace_id for s in spans}]
    for found in by_trace:
        assert {span.level for span in found} == {"application", "model", "framework", "layer"}
        assert [span.parent for span in found].count(-1) == 1
        assert sum(span.name == "session.run" for span in found) == 1
    kinds = [layer["type"] for layer in output.document["layers"]["layers"]]
    assert kinds == ["MatMul", "Add"] or kinds == ["Gemm"]  # whether this version fuses the two
    assert 0 < output.document["layers"]["explained_ratio"] < 1.1
    # It is over before monitors look again: what held as it began.
    memory = next(row for row in output.document["counters"] if row["counter"] == "server's memory, bytes")
    assert memory["least"] > 1e6 and "unseen" not in output.document
    assert [each["level"] for each in output.document["overheads"]] == output.document["levels"]
    assert leftovers(inp.run_id) == []


@pytest.mark.parametrize(
    ("protocol", "client"),
    [
        ("grpc", "fast"),
        pytest.param("grpc", "reference", marks=pytest.mark.long),
        pytest.param("grpc", "tritonclient", marks=pytest.mark.long),
        ("http", "tritonclient"),
    ],
)
def test_whoever_asks_carries_the_context(protocol: str, client: str, tmp_path: Path) -> None:
    """Over gRPC as metadata, and by libraries that write requests: the server's spans are within the client's."""
    inp = order(
        dense_case(tmp_path), tmp_path, load={"protocol": protocol, "client": client}, deepest="model"
    )
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert "problem" not in output.document, output.document
    # No instrument below the deepest level that was asked for is on, and nothing is said of layers.
    assert output.document["levels"] == ["application", "model"] and output.document["layers"] is None
    assert output.document["unanswered"] == output.document["ignored"] == output.document["lost"] == 0
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    roots = {span.trace_id: span for span in spans if span.parent < 0}
    servers = [span for span in spans if span.name == "server"]
    assert len(roots) == len(servers) == REQUESTS
    for server in servers:
        root = roots[server.trace_id]
        assert root.start_ns < server.start_ns and server.end_ns < root.end_ns
        parts = [s for s in spans if (s.trace_id, s.parent) == (server.trace_id, root.number)]
        assert sum(part.duration_ns for part in parts) == root.duration_ns
        assert parts[1].number == server.parent and parts[1].start_ns <= server.start_ns
        names = [s.name for s in spans if (s.trace_id, s.parent) == (server.trace_id, server.number)]
        # gRPC's library has read a request before the server knows of it.
        assert names[0] == ("decode" if protocol == "grpc" else "read") and "inference" in names
    assert leftovers(inp.run_id) == []


@pytest.mark.long
def test_over_grpc_down_to_the_layers(tmp_path: Path) -> None:
    """The same levels as over HTTP, each layer in its run."""
    output = trace.run(
        order(dense_case(tmp_path), tmp_path, load={"protocol": "grpc"}), Context(data_dir=tmp_path / "data")
    )
    assert "problem" not in output.document, output.document
    assert output.document["levels"] == ["application", "model", "framework", "layer"]
    assert output.document["unanswered"] == 0 and output.document["layers"]["layers"]


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed (extra tensorflow)")
def test_tensorflow_tells_of_its_kernels(tmp_path: Path) -> None:
    """Over TensorFlow Serving's protocol, each request down to the kernels of its signature: in the request's own run,
    within what both clocks can tell; and the answers are the model's while TensorFlow's profiler is on."""
    case = dense_as("savedmodel", tmp_path / "model")
    inp = order(case, tmp_path, load={"protocol": "grpc"})
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    document = output.document
    assert "problem" not in document, document
    assert document["levels"] == ["application", "model", "framework", "layer"]
    assert document["unanswered"] == document["ignored"] == document["lost"] == 0
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    runs = {(s.trace_id, s.number) for s in spans if s.name == "signature call"}
    layers = [span for span in spans if span.level == "layer"]
    assert len(runs) == len({span.trace_id for span in layers}) == REQUESTS
    assert all((span.trace_id, span.parent) in runs for span in layers)
    assert any(kind_of(span.type) == "matrix product" for span in layers)
    assert document["checks"]["negative"] == document["checks"]["beyond_parents"] == 0
    assert leftovers(inp.run_id) == []


def told_of_use(spans: list[Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Of each request what its run and what the server used."""
    by_trace: dict[str, dict[str, Any]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, {})[span.name] = span.attributes
    return [(names["session.run"], names["server"]) for names in by_trace.values()]


def traced_down_to_the_framework(folder: Path, protocol: str) -> list[Any]:
    """The spans of a server in its sandbox, which ended, with what the kernel counts of it by events without a PMU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perf_events, "PROCESSOR", SOFTWARE)
        inp = order(dense_case(folder), folder, load={"protocol": protocol}, deepest="framework")
        output = trace.run(inp, Context(data_dir=folder / "data"))
    assert "problem" not in output.document, output.document
    assert output.spans_path is not None
    assert leftovers(inp.run_id) == []
    return list(spans_of(pq.read_table(output.spans_path)))


@pytest.fixture
def over_http(tmp_path: Path) -> list[Any]:
    """Those of requests over HTTP; traced anew for each test, and when one is run again."""
    return traced_down_to_the_framework(tmp_path, "http")


def each_part_used_no_more_than_the_whole(spans: list[Any]) -> None:
    found = told_of_use(spans)
    assert len(found) == REQUESTS
    for run, server in found:
        assert 0 < run["cpu_ns"] <= run["process_cpu_ns"] <= server["process_cpu_ns"]
        for name in ("switches_voluntary", "switches_involuntary", "faults_minor", "faults_major"):
            assert 0 <= run[name] <= run[f"process_{name}"] <= server[f"process_{name}"]
        if (waited_ns := run.get("wait_for_core_ns")) is not None:  # where the kernel tells
            assert waited_ns <= run["process_wait_for_core_ns"] <= server["process_wait_for_core_ns"]


def test_what_a_request_used_is_told(over_http: list[Any]) -> None:
    """The thread's and the process's time of each run, the process's of each request, which is no less."""
    each_part_used_no_more_than_the_whole(over_http)


@pytest.mark.long
def test_what_a_request_used_is_told_over_grpc(tmp_path: Path) -> None:
    """The same, where a library reads requests."""
    each_part_used_no_more_than_the_whole(traced_down_to_the_framework(tmp_path, "grpc"))


@counts
def test_the_kernel_counts_for_a_server_in_the_sandbox(over_http: list[Any]) -> None:
    """Which may not ask for it itself. By events that need no PMU: the time on a core is no less than the thread's,
    and no more than all cores had; faults are no more than the process's beside them."""
    longest_ns = max(span.duration_ns for span in over_http)
    found = told_of_use(over_http)
    assert len(found) == REQUESTS
    for run, _ in found:
        # What a virtual machine's host took is in this clock, and in no time of a thread.
        assert 0.9 * run["cpu_ns"] <= run["process_task_clock"] <= (os.cpu_count() or 1) * longest_ns
        assert 0 <= run["process_page_faults"] <= run["process_faults_minor"] + run["process_faults_major"]


def test_a_loop_s_body_is_within_the_loop(tmp_path: Path) -> None:
    """Its layers are not counted a second time, so that the layers never add up to more than the run."""
    output = trace.run(order(looping(tmp_path), tmp_path), Context(data_dir=tmp_path / "data"))
    assert "problem" not in output.document, output.document
    layers = output.document["layers"]
    assert [layer["type"] for layer in layers["layers"]] == ["Loop"]
    assert layers["explained_ratio"] < 1.1
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    names = {(s.trace_id, s.number): s.type for s in spans}
    inner = [span for span in spans if span.level == "layer" and span.type == "Add"]
    assert len(inner) == 3 * REQUESTS
    assert {names[span.trace_id, span.parent] for span in inner} == {"Loop"}


@pytest.mark.parametrize("protocol", ["http", pytest.param("grpc", marks=pytest.mark.long)])
def test_one_in_so_many_requests_of_a_load_is_traced(tmp_path: Path, protocol: str) -> None:
    """Those that their numbers choose, each in a trace of its own down to the parts in the server, with the probability
    as its state; the trace says of how many requests it is. Samples are sent again and again meanwhile."""
    arrivals = {"kind": "constant", "rate_rps": 200.0}
    load = {"arrivals": arrivals, "duration_s": 1.0, "warmup_s": 0.2, "protocol": protocol}
    inp = order(dense_case(tmp_path), tmp_path, load=load, requests=30, one_in=4)
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    document = output.document
    assert "problem" not in document, document
    assert (document["levels"], document["one_in"], document["rounds"]) == (["application", "model"], 4, 1)
    assert document["of"] == 200 and document["failed"] == document["unanswered"] == document["lost"] == 0
    seed = f"{inp.run_id} model 0"
    # The warm-up has the first 40 numbers.
    chosen = {number: context for number in range(40, 240) if (context := one_in_context(seed, number, 4))}
    assert 20 < len(chosen) < 90
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    roots = [span for span in spans if span.parent < 0]
    assert len(roots) == document["requests"] == len(chosen)
    assert {span.attributes["request"]: span.trace_id for span in roots} == {
        number: context.trace_id for number, context in chosen.items()
    }
    servers = [span for span in spans if span.name == "server"]
    assert {span.trace_id for span in servers} == {span.trace_id for span in roots}
    assert {span.attributes["tracestate"] for span in (*roots, *servers)} == {"ot=th:c"}
    assert {span.level for span in spans} == {"application", "model"}
    assert document["ignored"] == document["ignored_states"] == 0
    assert {part["requests"] for part in document["parts"]} == {len(chosen)}
    seen = {track.name: track for track in tracks_in(pq.ParquetFile(output.spans_path).read())}
    used = seen["server's CPU"]
    first_ns, last_ns = min(root.start_ns for root in roots), max(root.end_ns for root in roots)
    assert len(used.values) >= 5 and 0 < max(used.values) < 100
    assert all(first_ns - 10**6 <= at <= last_ns + 10**6 for at in used.times_ns)
    assert len(document["counters"]) == len(seen)
    assert [each["level"] for each in document["overheads"]] == ["application", "model"]
    assert leftovers(inp.run_id) == []


def test_requests_that_were_executed_together_lead_to_each_other(tmp_path: Path) -> None:
    """Eight users and a server that joins what they ask: the inference of each request says which batch it was, of how
    many, takes as long as that of the others in it, and is linked with each of these that is in the trace."""
    load = {
        "arrivals": {"kind": "closed_loop", "concurrency": 8}, "duration_s": 0.5, "warmup_s": 0.2, "connections": 8
    }  # fmt: skip
    inp = order(dense_case(tmp_path), tmp_path, load=load, requests=30, one_in=1)
    serve = inp.job.serve.model_dump(mode="json") | {"batching": {"max_batch_size": 8, "max_delay_ms": 5}}
    job = inp.job.model_copy(update={"serve": type(inp.job.serve).model_validate(serve)})
    output = trace.run(inp.model_copy(update={"job": job}), Context(data_dir=tmp_path / "data"))
    assert "problem" not in output.document, output.document
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    asking = {span.trace_id: span.span_id for span in spans if span.name == "to first byte"}
    joined = [span for span in spans if span.name == "inference" and "batch" in span.attributes]
    batches: dict[int, set[str]] = {}
    for span in joined:
        batches.setdefault(span.attributes["batch"], set()).add(span.trace_id)
    assert any(len(traces) > 1 for traces in batches.values())
    for span in joined:
        about = span.attributes
        others = batches[about["batch"]] - {span.trace_id}
        assert {(link["trace_id"], link["span_id"]) for link in about.get("links", ())} == {
            (other, asking[other]) for other in others
        }
        assert 1 + len(others) <= about["batch_requests"] == about["batch_rows"] <= 8
        assert {each.duration_ns for each in joined if each.attributes["batch"] == about["batch"]} == {
            span.duration_ns
        }


def test_a_share_of_which_nothing_was_chosen_is_no_trace(tmp_path: Path) -> None:
    """Of 20 requests one in a million: the trace says that none was chosen and what to do, and shows no spans."""
    load = {"arrivals": {"kind": "constant", "rate_rps": 100.0}, "duration_s": 0.2, "warmup_s": 0.0}
    inp = order(dense_case(tmp_path), tmp_path, load=load, requests=30, one_in=1_000_000)
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert output.spans_path is None
    assert output.document["problem"].startswith(
        "None of the load's 20 requests was chosen, 1 in 1,000,000 is by"
    )
    assert leftovers(inp.run_id) == []


def busy(folder: Path) -> Case:
    """``scores = x @ W`` of four million multiplications, for OpenVINO: its counters are means of whole microseconds
    over all runs, so that five runs after a hundred are known to 20 us, and what takes less may be no layer.
    """
    import openvino

    rng, value = np.random.default_rng(3), helper.make_tensor_value_info
    x, weights = (rng.normal(size=size).astype(np.float32) for size in ((16, 2048), (2048, 2048)))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["scores"])],
        "busy",
        [value("x", TensorProto.FLOAT, ["batch", 2048])],
        [value("scores", TensorProto.FLOAT, ["batch", 2048])],
        [numpy_helper.from_array(weights, "w")],
    )
    path, made = folder / "busy.onnx", folder / "busy.xml"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    openvino.save_model(openvino.convert_model(path), str(made), compress_to_fp16=False)
    inputs, outputs = ((TensorSpec(name=name, dtype="float32", shape=(2048,)),) for name in ("x", "scores"))
    model = ModelArtifact(
        name="busy", framework="onnx", format="openvino", path=str(made), digest="1" * 64, inputs=inputs,
        outputs=outputs,
    )  # fmt: skip
    # Not by OpenBLAS, whose threads may wait for ever in a process that has converted by OpenVINO.
    return Case(model, {"x": x}, {"scores": np.einsum("ij,jk->ik", x, weights)})


def test_kernels_are_seen_where_they_are_asked_for(tmp_path: Path) -> None:
    """Requests of both levels are kept and say which; layers' times are of those without deeper instruments. 10 s."""
    inp = order(busy(tmp_path), tmp_path, deepest="library")
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert "problem" not in output.document, output.document
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    asked = [span.attributes["instrumented"] for span in spans if span.parent < 0]
    assert sorted(asked) == ["layer"] * REQUESTS + ["library"] * REQUESTS
    assert output.document["requests"] == REQUESTS
    assert not any(span.level == "library" for span in without_deeper(spans))
    plain = [span for span in without_deeper(spans) if span.level == "layer"]
    # OpenVINO tells means of all runs: one request of each level has the layers.
    assert len(output.document["layers"]["layers"]) == len(plain)
    kernels = kernels_of(with_library(spans), output.document["ceilings"])
    assert kernels is not None and {each.library for each in kernels.kernels} >= {"OpenVINO"}
    assert [each["level"] for each in output.document["overheads"]][-2:] == ["layer", "library"]
    assert leftovers(inp.run_id) == []


def test_a_trace_that_fails_leaves_the_run_alone(tmp_path: Path) -> None:
    """A model that can't be loaded any more: the stage ends with the reason and no error, and no server is left."""
    case = dense_case(tmp_path)
    inp = order(case, tmp_path)
    Path(case.model.path).write_bytes(b"no model")
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert output.spans_path is None
    assert "log" in output.document["problem"]
    assert leftovers(inp.run_id) == []


def test_a_server_that_answers_otherwise_is_not_traced(tmp_path: Path) -> None:
    """Times of wrong answers are no times of the model: the trace says which instruments were on, and has no spans."""
    case = dense_case(tmp_path)
    wrong = {name: answers * 1.5 for name, answers in case.reference.items()}
    inp = order(Case(case.model, case.samples, wrong), tmp_path)
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert output.spans_path is None
    assert output.document["problem"].startswith("With the instruments of the level application on: Output")
    assert leftovers(inp.run_id) == []
