"""The example of ``docs/how-to/add-a-backend.md`` is installed and serves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.example_package import installed_beside
from tests.serving_cases import dense_case, serve_input

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "onnx-reference-backend"
#: Runs in a process of its own: entry points are read once per process.
SCRIPT = """
import json, sys
from pathlib import Path
from inferbench_tasks.stages import release, serve
from inferbench_tasks.stages.base import Context
inp = serve.Input.model_validate_json(sys.stdin.read())
ctx = Context(data_dir=Path(sys.argv[1]))
output = serve.run(inp, ctx)
stopped = release.run(release.Input(run_id=inp.run_id, job_id=inp.job_id, job=inp.job, serve=output), ctx).stopped
print(json.dumps({"label": output.backend.label, "difference": output.difference_ratio, "stopped": stopped}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed beside InferBench."""
    return installed_beside(EXAMPLE.name, tmp_path_factory)


def test_it_is_listed_with_its_origin(installed: dict[str, str]) -> None:
    """``inferbench backends`` knows it, and which package brings it."""
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "backends", "-o", "json"]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=True)
    row = next(row for row in json.loads(done.stdout) if row["backend"] == "onnx_reference")
    assert row["origin"] == "inferbench-onnx-reference 1.0"
    assert row["here"] == "yes (process)"


def test_it_serves_a_checked_answer(installed: dict[str, str], tmp_path: Path) -> None:
    """From ``serve`` to ``release``, with batching, like a built-in one."""
    inp = serve_input(
        dense_case(tmp_path), tmp_path, "example", backend="onnx_reference", batching={"max_batch_size": 4}
    )
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "data")]
    done = subprocess.run(command, input=inp.model_dump_json(), env=installed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["label"].startswith("ONNX reference evaluator 1.")
    assert result["difference"] < 1e-5
    assert result["stopped"]


def test_the_guide_shows_what_the_example_has() -> None:
    """The card and the entry points in the guide are the package's own, in at most 60 lines of code."""
    guide = (ROOT / "docs" / "how-to" / "add-a-backend.md").read_text()
    backend = (EXAMPLE / "inferbench_onnx_reference" / "backend.py").read_text()
    for line in backend.splitlines():
        if line.startswith(("class ", "    kind", "    formats", "    title")):
            assert line.strip() in guide
    entry_points = (EXAMPLE / "pyproject.toml").read_text().split("dependencies")[1].split("[tool")[0]
    for line in entry_points.splitlines()[1:]:
        assert line in guide
    code = sum(len(path.read_text().splitlines()) for path in EXAMPLE.rglob("*.py"))
    assert code <= 60
