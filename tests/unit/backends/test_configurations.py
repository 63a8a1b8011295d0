"""A submission's settings in each backend's own words."""

from __future__ import annotations

import json
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends import triton, triton_environment
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.backends.openvino import OpenVino
from inferbench_tasks.backends.other_runtimes import Runtime
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.tensorflow_serving import TensorFlowServing, batching_parameters, tag_of
from inferbench_tasks.backends.triton_config import pbtxt
from inferbench_tasks.cli.backends import row
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.stages.serve import is_light
from inferbench_tasks.submission.schema import JobSpec, ServeSpec
from tests.serving_cases import dense_case


def spec(**given: Any) -> ServeSpec:
    """A ``serve:`` section."""
    return ServeSpec.model_validate(given)


@contextmanager
def metadata(said: dict[str, str]) -> Iterator[Endpoint]:
    """A server that says that of itself at ``/v2``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(said).encode() if self.path == "/v2" else b"{}"
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Endpoint(protocol="http", host="127.0.0.1", port=server.server_port, model_name="m")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ready(backend: triton.Triton, endpoint: Endpoint) -> None:
    """What is called of a backend once its server is ready."""
    backend.on_live(endpoint, 5.0)
    backend.on_ready()


def test_tensorflow_serving_gets_its_batching_file() -> None:
    """The delay in us, the sizes ascending and ending with the maximum."""
    text = batching_parameters(
        spec(threads=2, batching={"max_batch_size": 8, "max_delay_ms": 2.5, "preferred_batch_sizes": [4, 2]})
    )
    assert "max_batch_size { value: 8 }" in text
    assert "batch_timeout_micros { value: 2500 }" in text
    assert [line for line in text.splitlines() if "allowed" in line] == [
        "allowed_batch_sizes: 2",
        "allowed_batch_sizes: 4",
        "allowed_batch_sizes: 8",
    ]
    assert batching_parameters(spec()) == ""


def test_tensorflow_serving_mounts_the_model_read_only_at_its_version(tmp_path: Path) -> None:
    """In a container the model stands where the server looks for a version of it."""
    model = dense_case(tmp_path).model.model_copy(update={"format": "savedmodel", "version": 3})
    deployment = Deployment("r", model, spec(launcher="container", threads=4), tmp_path, tmp_path, "grpc")
    backend = TensorFlowServing()
    launch = backend.prepare(deployment).launch
    assert launch.mounts == {model.path: str(tmp_path / "repository" / "dense" / "3")}
    assert launch.image == "tensorflow/serving:2.18.0"
    assert "--tensorflow_intra_op_parallelism=4" in launch.argv
    assert not any("batching" in argument for argument in launch.argv)
    assert backend.label() == "TensorFlow Serving 2.18.0"


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("tensorflow/serving:2.18.0", "2.18.0"),
        (f"registry:5000/tensorflow/serving:2.19.0@sha256:{'a' * 64}", "2.19.0"),
        (f"tensorflow/serving@sha256:{'a' * 64}", ""),
        ("registry:5000/serving", ""),
    ],
)
def test_a_digest_is_no_version(tmp_path: Path, image: str, tag: str) -> None:
    """Nor is a registry's port: an image without a tag has a version that is not known."""
    assert tag_of(image) == tag
    model = dense_case(tmp_path).model.model_copy(update={"format": "savedmodel"})
    served = spec(backend="tensorflow_serving", launcher="container", image=image)
    backend = TensorFlowServing()
    backend.prepare(Deployment("r", model, served, tmp_path, tmp_path, "grpc"))
    assert backend.version() == (tag or "unknown")


@pytest.mark.parametrize("stored", ["fp32", "fp16", "int8"])
def test_openvino_computes_in_what_the_job_asks_for(tmp_path: Path, stored: str) -> None:
    """Whatever a file's weights are in: OpenVINO's own tools keep them in half precision by default."""
    model = dense_case(tmp_path).model.model_copy(update={"format": "openvino", "precision": stored})
    for asked, hint in {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}.items():
        deployment = Deployment("r", model, spec(), tmp_path, tmp_path, precision=asked)
        assert OpenVino().engine_settings(deployment) == {"inference_precision": hint}


