"""Every pair that ``inferbench formats`` shows really converts, answers as its source, and is cached.

Each source format stands for a real trained model: digits in scikit-learn, a canonical network in PyTorch
and in TensorFlow, and files of the user's that were exported from these.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.first_answer import check_answer, first_rows, load_reference
from inferbench_tasks.backends.torch_export import TorchExport
from inferbench_tasks.cli.formats import rows
from inferbench_tasks.formats.aotinductor import compiler
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import convert, generate
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import ServeSpec

# The frameworks warn within themselves; in a run their work is done in a child, where nobody listens.
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

CANONICAL = {"kind": "canonical", "family": "mlp", "neurons": 32, "layers": 1, "training": {"epochs": 4}}
MODELS: dict[str, dict[str, Any]] = {
    "sklearn": {"kind": "zoo", "name": "digits"},
    "torch": {**CANONICAL, "framework": "torch"},
    "keras": {**CANONICAL, "framework": "tensorflow"},
    "onnx": {"kind": "file", "path": "m.onnx"},
    "torchscript": {"kind": "file", "path": "m.pt"},
    "pt2": {"kind": "file", "path": "m.pt2"},
    "savedmodel": {"kind": "file", "path": "saved"},
    "openvino": {"kind": "file", "path": "m.xml"},
    "tflite": {"kind": "file", "path": "m.tflite"},
}
#: Two of the zoo's large networks: what works for 32 neurons need not work for these.
LARGE = ("bert-base", "cyclegan")
MODELS |= {name: {"kind": "zoo", "name": name, "framework": "torch"} for name in LARGE}
#: File format -> the source that such a file is exported from.
EXPORTED = {
    "onnx": "torch",
    "torchscript": "torch",
    "pt2": "torch",
    "savedmodel": "keras",
    "openvino": "torch",
    "tflite": "keras",
}
#: Compiling ahead of time takes half a minute for each model.
COMPILED = pytest.mark.skipif(
    compiler() is None or not os.environ.get("INFERBENCH_TEST_OPTIONAL"),
    reason="compiling takes minutes; with a C++ compiler, INFERBENCH_TEST_OPTIONAL=1 runs it",
)


def pairs() -> list[Any]:
    """(source, target, precision) of every way."""
    found = []
    for row in rows():
        for precision in row["precisions"].split(", "):
            pair = (row["from"], row["to"], precision)
            marks = [COMPILED] if row["to"] == "aotinductor" else []
            # OpenVINO rounds what it has read, from whatever that was.
            rounded = row["to"] == "openvino" and precision in ("fp16", "int8") and row["from"] != "onnx"
            found.append(pytest.param(*pair, marks=[*marks, pytest.mark.long] if rounded else marks))
    return found


PAIRS = pairs()


class Workshop:
    """One data directory for all pairs, so that nothing is trained twice."""

    def __init__(self, folder: Path) -> None:
        self.data, self.base = folder / "data", folder / "submission"
        self.base.mkdir()
        self.context = Context(data_dir=self.data, base_dir=self.base)
        self._generated: dict[str, generate.Output] = {}

    def job(self, source: str, target: str = "onnx", precision: str = "fp32", **more: Any) -> dict[str, Any]:
        return {
            "name": "pair",
            "model": MODELS[source],
            "requests": {"samples": 4, "kind": "random"} if source in LARGE else {"samples": 32},
            "convert": {"format": target, "precision": precision, **more},
            "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
        }

    def generated(self, source: str) -> generate.Output:
        if source not in self._generated:
            if source in EXPORTED:
                self._export(source)
            inp = generate.Input(run_id="r", job_id="j", job=self.job(source))
            self._generated[source] = generate.run(inp, self.context)
        return self._generated[source]

    def _export(self, form: str) -> None:
        output = self.produce(EXPORTED[form], form, "fp32")
        target = self.base / str(MODELS[form]["path"])
        if form == "savedmodel":
            shutil.copytree(output.model.path, target)
            return
        shutil.copyfile(output.model.path, target)
        if form == "openvino":
            shutil.copyfile(Path(output.model.path).with_suffix(".bin"), target.with_suffix(".bin"))
            return
        told = {
            part: [spec.model_dump(mode="json") for spec in getattr(output.model, part)]
            for part in ("inputs", "outputs")
        }
        target.with_name(target.name + ".signature.json").write_text(json.dumps(told))

    def input(self, source: str, target: str, precision: str, **more: Any) -> convert.Input:
        job = self.job(source, target, precision, **more)
        made = self.generated(source)
        return convert.Input(run_id="r", job_id="j", job=job, generate=made)

    def produce(self, source: str, target: str, precision: str, **more: Any) -> convert.Output:
        inp = self.input(source, target, precision, **more)
        return convert.run(inp, self.context)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("formats"))


@pytest.mark.parametrize(("source", "target", "precision"), PAIRS, ids=str)
def test_pair(workshop: Workshop, source: str, target: str, precision: str) -> None:
    """It converts within the tolerance, keeps the accuracy within 3 %, and is not converted again."""
    for form in (source, target):
        if reason := FORMATS.load(form)().unavailable():
            pytest.skip(reason)
    output = workshop.produce(source, target, precision)
    assert output.model.format == target and output.model.precision == precision
    assert output.difference_ratio <= output.tolerance_ratio
    if precision in ("fp16", "bf16", "int8"):
        assert output.difference_ratio > 0, "nothing was rounded: the precision is not real"
    before = workshop.generated(source).model.accuracy_ratio
    if before is not None:
        assert output.accuracy_ratio is not None and before > 0.8
        assert abs(output.accuracy_ratio - before) <= 0.03
    again = perform(convert, workshop.input(source, target, precision), workshop.context)
    assert again.cached and again.model == output.model


@pytest.mark.skipif(
    not os.environ.get("INFERBENCH_TEST_OPTIONAL"),
    reason="gigabytes of weights and minutes for each; INFERBENCH_TEST_OPTIONAL=1 runs it",
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", [row["to"] for row in rows() if row["from"] == "torch"])
@pytest.mark.parametrize("name", LARGE)
def test_a_large_network_converts_to_every_format(workshop: Workshop, name: str, target: str) -> None:
    """BERT and CycleGAN answer in each format as PyTorch does, alone and in a batch."""
    if reason := FORMATS.load(target)().unavailable():
        pytest.skip(reason)
    output = workshop.produce(name, target, "fp32")
    assert output.model.format == target
    assert output.difference_ratio <= output.tolerance_ratio


def test_beyond_the_tolerance_the_run_stops(workshop: Workshop) -> None:
    """Even when the conversion is cached: the message has both values."""
    from inferbench_tasks.errors import ConversionError

    workshop.produce("sklearn", "onnx", "int8")
    with pytest.raises(ConversionError, match=r"1e-09 is allowed: converted .*, source .*tolerance_ratio"):
        workshop.produce("sklearn", "onnx", "int8", tolerance_ratio=1e-9)


def test_a_damaged_conversion_is_made_again(workshop: Workshop) -> None:
    """A cached model with a changed byte is never served."""
    output = workshop.produce("sklearn", "onnx", "fp32")
    path = Path(output.model.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    again = workshop.produce("sklearn", "onnx", "fp32")
    assert not again.cached and again.difference_ratio < 1e-5


@COMPILED
def test_a_compiled_package_is_served(workshop: Workshop, tmp_path: Path) -> None:
    """AOTInductor's machine code answers through the server as its source does, alone and in a batch."""
    output = workshop.produce("torch", "aotinductor", "fp32")
    samples, reference = load_reference(workshop.generated("torch").requests)
    spec = ServeSpec(backend="torch_export")
    deployment = Deployment("compiled", output.model, spec, tmp_path, tmp_path)
    try:
        started = startup.start(TorchExport(), deployment, ProcessLauncher(), tmp_path / "servers")
        assert "AOTInductor" in started.backend.label()
        for rows in (1, 5):
            answer = started.probe.infer(first_rows(samples, rows))
            assert check_answer(answer, reference, output.model, rows, 1e-4) <= 1e-4
        started.probe.close()
    finally:
        records.end_run(tmp_path / "servers", "compiled")
