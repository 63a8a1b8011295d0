"""The plug-ins of the how-to pages, installed as a package of somebody else's and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
POINT = re.compile(
    r'\[project\.entry-points\."(?P<group>[a-z.]+)"\]\n(?P<kind>\w+) = "my_package\.(?P<value>[\w.:]+)"'
)

#: How-to page -> what a program does with the variant once the package is installed; it prints JSON.
USES = {
    "own-arrival-process": """
import numpy as np
from inferbench_tasks.arrivals.base import ARRIVALS
process = ARRIVALS.load("pairs")(kind="pairs", rate_rps=100.0)
offsets_ns = process.offsets_ns(10.0, np.random.default_rng(0))
print(json.dumps([bool((np.diff(offsets_ns) >= 0).all()), 800 < len(offsets_ns) < 1200]))
""",
    "own-processor": """
import numpy as np
from inferbench_tasks.processors.base import PROCESSORS
print(json.dumps([PROCESSORS.load("grayscale")()(np.ones((2, 4, 4, 3))).shape == (2, 4, 4), True]))
""",
    "own-format": """
import tempfile, numpy as np
from pathlib import Path
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.formats.base import FORMATS, Settings
from inferbench_tasks.formats.route import route
folder = Path(tempfile.mkdtemp())
x = np.eye(3, dtype=np.float32)
graph = to_onnx(LinearRegression().fit(x, x.sum(1)), x)
(folder / "m.onnx").write_bytes(graph.SerializeToString())
inputs = (TensorSpec(name="X", dtype="float32", shape=(3,)),)
outputs = (TensorSpec(name="variable", dtype="float32", shape=(1,)),)
about = dict(name="m", framework="sklearn", digest="0" * 64, bytes=1, inputs=inputs, outputs=outputs)
source = ModelArtifact(path=str(folder / "m.onnx"), format="onnx", **about)
made = FORMATS.load("npz_onnx")()
made.convert(source, folder, Settings())
answer = made.open(ModelArtifact(path=str(folder / made.file), format="npz_onnx", **about))({"X": x})
ways = [hop.target for hop in route("sklearn", "npz_onnx")]
print(json.dumps([answer["variable"].shape == (3, 1), ways == ["onnx", "npz_onnx"]]))
""",
    "own-monitor": """
import os
from inferbench_tasks.monitors.base import MONITORS, Target
monitor = MONITORS.load("entropy")
target = Target(pid=os.getpid(), started_ns=0)
print(json.dumps([monitor.unavailable(target) is None, monitor(target).sample()["available_bits"] >= 0]))
""",
    "own-policy": """
from inferbench_tasks.scheduling.generators import GENERATORS, Recipe, generate
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.simulator import Simulator
outcome = Simulator(generate("A1", Recipe(1, 0.5, 50)), POLICIES.load("first_come")()).run()
print(json.dumps([len(outcome.jct_s()) == 50, outcome.mean_jct_s() > 0]))
""",
    "own-network": """
import torch
from inferbench_tasks.formats.architectures import construct
network = construct("torch", {"name": "perceptron", "arguments": {"inputs": 4, "hidden": 8, "outputs": 2}})
print(json.dumps([network(torch.zeros(3, 4)).shape == (3, 2), True]))
""",
}


@pytest.mark.integration
@pytest.mark.parametrize("page", USES)
def test_a_documented_plug_in_works_as_it_stands_there(page: str, tmp_path: Path) -> None:
    """The page's code and entry point, put where pip would put them, give a variant that the registry finds."""
    text = (HOW_TO / f"{page}.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    point = POINT.search(text)
    assert code and point
    module, _, _ = point["value"].partition(":")
    package, about = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    (package / "__init__.py").write_text("")
    (package / f"{module}.py").write_text(code[1])
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{point['group']}]\n{point['kind']} = my_package.{point['value']}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import json\n{USES[page]}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(HOW_TO.parents[1])])},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, True]