def test_tritons_configuration_is_protobuf_text() -> None:
    """Strings quoted, enumerations not, lists of messages repeated, parameters a map."""
    text = pbtxt(
        {
            "name": 'a"b',
            "max_batch_size": 4,
            "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3, -1]}],
            "parameters": {"threads": {"string_value": "2"}},
            "dynamic_batching": {"preferred_batch_size": [2, 4], "max_queue_delay_microseconds": 500},
        }
    )
    assert text.splitlines() == [
        'name: "a\\"b"',
        "max_batch_size: 4",
        "input {",
        '  name: "x"',
        "  data_type: TYPE_FP32",
        "  dims: [3, -1]",
        "}",
        'parameters { key: "threads" value { string_value: "2" } }',
        "dynamic_batching {",
        "  preferred_batch_size: [2, 4]",
        "  max_queue_delay_microseconds: 500",
        "}",
    ]


def test_the_stand_in_never_passes_for_tensorflow_serving() -> None:
    """Its label begins with what it is not."""
    assert BACKENDS.load("tfs_protocol")().label().startswith("not TensorFlow Serving:")


def test_triton_says_which_backend_of_its_own_runs_the_model() -> None:
    """Its python backend is not its native one."""
    assert "not Triton's native ONNX backend" in BACKENDS.load("triton")().label()


@pytest.mark.parametrize("kind", list(BACKENDS))
def test_every_backend_has_a_card(kind: str) -> None:
    """Kind, formats, protocols, launchers, and whether it can run here or why not."""
    card = row(kind)
    assert card["backend"] == BACKENDS.load(kind).kind == kind
    assert card["formats"]
    assert card["protocols"]
    assert card["launchers"]
    assert card["here"].startswith(("yes (", "no: "))


def test_free_ports_differ() -> None:
    """Ports that are asked for together are different ones."""
    assert len(set(free_ports(20))) == 20


def test_tritons_image_has_what_its_environment_has(tmp_path: Path) -> None:
    """One lock, of the versions of the backend, makes both; in a container paths are those of the image."""
    text = (Path(__file__).resolve().parents[3] / "docker" / "triton" / "Dockerfile").read_text()
    environment = triton_environment.environment()
    assert environment.lock is not None
    assert (
        "backends/locks/triton.txt /src/" in text and "--require-hashes --requirement /src/triton.txt" in text
    )
    pins = environment.lock.read_text().split()
    assert (
        f"nvidia-pytriton=={triton_environment.PYTRITON}" in pins
        and f"numpy=={triton_environment.NUMPY}" in pins
    )
    assert f"python {triton.IMAGE_HOME} " in text
    model = dense_case(tmp_path).model
    deployment = Deployment("r", model, spec(backend="triton", launcher="container"), tmp_path, tmp_path)
    launch = triton.Triton().prepare(deployment).launch
    assert launch.image == "inferbench/server:triton"
    server = next(word for word in launch.argv if word.endswith("/tritonserver"))
    assert server.startswith(f"{triton.IMAGE_HOME}/lib/")
    assert f"--backend-directory={tmp_path / 'backends'}" in launch.argv  # not below the read-only root
    assert launch.mounts == {str(tmp_path): str(tmp_path)}
    assert launch.env["PATH"].startswith(f"{triton.IMAGE_HOME}/bin:")


@pytest.mark.parametrize("name", ["theirs/triton", "inferbench/server", triton.IMAGE])
def test_of_a_named_image_only_what_its_server_tells_is_said(name: str, tmp_path: Path) -> None:
    """An image of ours under a digest may be of any release. Neither label nor settings name what is pinned here, nor
    what a manifest says of nvidia-pytriton, whose number is not the server's."""
    image = f"{name}@sha256:{'a' * 64}"
    served = spec(backend="triton", launcher="container", image=image)
    deployment = Deployment("r", dense_case(tmp_path).model, served, tmp_path, tmp_path)
    deployment = replace(deployment, runtime=Runtime("nvidia-pytriton", "0.6.0", None))
    backend = triton.Triton()
    prepared = backend.prepare(deployment)
    assert backend.version() == "unknown" and prepared.settings["python_backend"] is None
    assert triton.TRITON not in backend.label() and image in backend.label()
    with metadata({"name": "triton", "version": "2.40.0"}) as endpoint:
        ready(backend, endpoint)
    assert backend.version() == "2.40.0" and "pytriton" not in backend.label()
    assert backend.label().startswith(f"Triton 2.40.0 of the image {image}, python backend with that image's")


