"""TorchServe's configuration, its handler, and what is said where it can't run."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.backends import torchserve
from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.torchserve import TorchServe, write_archive, write_unmanaged
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.submission.schema import ServeSpec
from tests.serving_cases import dense_case


def deployment(folder: Path, **spec: Any) -> Deployment:
    case = dense_case(folder)
    return Deployment(
        "run", case.model, ServeSpec.model_validate({"backend": "torchserve", **spec}), folder, folder
    )


def test_without_java_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither JAVA_HOME nor java on PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("inferbench_tasks.backends.torchserve.shutil.which", lambda name: None)
    assert "openjdk-17-jre-headless" in str(TorchServe.unavailable("process"))


def test_the_archive_holds_model_handler_and_signature(tmp_path: Path) -> None:
    """As TorchServe's own archiver lays it out."""
    import zipfile

    (tmp_path / "store").mkdir()
    write_archive(deployment(tmp_path, threads=2), tmp_path)
    with zipfile.ZipFile(tmp_path / "store" / "dense.mar") as archive:
        manifest = json.loads(archive.read("MAR-INF/MANIFEST.json"))
        told = json.loads(archive.read("inferbench.json"))
        assert archive.read("model.pt") == (tmp_path / "dense.onnx").read_bytes()
        assert b"class Handler" in archive.read(manifest["model"]["handler"])
    assert told["threads"] == 2
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 6]}]


def test_its_grpc_management_serves_inference_and_another_torchserve_is_refused(tmp_path: Path) -> None:
    """The one class that names it names the other service instead, first on the class path; all else is as it was."""
    import zipfile

    parts = [
        "org/pytorch/serve/grpcimpl/ManagementImpl",
        "()V",
        "org/pytorch/serve/grpcimpl/InferenceImpl",
        "code",
    ]
    jar, name = tmp_path / "model-server.jar", "org/pytorch/serve/grpcimpl/GRPCServiceFactory.class"
    for given, taken in ((parts, True), (parts[1:], False), ([*parts, parts[0]], False)):
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr(name, b"".join(b"\x01" + struct.pack(">H", len(p)) + p.encode() for p in given))
        if not taken:
            with pytest.raises(ServerError, match="can't be left out"):
                write_unmanaged(jar, tmp_path / "other")
            continue
        folder = write_unmanaged(jar, tmp_path / "unmanaged")
        expected = [parts[2], *parts[1:]]
        code = b"".join(b"\x01" + struct.pack(">H", len(p)) + p.encode() for p in expected)
        assert (folder / name).read_bytes() == code


def test_what_its_batching_can_not_do_is_refused(tmp_path: Path) -> None:
    """It knows no preferred sizes; its delay has whole milliseconds, rounded up."""
    with pytest.raises(InputError, match="TorchServe has none"):
        torchserve._batching(
            deployment(tmp_path, batching={"max_batch_size": 8, "preferred_batch_sizes": [4]})
        )
    batching = {"max_batch_size": 8, "max_delay_ms": 0.5}
    assert torchserve._batching(deployment(tmp_path, batching=batching)) == (8, 1)


def test_counters_of_all_workers_are_added_and_a_dead_one_is_told(tmp_path: Path) -> None:
    """The handler's files; the log of a worker that can't load its model."""
    backend = TorchServe()
    backend._folder = tmp_path
    for pid, pair in ((1, (2, 8)), (2, (3, 4))):
        (tmp_path / f"counters-{pid}").write_bytes(struct.pack("<qq", *pair))
    assert backend.statistics(None) == {"execution_count": 5, "inference_count": 12}  # type: ignore[arg-type]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "model_log.log").write_text("x Backend worker process died.\nValueError: broken")
    with pytest.raises(ServerError, match=r"(?s)worker died.*ValueError: broken"):
        backend.ready(None)  # type: ignore[arg-type]


def test_the_handler_checks_its_inputs() -> None:
    """Names, datatypes, shapes; binary and JSON."""
    pytest.importorskip("torch")
    from inferbench_tasks.backends.torchserve_models.handler import Handler

    handler: Any = Handler()
    handler.config = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}
    given = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
    head = json.dumps({"inputs": [{**given, "parameters": {"binary_data_size": 8}}]}).encode()
    (array,) = handler.decode(bytearray(head + np.array([[1, 2]], "<f4").tobytes()), len(head))
    assert array.tolist() == [[1.0, 2.0]]
    assert handler.decode({"inputs": [{**given, "data": [3, 4]}]}, None)[0].tolist() == [[3.0, 4.0]]
    for change, words in (
        ({"name": "y"}, "x is missing"),
        ({"datatype": "INT32"}, "FP32 expected"),
        ({"shape": [2, 1]}, r"\[2, 1\] given"),
    ):
        with pytest.raises(ValueError, match=words):
            handler.decode({"inputs": [{**given, "data": [3, 4], **change}]}, None)
