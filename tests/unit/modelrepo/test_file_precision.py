"""What PyTorch's and TensorFlow's files of the user's are called: by what they keep, of real files."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.artifacts import exported_program, saved_model, torchscript
from inferbench_tasks.contracts.models import Made, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.stored_precision import FULL, UNKNOWN, of_dtypes
from inferbench_tasks.formats.torch import file_precision
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.submission.model import FileModel

SIGNATURE = (
    '{"inputs": [{"name": "x", "dtype": "float32", "shape": [16]}], '
    '"outputs": [{"name": "y", "dtype": "float32", "shape": [8]}]}'
)
MODULE = "import torch\ndef build():\n    return torch.nn.Linear(16, 8)\n"


def layers() -> Any:
    """Two layers, with a norm that keeps numbers of its own."""
    import torch

    torch.manual_seed(0)
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(16, 16), torch.nn.BatchNorm1d(16), linear(16, 8)).eval()


def quantised() -> Any:
    """Their dynamically quantised form: packed weights, no parameters."""
    import torch

    engines = [name for name in torch.backends.quantized.supported_engines if name != "none"]
    torch.backends.quantized.engine = engines[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(layers(), {torch.nn.Linear}, dtype=torch.qint8)


def by_hand() -> Any:
    """Weights in plain whole numbers, whose scale only its code knows."""
    import torch

    class Scaled(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.ones(8, 16, dtype=torch.int8))
            self.register_buffer("scale", torch.ones(8, 1))

        def forward(self, x: Any) -> Any:
            return x @ (self.weight.float() * self.scale).T

    return Scaled().eval()


def make(folder: Path, spec: dict[str, Any]) -> Made:
    """What a file of the user's becomes."""
    (folder / f"{spec['path']}.signature.json").write_text(SIGNATURE)
    (folder / "made").mkdir()
    source = FileSource(FileModel.model_validate({"kind": "file", **spec}), folder)
    return source.make(folder / "made", Watch())


@pytest.mark.parametrize("frozen", [False, True])
def test_a_torchscript_file_is_called_by_what_it_keeps(frozen: bool, tmp_path: Path) -> None:
    """Parameters, constants of a frozen one, packed quantised weights; plain whole numbers are not guessed at."""
    import torch

    network = layers()
    cases = [
        (network, torch.float32, FULL),
        (layers().half(), torch.float16, "fp16"),
        (layers().bfloat16(), torch.bfloat16, "bf16"),
        (quantised(), torch.float32, "int8"),
        (by_hand(), torch.float32, FULL if frozen else UNKNOWN),  # freezing multiplies what is constant
    ]
    for module, dtype, expected in cases:
        path = tmp_path / "m.pt"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(module, torch.ones(2, 16, dtype=dtype))
            torch.jit.save(torch.jit.freeze(traced) if frozen else traced, str(path))
        assert of_dtypes(torchscript.check(path)) == expected, (module, frozen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(layers().half(), torch.ones(2, 16).half()), str(tmp_path / "half.pt"))
    assert make(tmp_path, {"path": "half.pt"}).precision == "fp16"


def test_an_exported_program_is_called_by_what_it_keeps(tmp_path: Path) -> None:
    """Of its weights and constants, without loading it."""
    import torch

    for module, dtype, expected in (
        (layers(), torch.float32, FULL),
        (layers().bfloat16(), torch.bfloat16, "bf16"),
        (by_hand(), torch.float32, UNKNOWN),
    ):
        program = torch.export.export(module, (torch.ones(2, 16, dtype=dtype),))
        torch.export.save(program, str(tmp_path / "m.pt2"))
        assert of_dtypes(exported_program.stored(tmp_path / "m.pt2")) == expected
    assert make(tmp_path, {"path": "m.pt2"}).precision == UNKNOWN
    with (
        zipfile.ZipFile(tmp_path / "m.pt2") as whole,
        zipfile.ZipFile(tmp_path / "broken.pt2", "w") as broken,
    ):
        for entry in whole.infolist():
            content = whole.read(entry)
            broken.writestr(entry.filename, content.replace(b'"sizes"', b'"sizse"'))
    with pytest.raises(InputError, match=r"weights_config\.json is damaged: KeyError\('sizes'\)"):
        exported_program.stored(tmp_path / "broken.pt2")