def test_triton_that_tells_no_version_is_served_all_the_same(tmp_path: Path) -> None:
    """What is pinned here has its pinned version then; so has what is built here, under its usual name."""
    with metadata({"name": "triton"}) as endpoint:
        backend = triton.Triton()
        ready(backend, endpoint)
    assert backend.version() == triton.TRITON and f"Triton {triton.TRITON}, " in backend.label()
    ready(backend, endpoint)  # nobody listens there any more
    assert backend.version() == triton.TRITON
    deployment = Deployment("r", dense_case(tmp_path).model, spec(), tmp_path, tmp_path)
    ours = triton.Triton()
    ours.prepare(replace(deployment, spec=spec(backend="triton", launcher="container", image=triton.IMAGE)))
    assert ours.version() == triton.TRITON


def test_triton_says_which_library_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy, before anything starts; a container brings its own."""
    monkeypatch.setattr(triton_environment, "find_library", lambda name: None)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "/nonesuch")
    triton_environment.libpython_folder.cache_clear()
    try:
        told = triton.Triton.unavailable("process")
        assert told is not None and "libpython3.11.so.1.0" in told and "apt-get install libpython3.11" in told
        assert triton.Triton.unavailable("container") is None
    finally:
        triton_environment.libpython_folder.cache_clear()


def test_triton_takes_this_pythons_library_where_the_loader_knows_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its folder is the server's, too."""
    (tmp_path / triton_environment.LIBPYTHON).touch()
    monkeypatch.setattr(triton_environment, "find_library", lambda name: None)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: str(tmp_path))
    triton_environment.libpython_folder.cache_clear()
    try:
        assert triton_environment.libpython_folder() == str(tmp_path)
        assert triton.Triton.unavailable("process") is None
    finally:
        triton_environment.libpython_folder.cache_clear()


@pytest.mark.parametrize("light", [True, False])
def test_triton_traces_under_light_loads_only(tmp_path: Path, light: bool) -> None:
    """Traced under full load it is slower and crashes; the result says whether it was traced."""
    served = spec(backend="triton", launcher="container")
    deployment = Deployment("r", dense_case(tmp_path).model, served, tmp_path, tmp_path, trace=light)
    prepared = triton.Triton().prepare(deployment)
    assert any("--trace-config" in word for word in prepared.launch.argv) is light
    assert (prepared.settings["trace"] is not None) is light
    assert (prepared.drawn.get("trace") is not None) is light


@pytest.mark.parametrize(
    ("served", "protocol", "model_format"),
    [
        (spec(backend="triton", launcher="container", batching={"max_batch_size": 8}), "http", "onnx"),
        (spec(backend="tensorflow_serving", launcher="container", batching={}), "grpc", "savedmodel"),
        (spec(backend="onnxruntime", threads=2), "http", "onnx"),
    ],
    ids=lambda value: getattr(value, "backend", None),
)
def test_two_starts_of_one_configuration_have_equal_settings(
    tmp_path: Path, served: ServeSpec, protocol: str, model_format: str
) -> None:
    """Ports and the folders of the two runs stand apart: else each run were a configuration of its own."""
    model = dense_case(tmp_path).model.model_copy(update={"format": model_format})
    prepared = []
    for run_id in ("r.000", "r.001"):
        folder = tmp_path / run_id
        folder.mkdir()
        deployment = Deployment(run_id, model, served, folder, tmp_path, protocol, trace=True)
        prepared.append(BACKENDS.load(served.backend, "serve.backend")().prepare(deployment))
    first, second = prepared
    assert first.settings == second.settings
    assert str(tmp_path / "r.000") not in str(first.settings)
    assert first.drawn != second.drawn or not first.drawn


@pytest.mark.parametrize(
    ("arrivals", "light"),
    [
        ({"kind": "poisson", "rate_rps": 50}, True),
        ({"kind": "constant", "rate_rps": 51}, False),
        ({"kind": "closed_loop", "concurrency": 1}, False),
        ({"kind": "offline", "requests": 10}, False),
    ],
)
def test_what_is_a_light_load(arrivals: dict[str, Any], light: bool) -> None:
    """A steady trickle; users who ask as fast as they are answered are none."""
    job = {"name": "x", "model": {"kind": "zoo", "name": "digits"}, "load": {"arrivals": arrivals}}
    assert is_light(JobSpec.model_validate(job)) is light
