"""What every trainer promises, tested on those of ours and on the package of ``examples/accelerate-trainer``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.trainers.base import TRAINERS
from tests.example_package import installed_beside

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "accelerate-trainer"
OURS = [kind for kind in TRAINERS if TRAINERS.origin(kind) == "built-in"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed beside InferBench."""
    return {**installed_beside(EXAMPLE.name, tmp_path_factory), "OMP_NUM_THREADS": "1"}


@pytest.fixture(params=[*OURS, "accelerate"])
def trainer(request: pytest.FixtureRequest) -> str:
    """Each in turn; one whose package is missing says so."""
    kind = str(request.param)
    if kind not in OURS:
        pytest.importorskip(kind, reason=f"{kind} is not installed: pip install {kind} -c constraints.txt")
    return kind


def job(trainer: str, ranks: int, batch_size: int) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "data": {"kind": "digits", "samples": 16},
            "train": {"trainer": trainer, "batch_size": batch_size, "momentum": 0.0},
            "devices": {"processes": ranks, "strategy": "ddp" if ranks > 1 else "single"},
        }
    )


def answers(folder: Path, spec: TrainingJob, env: dict[str, str]) -> list[dict[str, np.ndarray]]:
    """What each rank of a job wrote, by rank."""
    folder.mkdir()
    samples, labels = arrays(spec, folder)
    np.save(folder / "images.npy", samples)
    np.save(folder / "labels.npy", labels)
    order = Order(job=spec, images_path=str(folder / "images.npy"), labels_path=str(folder / "labels.npy"))
    (folder / "order.json").write_text(order.model_dump_json())
    command = [sys.executable, "-m", "tests.trainer_contract", "start", str(folder)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return [dict(np.load(folder / f"rank-{rank}.npz")) for rank in range(spec.devices.ranks)]


@pytest.fixture(scope="module")
def whole(installed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What one process of torch wrote that had all samples."""
    (one,) = answers(tmp_path_factory.mktemp("whole") / "one", job("torchrun", 1, 8), installed)
    return one


@pytest.mark.timeout(300)
def test_ranks_agree_on_the_gradients_of_the_whole_batch(
    trainer: str, whole: dict[str, np.ndarray], installed: dict[str, str], tmp_path: Path
) -> None:
    """Two ranks with 4 samples each have, to 1e-5, the gradients of one process of torch with all 8, make one step with
    them, take no sample twice, and hear the same of each other.
    """
    ranks = answers(tmp_path / "two", job(trainer, 2, 4), installed)
    assert np.abs(whole["gradients"]).max() > 1e-3
    for rank in ranks:
        np.testing.assert_array_equal(rank["before"], whole["before"])
        np.testing.assert_allclose(rank["gradients"], whole["gradients"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(rank["after"], whole["after"], rtol=0, atol=1e-6)
        assert (rank["after"] != rank["before"]).any()
        assert rank["total"].tolist() == [3.0, 20.0]
        assert rank["gathered"].tolist() == [[[0.0, 5.0]], [[1.0, 5.0]]]
    taken = [set(rank["taken"].tolist()) for rank in ranks]
    assert [len(of) for of in taken] == [8, 8] and taken[0] | taken[1] == set(range(16))


@pytest.mark.long  # of torchrun, and with more to tell: tests/integration/test_training.py
@pytest.mark.timeout(300)
def test_a_run_is_measured_and_kept_under_its_name(
    trainer: str, installed: dict[str, str], tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """In the sandbox, phase by phase, until the loss has fallen; the ranks stay in step, and no process is left."""
    file = tmp_path / "x.yaml"
    file.write_text(
        "kind: training\nname: x\ndata: {kind: digits, samples: 480}\n"
        f"train: {{trainer: {trainer}, batch_size: 16, warmup_steps: 2}}\n"
        "devices: {processes: 2, strategy: ddp}\n"
    )
    data_dir = tmp_path / "data"
    env = {**installed, settings.PERFDB_URI: perfdb_uri, settings.DATA_DIR: str(data_dir), MODE: "note"}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode in (0, 1), done.stderr
    (row,) = json.loads(done.stdout)
    (result,) = perfdb.results_of(TrainingResult, {"run_id": row["run_id"]})
    # What else this machine does is noted, and everything that the ranks themselves owe holds.
    assert [reason.check for reason in result.verdict.reasons] == ["interference.noted"], result.verdict
    assert result.summary is not None and result.engine is not None
    assert (result.engine.kind, result.engine.processes, result.engine.backend) == (trainer, 2, "gloo")
    assert result.engine.trainer_version
    assert result.summary.loss["last"] < 0.8 * result.summary.loss["first"]
    timing = result.summary.synchronised
    assert set(timing["phases"]) == {"loading", "to_device", "forward", "loss", "backward", "optimiser"}
    assert timing["all_reduce"]["wall_ms"]["mean"] > 0 and result.summary.bare["samples_per_s"] > 0
    left = [
        p.pid for p in psutil.process_iter(["cmdline"]) if str(data_dir) in " ".join(p.info["cmdline"] or ())
    ]
    assert left == []


def test_the_guide_shows_what_the_example_has() -> None:
    """The class and the entry point in the guide are the package's own."""
    guide = (ROOT / "docs" / "how-to" / "own-trainer.md").read_text()
    code = (EXAMPLE / "inferbench_accelerate" / "trainer.py").read_text()
    assert code[code.index("class AccelerateTrainer") :].strip() in guide
    assert (EXAMPLE / "pyproject.toml").read_text().split("\n\n")[2] in guide


def test_it_is_listed_with_its_package(installed: dict[str, str]) -> None:
    """``inferbench training trainers`` knows it, and which package brings it."""
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "training", "trainers", "-o", "json"]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=True)
    rows = {row["trainer"]: row for row in json.loads(done.stdout)}
    assert rows["torchrun"]["origin"] == "built-in" and rows["torchrun"]["here"] == "yes"
    assert rows["accelerate"]["origin"] == "inferbench-accelerate 1.0"
