"""TensorRT without a GPU: what it says, and the shapes that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.backends.tensorrt import TensorRt
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import Settings
from inferbench_tasks.formats.route import route
from inferbench_tasks.formats.tensorrt import TensorRtFormat, shapes
from inferbench_tasks.submission.check import check
from inferbench_tasks.submission.schema import JobSpec
from tests.serving_cases import dense_case


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without NVIDIA's tools."""
    monkeypatch.setattr("inferbench_tasks.formats.tensorrt.shutil.which", lambda name: None)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_says_where_an_engine_is_built(tmp_path: Path) -> None:
    """In the table, at the conversion and at the backend."""
    words = "built and served where its GPU is: this machine has no NVIDIA GPU"
    assert words in str(TensorRtFormat().unavailable())
    assert words in str(TensorRt.unavailable("process", "gpu"))
    with pytest.raises(InputError, match=words):
        TensorRtFormat().convert(dense_case(tmp_path).model, tmp_path, Settings())


def test_half_precision_is_made_before_the_engine() -> None:
    """Its networks are strongly typed: the ONNX model holds the precision."""
    hops = route("torch", "tensorrt", "fp16")
    assert [hop.target for hop in hops][-1] == "tensorrt" and hops[-1].precision == "fp32"
    assert [hop.precision for hop in hops].count("fp16") == 1


def test_the_profile_covers_batches_and_dynamic_axes() -> None:
    """Smallest, best and largest shape; a fixed size stays."""
    spec = TensorSpec(name="ids", dtype="int64", shape=(-1, 4))
    assert shapes(spec) == ((1, 1, 4), (8, 128, 4), (64, 512, 4))


def test_on_the_cpu_it_is_refused_before_anything_starts() -> None:
    """A submission that forgot the device."""
    job = {
        "name": "x",
        "model": {"kind": "zoo", "name": "resnet50"},
        "convert": {"format": "tensorrt"},
        "serve": {"backend": "tensorrt"},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
    }
    found = check(JobSpec.model_validate(job), INSTALLED)
    assert ["does not run on the device 'cpu'; it does: gpu" in finding.message for finding in found] == [
        True
    ]