def test_weights_with_a_module_are_called_by_what_the_module_keeps_them_in(tmp_path: Path) -> None:
    """Half of the file's becomes fp32 in a network of fp32, which is what is served; a note says so."""
    from safetensors.torch import save_file

    (tmp_path / "net.py").write_text(MODULE)
    import torch

    state = torch.nn.Linear(16, 8).half().state_dict()
    save_file(dict(state), tmp_path / "w.safetensors")
    assert file_precision(tmp_path / "w.safetensors") == "fp16"
    made = make(tmp_path, {"path": "w.safetensors", "module": "net.py", "factory": "build"})
    assert made.precision == FULL and made.parameters == 136
    assert made.adapted == ("its weights are fp16, and its module keeps them in fp32",)


def test_a_module_in_half_precision_is_called_that(tmp_path: Path) -> None:
    """Whatever its file has; where both have the same there is nothing to say."""
    import torch
    from safetensors.torch import save_file

    (tmp_path / "net.py").write_text(MODULE.replace("(16, 8)", "(16, 8).half()"))
    save_file(dict(torch.nn.Linear(16, 8).half().state_dict()), tmp_path / "w.safetensors")
    made = make(tmp_path, {"path": "w.safetensors", "module": "net.py", "factory": "build"})
    assert made.precision == "fp16" and made.adapted == ()


@pytest.mark.parametrize("variables", [True, False])
def test_a_savedmodel_is_called_by_what_it_keeps(variables: bool, tmp_path: Path) -> None:
    """In variables, and in constants of a graph that has none; a training's own are not counted."""
    import numpy as np
    import tensorflow as tf

    holder = tf.Module()
    numbers: Any = np.ones((16, 8), np.float16)
    holder.weight = tf.Variable(numbers) if variables else tf.constant(numbers)
    holder.step = tf.Variable(np.int64(3))

    def serve(x: Any) -> dict[str, Any]:
        return {"y": tf.cast(tf.cast(x, tf.float16) @ holder.weight, tf.float32)}

    taken = [tf.TensorSpec([None, 16], tf.float32, name="x")]
    signature = tf.function(serve, input_signature=taken)
    tf.saved_model.save(holder, str(tmp_path / "m"), signatures={"serving_default": signature})
    assert saved_model.stored(tmp_path / "m").get("float16") == 128
    made = make(tmp_path, {"path": "m"})
    assert made.precision == "fp16" and made.format == "savedmodel"


@pytest.mark.parametrize(
    ("counts", "called"),
    [
        ({}, FULL),
        ({"float32": 10, "int8": 5, "int64": 1000}, FULL),
        # Of four bits there may be two in a byte, and eight in an int32.
        ({"float32": 10, "int8": 6}, UNKNOWN),
        ({"int32": 100, "float16": 150}, UNKNOWN),
        ({"int32": 100, "float16": 800}, "fp16"),
        ({"uint8": 400, "bfloat16": 450}, UNKNOWN),
        ({"uint8": 400, "bfloat16": 800}, "bf16"),
        ({"float32": 10, "uint8": 11}, UNKNOWN),
        ({"float16": 10, "int32": 11}, UNKNOWN),
        ({"float32": 3, "qint8": 8}, "int8"),
        ({"float8_e4m3fn": 8, "float32": 3}, "fp8"),
    ],
)
def test_plain_whole_numbers_are_no_weights_that_anybody_knows(counts: dict[str, int], called: str) -> None:
    """Where they are more than all others nobody says that the file is full; sizes and indices count for nothing."""
    assert of_dtypes(counts) == called
