"""Safetensors weights with the user's own Python file: what fits is built, what doesn't is explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.submission.model import FileModel
from inferbench_tasks.submission.reader import read_submission_text

NET = """
import torch

def build():
    return torch.nn.Linear(4, 2)

def half():
    return torch.nn.Linear(2, 2)

def broken():
    return {}["nothing"]

def other():
    return 7
"""
SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [2]}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    save_file(torch.nn.Linear(4, 2).state_dict(), tmp_path / "net.safetensors")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "net.safetensors.signature.json").write_text(json.dumps(SIGNATURE))
    return tmp_path


def make(folder: Path, **spec: Any) -> Any:
    given = {"kind": "file", "path": "net.safetensors", "module": "net.py", **spec}
    source = FileSource(FileModel.model_validate(given), folder)
    (folder / "made").mkdir(exist_ok=True)
    return source.make(folder / "made", Watch())


def test_the_weights_are_loaded_into_the_users_network(folder: Path) -> None:
    """The model answers what its own network answers with its own weights, and its costs are counted."""
    from safetensors.numpy import load_file

    from inferbench_tasks.formats.base import FORMATS

    spec = FileModel(kind="file", path="net.safetensors", module="net.py")
    model = build_model(FileSource(spec, folder), folder / "data", Watch())
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    weights = load_file(folder / "net.safetensors")
    answer = FORMATS.load("torch")().open(model)({"x": x})
    np.testing.assert_allclose(answer["y"], x @ weights["weight"].T + weights["bias"], rtol=1e-6)
    assert (model.format, model.parameters, model.flops) == ("torch", 10, 16)


def test_the_same_weights_and_code_are_the_same_model_everywhere(folder: Path) -> None:
    """In two caches the digest is the same: running the module leaves no bytecode behind."""
    spec = FileModel(kind="file", path="net.safetensors", module="net.py")
    models = [build_model(FileSource(spec, folder), folder / name, Watch()) for name in ("one", "two")]
    assert models[0].digest == models[1].digest
    assert not list(folder.rglob("*.pyc"))


def test_other_code_is_another_model(folder: Path) -> None:
    """The module's text is part of the model's identity: a cached artefact of old code is not taken."""
    spec = FileModel(kind="file", path="net.safetensors", module="net.py")
    before = FileSource(spec, folder).settings()
    (folder / "net.py").write_text(NET + "# changed\n")
    assert FileSource(spec, folder).settings() != before


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"factory": "half"}, r"size mismatch for weight"),
        ({"factory": "broken"}, r"model\.module: line 11: KeyError: 'nothing'"),
        ({"factory": "other"}, r"other\(\) returned int; it has to return a torch\.nn\.Module"),
        ({"factory": "absent"}, r"no function absent; it has: build, half, broken, other"),
    ],
)
def test_what_does_not_fit_is_explained(folder: Path, spec: dict[str, str], message: str) -> None:
    """Wrong sizes, the user's own exception with its line, a wrong return, a missing function."""
    with pytest.raises(InputError, match=message):
        make(folder, **spec)


def test_a_syntax_error_has_its_line(folder: Path) -> None:
    """The user's file is named by its own line, not by ours."""
    (folder / "net.py").write_text("import torch\n\ndef build(:\n")
    with pytest.raises(InputError, match=r"model\.module: line 3: SyntaxError"):
        make(folder)


def test_truncated_weights_are_refused(folder: Path) -> None:
    """Half a file is damaged, not a crash."""
    path = folder / "net.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="can't be read"):
        make(folder)


def test_a_module_outside_is_refused(folder: Path) -> None:
    """Only code below the submission's folder is run."""
    inside = folder / "inside"
    inside.mkdir()
    (folder / "net.safetensors").rename(inside / "net.safetensors")
    (inside / "net.py").symlink_to(folder / "net.py")
    with pytest.raises(InputError, match=r"model\.module: net\.py leads out"):
        make(inside)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{kind: file, path: net.safetensors}", "name the Python file that builds it"),
        ("{kind: file, path: net.onnx, module: net.py}", "module goes with .safetensors weights only"),
        (
            "{kind: file, path: net.safetensors, module: net.py, factory: 'os.system'}",
            "the name of a function",
        ),
    ],
)
def test_a_wrong_combination_is_found_before_anything_starts(model: str, message: str) -> None:
    """Validation says it with the line."""
    text = f"name: x\nmodel: {model}\nload: {{arrivals: {{kind: constant, rate_rps: 1}}}}\n"
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(text, "x.yaml", INSTALLED)
    assert "x.yaml:2" in str(caught.value) and message in str(caught.value)
