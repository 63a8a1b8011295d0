"""Processors give the same answers on the client's side and in the server, on every server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.first_answer import load_sent
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.errors import InputError
from inferbench_tasks.launchers import records
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.stages import PARTS, breakdown
from inferbench_tasks.monitors.records import EMPTY
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.requests.ragged import objects
from inferbench_tasks.stages import convert, generate, load, serve
from inferbench_tasks.stages.base import Context

pytestmark = pytest.mark.integration

SIDE = 8
NAMES = ["bright", "dark", "red"]
STEPS = {
    "before": [{"kind": "image", "settings": {"size": SIDE, "mean": 127.0, "std": 128.0}}],
    "after": [{"kind": "labels", "settings": {"names": NAMES, "top": 2}}],
}
OWN = [
    kind for kind in BACKENDS if BACKENDS.origin(kind) == "built-in" and BACKENDS.load(kind).server_processors
]
CASES = [
    # Processors know nothing of engines.
    pytest.param(
        kind, protocol, id=f"{kind}-{protocol}", marks=[pytest.mark.long] if kind == "openvino" else []
    )
    for kind in OWN
    for protocol in BACKENDS.load(kind).protocols
    if "onnx" in BACKENDS.load(kind).formats or "openvino" in BACKENDS.load(kind).formats
]


def write_case(folder: Path) -> None:
    """A linear classifier of pictures, and twelve pictures of different sizes as PNG files."""
    from PIL import Image

    rng = np.random.default_rng(3)
    weights = rng.normal(size=(3 * SIDE * SIDE, len(NAMES))).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["scores"]),
        ],
        "pictures",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", len(NAMES)])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx"
    )
    (folder / "pictures").mkdir()
    for number in range(12):
        pixels = rng.integers(0, 256, (20 + number, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{number:02}.png")


@dataclass
class Workshop:
    """One model and its pictures; the stages up to a running server."""

    data: Path
    base: Path

    def generated(self, job: dict[str, Any]) -> generate.Output:
        inp = generate.Input.model_validate({"run_id": "r", "job_id": "j", "job": job})
        return generate.run(inp, Context(data_dir=self.data, base_dir=self.base))

    @contextmanager
    def served(self, job: dict[str, Any], run_id: str) -> Iterator[tuple[serve.Output, generate.Output]]:
        made = self.generated(job)
        inputs = {"run_id": run_id, "job_id": "j", "job": job, "generate": made}
        context = Context(data_dir=self.data, base_dir=self.base)
        converted = convert.run(convert.Input.model_validate(inputs), context)
        try:
            yield serve.run(serve.Input.model_validate({**inputs, "convert": converted}), context), made
        finally:
            records.end_run(self.data / "servers", run_id)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    base = tmp_path_factory.mktemp("pictures")
    write_case(base)
    return Workshop(tmp_path_factory.mktemp("data"), base)


def job(side: str, backend: str = "onnxruntime", protocol: str = "http", **more: Any) -> dict[str, Any]:
    return {
        "name": "pictures",
        "model": {"kind": "file", "path": "m.onnx"},
        "requests": {"kind": "files", "path": "pictures"},
        "processors": {"side": side, **STEPS},
        "convert": {"format": BACKENDS.load(backend).formats[0]},
        "serve": {"backend": backend, "ready_timeout_s": 60.0},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}, "protocol": protocol},
        **more,
    }


@pytest.mark.parametrize(("backend", "protocol"), CASES)
def test_both_sides_give_the_same_answers(workshop: Workshop, backend: str, protocol: str) -> None:
    """On the client's side tensors go over the wire, in the server's files; names and scores are the same."""
    with workshop.served(job("client", backend, protocol), f"client-{backend}-{protocol}") as (server, made):
        processing = made.requests.processing
        assert processing is not None and set(processing.client_ms) == {"image", "labels"}
        assert all(ms > 0 for ms in processing.client_ms.values())
        pipeline = Pipeline(processing.before, processing.after, ["image"])
        samples, _ = load_sent(made.requests)
        assert samples["image"].shape == (12, 3, SIDE, SIDE)
        probe = open_probe(server.endpoint)
        expected, _ = pipeline.after(probe.infer(samples))
        probe.close()
    with workshop.served(job("server", backend, protocol), f"server-{backend}-{protocol}") as (server, made):
        files = read_inputs(made.requests.sent_path)["raw"]
        assert all(data.startswith(b"\x89PNG") for data in files.tolist())
        probe = open_probe(server.endpoint)
        answer = probe.infer({"raw": files})
        one = probe.infer({"raw": files[3:4]})
        with pytest.raises(Refused, match=r"inputs\.raw: Image 1 can't be decoded"):
            probe.infer({"raw": objects([files[0], b"no picture"])})
        probe.close()
    assert [[name.decode() for name in row] for row in answer["labels"].tolist()] == expected[
        "labels"
    ].tolist()
    np.testing.assert_allclose(answer["scores"], expected["scores"], rtol=1e-4)
    np.testing.assert_allclose(one["scores"][0], expected["scores"][3], rtol=1e-4)


def test_the_clients_processors_are_timed_in_every_request_of_a_run(workshop: Workshop) -> None:
    """By the pipeline's own stages: a picture is decoded for each request, on the client's side of the breakdown; the
    parts add up to the end-to-end latency."""
    arrivals = {"kind": "closed_loop", "concurrency": 1}
    asked = job(
        "client",
        load={
            "arrivals": arrivals,
            "batch_size": 2,
            "duration_s": 1.0,
            "warmup_s": 0.2,
            "wait_for_quiet_s": 0,
        },
    )
    with workshop.served(asked, "live") as (server, made):
        inputs = {"run_id": "live", "job_id": "j", "job": asked, "generate": made, "serve": server}
        context = Context(data_dir=workshop.data, base_dir=workshop.base)
        done = load.run(load.Input.model_validate(inputs), context)
    window = Window.of(read_samples(Path(done.samples_path)), done.measure_start_ns, done.measure_end_ns)
    assert window.answered.sum() > 10 and window.ok.all()
    found = breakdown(window, EMPTY)
    total = sum(found[part]["mean"] for part in PARTS)
    assert total == pytest.approx(found["e2e"]["mean"], rel=0.02)
    assert all(found["sides"][part]["client"] > 0 for part in ("preprocess", "postprocess"))


def test_the_servers_processors_are_timed_in_every_answer_and_by_kind(workshop: Workshop) -> None:
    """The spans of pre- and post-processing hold them; the statistics tell each by itself."""
    batching = {"serve": {"backend": "onnxruntime", "batching": {"max_batch_size": 4, "max_delay_ms": 1.0}}}
    with workshop.served(job("server") | batching, "timed") as (server, made):
        from inferbench_tasks.clients.kserve_http import encode_request

        files = read_inputs(made.requests.sent_path)["raw"]
        body = encode_request(server.endpoint, {"raw": files[:2]}).partition(b"\r\n\r\n")
        head = [line.split(": ", 1) for line in body[0].decode().split("\r\n")[1:]]
        url = f"http://{server.endpoint.url}/v2/models/{server.endpoint.model_name}"
        before = httpx.get(f"{url}/stats").json()["model_stats"][0]["processor_stats"]
        answer = httpx.post(f"{url}/infer", content=body[2], headers={k: v for k, v in head if k != "Host"})
        after = httpx.get(f"{url}/stats").json()["model_stats"][0]["processor_stats"]
        assert answer.status_code == 200
        for kind, span in (("image", "preprocess"), ("labels", "postprocess")):
            assert after[kind]["count"] == before[kind]["count"] + 1
            spent_ns = after[kind]["ns"] - before[kind]["ns"]
            assert 0 < spent_ns <= int(answer.headers[f"x-inferbench-{span}-ns"])
        inputs = httpx.get(url).json()["inputs"]
        assert inputs == [{"name": "raw", "datatype": "BYTES", "shape": [-1]}]


def test_what_can_not_be_is_refused(workshop: Workshop) -> None:
    """Settings that no processor has, tensors where files are needed, pictures of another size."""
    wrong = {"side": "client", "before": [{"kind": "image", "settings": {"sise": 8}}]}
    with pytest.raises(InputError, match="settings of image are wrong.*sise"):
        workshop.generated({**job("client"), "processors": wrong})
    other = {"side": "client", "before": [{"kind": "image", "settings": {"size": 9}}]}
    with pytest.raises(InputError, match=r"shape \[3, 9, 9\], the model takes \[3, 8, 8\]"):
        workshop.generated({**job("client"), "processors": other})
    with pytest.raises(InputError, match="has no data set"):
        workshop.generated({**job("client"), "requests": {}})
