"""The example of ``docs/how-to/own-brick-runtime.md``: installed, it is asked for by its name, cuts and times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.example_package import installed_beside

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "onnx-reference-runtime"
#: Runs in a process of its own: entry points are read once per process.
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.chain import prove
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.measure.bound import BoundNetwork
from inferbench_tasks.bricks.measure.networks import brick_item
from inferbench_tasks.bricks.measure.session import setting
from inferbench_tasks.bricks.runtimes import RUNTIMES, runtime_of
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.submission.reader import read_submission_data
from tests.unit.bricks.graphs import image, residual

def problems(bricks):
    models = [{"model": {"kind": "zoo", "name": "digits"}}]
    try:
        read_submission_data({"kind": "bricks", "name": "x", "models": models, "bricks": bricks}, "x.yaml", INSTALLED)
    except SubmissionError as error:
        return str(error)
    return ""

folder = Path(sys.argv[1])
name = "onnx-reference"
path, feeds = residual(folder / "m.onnx"), image()
graph = layer_graph(path, feeds, "runtime", folder, name)
bricks = list(cut(graph, 1))
answers = runtime_of(name).open(path, feeds, threads=1, whole=True).answers(feeds)
proof = prove(graph, bricks, feeds, dict(zip(graph.outputs, answers)), folder)
item = brick_item(graph, bricks[0], folder)
with np.load(item.feeds) as file:
    network = BoundNetwork(item.path, dict(file), threads=1, whole=False, runtime=name)
print(json.dumps({
    "listed": list(RUNTIMES), "origin": RUNTIMES.origin(name), "fine": problems({"runtime": name}),
    "int8": problems({"runtime": name, "precision": "int8"}), "typo": problems({"runtime": "onnx-referenc"}),
    "proved": proof.holds, "bricks": len(bricks), "times": network.warm_ns(5, 1.0),
    "setting": setting([0], 1, name).runtime,
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What it leads to in an environment in which it is installed beside InferBench."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("work"))],
        env=installed_beside(EXAMPLE.name, tmp_path_factory),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_it_is_a_runtime_like_the_others(found: dict[str, Any]) -> None:
    """Listed with its package, allowed in submissions, in messages, and told apart in results."""
    assert "onnx-reference" in found["listed"] and {"onnxruntime", "openvino"} < set(found["listed"])
    assert found["origin"] == "inferbench-onnx-reference-runtime 1.0" and found["fine"] == ""
    assert "did you mean 'onnx-reference'?" in found["typo"]
    assert "bricks.precision: ONNX's reference evaluator bricks are of fp32; got int8" in found["int8"]
    assert found["setting"].startswith("onnx-reference 1.")


def test_its_bricks_are_the_model_and_are_timed(found: dict[str, Any]) -> None:
    """Nine layers as converted; chained they answer as its own whole model, and one of them has times."""
    assert found["proved"] and found["bricks"] == 9
    assert len(found["times"]) == 5 and all(ns > 0 for ns in found["times"])


def test_the_guide_shows_what_the_example_has() -> None:
    """The classes and the entry point in the guide are the package's own."""
    guide = (ROOT / "docs" / "how-to" / "own-brick-runtime.md").read_text()
    code = (EXAMPLE / "inferbench_reference_runtime" / "runtime.py").read_text()
    assert code[code.index("class Reference") :].strip() in guide
    assert (EXAMPLE / "pyproject.toml").read_text().split("\n\n")[2] in guide
