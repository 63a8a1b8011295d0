"""Real trainings: torchrun with one process and with two."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.cli.main import app
from inferbench_tasks.contracts.verdict import MODE, Verdict
from inferbench_tasks.errors import InferBenchError, InputError, StageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.requests import fashion
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.diagnosis import raw as diagnosed_steps
from inferbench_tasks.training.diagnosis.measured import diagnose
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stages import generate, train
from inferbench_tasks.training.stages.generate import LeftOut
from tests.report_page import charts_of
from tests.training_jobs import NETWORKS, small_job

pytestmark = pytest.mark.integration
TORCHRUN = [
    *("-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2")
]
YAML = """
kind: training
name: both
data: {kind: digits, samples: 480}
train: {batch_size: 16, warmup_steps: 4}
timing: [synchronised, events, jade]
sweep:
  zip:
    train.benchmark: [train, train, inference]
    model.name: [fashion-cnn, fashion-cnn, resnet-18]
    data.image_size: [28, 28, 32]
    devices.processes: [1, 2, 2]
    devices.strategy: [single, ddp, ddp]
    loader.workers: [1, 0, 0]
"""


def job(
    processes: int, batch_size: int, samples: int = 256, rounds: int = 3, data: str = "digits"
) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "data": {"kind": data, "samples": samples},
            "train": {"batch_size": batch_size, "rounds": rounds},
            "devices": {"count": processes, "strategy": "ddp" if processes > 1 else "single"},
        }
    )


@pytest.mark.timeout(600)
def test_one_process_and_two_train_and_tell_their_phases(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """From the YAML to the results: the loss falls, phases fit into the step and what they leave is shown; and two that
    only infer, by a network with running statistics, are told of in the same report.
    """
    file = tmp_path / "both.yaml"
    file.write_text(YAML)
    env = {
        **os.environ,
        settings.PERFDB_URI: perfdb_uri,
        settings.DATA_DIR: str(tmp_path / "data"),
        MODE: "note",
    }
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=580)
    assert done.returncode in (0, 1), done.stderr
    results = [
        perfdb.results_of(TrainingResult, {"run_id": row["run_id"]})[0] for row in json.loads(done.stdout)
    ]
    assert len(results) == 3, done.stderr
    *results, inferring = results
    for result in results:
        assert [reason.check for reason in result.verdict.reasons] == ["interference.noted"], result.verdict
        assert result.summary is not None and result.engine is not None and result.samples is not None
        timing, loss = result.summary.synchronised, result.summary.loss
        assert loss["last"] < 0.8 * loss["first"]
        explained, left_ms = timing["explained_ratio"], timing["unexplained_ms"]
        assert 0 < explained <= 1 and left_ms >= 0
        step_ms = timing["step_ms"]["mean"]
        walls_ms = [phase["wall_ms"]["mean"] for phase in timing["phases"].values()]
        assert sum(walls_ms) + left_ms == pytest.approx(step_ms)
        said = any("of the step" in warning for warning in result.certificate["warnings"])
        assert said == (explained < 0.97)
        reduce = timing["all_reduce"]
        if result.engine.processes == 1:
            assert reduce["wall_ms"] is None and reduce["reason"]
        else:
            # What computing does not hide is a part of the exchange, and the exchange of backward.
            backward_ms = timing["phases"]["backward"]["wall_ms"]["mean"]
            assert 0 <= reduce["apart_ms"]["mean"] <= reduce["wall_ms"]["mean"] <= backward_ms
        events = result.summary.events
        assert (
            events is not None
            and events["in_step_with_host"]
            and set(events["phases"]) == set(timing["phases"])
        )
        # One clock on a CPU: the phases of both columns are the step.
        for of in ("device_ms", "host_ms"):
            total_ms = sum(phase[of] for phase in events["phases"].values())
            assert total_ms == pytest.approx(events["step_ms"]["mean"], rel=0.02)
        assert result.summary.bare["samples_per_s"] > 0
        jade = result.summary.jade
        assert jade is not None and set(jade["columns"]) == {"loading", "forward", "backward"}
        assert 0 < jade["explained_ratio"] <= 1 and jade["step_s"] < jade["epoch_s"]
        raw = pq.read_table(pa.BufferReader(perfdb.files.get(result.samples)))
        assert set(raw.column("rank").to_pylist()) == set(range(result.engine.processes))
    report = (
        tmp_path / "data" / "invocations" / results[0].run_id.rpartition(".")[0] / "report.html"
    ).read_text()
    drawn = report + json.dumps(charts_of(report))
    assert all(name in drawn for name in ("Where the time of a step goes", "BenchmarkJade", "to device"))
    one, two = results
    assert one.summary and two.summary and two.engine
    assert one.summary.loader["cpu_s"] > 0 and two.summary.loader["cpu_s"] is None
    assert two.engine.backend == "gloo" and len(two.summary.synchronised["ranks"]) == 2
    # In this process, for another takes seconds to import.
    listed = CliRunner().invoke(app, ["training", "list", "-o", "json"], env=env)
    assert listed.exit_code == 0, listed.output
    assert {row["run"] for row in json.loads(listed.stdout)} == {one.run_id, two.run_id, inferring.run_id}
    assert inferring.summary and len(inferring.summary.synchronised["ranks"]) == 2
    for result in (one, two, inferring):  # of a run that nobody watched nothing is diagnosed
        as_valid = result.model_copy(update={"verdict": Verdict(kind="valid")})
        diagnosis = diagnose(as_valid, diagnosed_steps.ranks_of(perfdb, result))
        assert diagnosis.step_s and diagnosis.sentence
    shown = CliRunner().invoke(app, ["training", "show", two.run_id, "-o", "yaml"], env=env)
    assert shown.exit_code == 0 and "explained_ratio" in shown.stdout


@pytest.mark.long  # of one network by each trainer: tests/contract/test_trainers.py
@pytest.mark.timeout(300)
def test_two_ranks_have_the_gradients_of_one_process_with_the_same_batch(tmp_path: Path) -> None:
    """Twice 2 samples and once 4 of them, of each network: equal to 1e-5."""
    for name in NETWORKS:
        samples, labels = arrays(small_job(name), tmp_path)
        np.save(tmp_path / f"{name}.images.npy", samples)
        np.save(tmp_path / f"{name}.labels.npy", labels)
        for processes in (1, 2):
            order = Order(
                job=small_job(name, 4 // processes, processes),
                images_path=str(tmp_path / f"{name}.images.npy"),
                labels_path=str(tmp_path / f"{name}.labels.npy"),
            )
            (tmp_path / f"{name}.order-{processes}.json").write_text(order.model_dump_json())
    for start in ([], TORCHRUN):
        command = [sys.executable, *start, "-m", "tests.training_gradients", str(tmp_path)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        root = Path(__file__).parents[2]
        done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr
    for name in NETWORKS:
        one, two = (np.load(tmp_path / f"{name}.gradients-{processes}.npy") for processes in (1, 2))
        assert np.abs(one).max() > 1e-3, name
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("data", "learnt", "least"),
    [
        ("digits", 1347, 0.8),
        pytest.param(
            "fashion-mnist",
            4000,
            0.7,
            marks=[
                pytest.mark.long,
                pytest.mark.skipif(
                    not fashion.FOLDER.exists(),
                    reason="`apt-get install dataset-fashion-mnist` brings the data set",
                ),
            ],
        ),
    ],
)
def test_two_processes_learn_as_much_as_one(data: str, learnt: int, least: float, tmp_path: Path) -> None:
    """In the same order, two batches of 16 for one of 32: of 450 digits, or 2,000 clothes, that they have not seen both
    get at least 80%, or 70%, right, and their difference lies within its 95% interval (paired: samples of which one
    alone is right).
    """
    root = Path(__file__).parents[2]
    for processes, launcher in ((1, []), (2, TORCHRUN)):
        spec = job(processes, 32 // processes, samples=learnt, data=data)
        samples, labels = arrays(spec, tmp_path)
        np.save(tmp_path / "images.npy", samples)
        np.save(tmp_path / "labels.npy", labels)
        order = Order(
            job=spec, images_path=str(tmp_path / "images.npy"), labels_path=str(tmp_path / "labels.npy")
        )
        (tmp_path / f"order-{processes}.json").write_text(order.model_dump_json())
        done = subprocess.run(
            [sys.executable, *launcher, "-m", "tests.training_accuracy", str(tmp_path)],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=root, capture_output=True, text=True, timeout=250,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    one, two = (np.load(tmp_path / f"right-{processes}.npy") for processes in (1, 2))
    assert one.mean() > least and two.mean() > least, (one.mean(), two.mean())
    differences = one.astype(float) - two.astype(float)
    assert abs(differences.mean()) <= 1.96 * differences.std(ddof=1) / len(one) ** 0.5


@pytest.mark.timeout(300)
def test_a_module_of_the_users_is_tried_where_it_reaches_nothing(tmp_path: Path, data_dir: Path) -> None:
    """Its code runs in a sandboxed child, which reads the folder of images and the module, and writes nowhere else."""
    for name in ("cats", "dogs"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((12, 12, 3), 20 * number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    victim = data_dir / "cache"
    victim.mkdir(parents=True)
    network = "nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))"
    (tmp_path / "net.py").write_text(
        f"from torch import nn\n\ndef build():\n    return {network}\n\n"
        f"def steals():\n    open({str(victim / 'x')!r}, 'w')\n    return build()\n"
    )
    document = {
        "kind": "training",
        "name": "x",
        "model": {"kind": "file", "name": "own", "module": "net.py"},
        "data": {"kind": "folder", "path": "images", "samples": 16, "image_size": 8},
        "train": {"batch_size": 4},
    }
    ctx = Context(data_dir=data_dir, base_dir=tmp_path)
    spec = TrainingJob.model_validate(document)
    made = perform(generate, generate.Input(run_id="x.000", job_id="x", job=spec), ctx)
    assert made.samples == 16
    assert made.left_out == LeftOut(broken=0, named=[], others=0, classes=2)
    document["model"] = {**spec.model.model_dump(), "factory": "steals"}
    spec = TrainingJob.model_validate(document)
    with pytest.raises(InputError, match="line 7: PermissionError"):
        perform(generate, generate.Input(run_id="x.001", job_id="x", job=spec), ctx)
    assert not (victim / "x").exists()


#: A network that stops amid the second epoch of each rank, once it has said so beside the order: its loader process has
#: batches left to make, and lives until somebody ends it.
STOPS = """
import os, sys, time
from pathlib import Path
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.steps = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 10)), 0

    def forward(self, images):
        self.steps += 1
        if self.steps == 100:
            Path(sys.argv[-1]).with_name(f"amid-{os.getpid()}").touch()
            time.sleep(300)
        return self.layers(images)

def build():
    return Net()
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("victim", "said"),
    [
        ("rank", "was killed by signal 9"),
        ("loader process", "rank [01] .* ended with exit code 1, for its loader process .* was killed"),
        ("torchrun", "The run (was killed by SIGKILL|ended)"),
    ],
)
def test_whatever_is_killed_ends_the_training_and_leaves_no_process(
    victim: str, said: str, tmp_path: Path, data_dir: Path
) -> None:
    """A rank, one of its loader's processes, or torchrun: the error tells what ended, and nothing is left."""
    document = job(2, 8, samples=1024, rounds=100).model_dump(mode="json")
    document["loader"]["workers"] = 1
    if victim == "loader process":  # it must not be at the end of its epoch by the time it is killed
        (tmp_path / "net.py").write_text(STOPS)
        document["model"] = {"kind": "file", "name": "stops", "module": "net.py", "channels": 1}
    spec = TrainingJob.model_validate(document)
    gives_up = threading.Event()
    ctx = Context(data_dir=data_dir, base_dir=tmp_path, cancelled=gives_up.is_set)
    made = perform(generate, generate.Input(run_id="x.000", job_id="x", job=spec), ctx)
    inp = train.Input(run_id="x.000", job_id="x", job=spec, generate=made)
    folder = Path(made.images_path).parent
    raised: list[BaseException] = []

    def work() -> None:
        try:
            train.run(inp, ctx)
        except InferBenchError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        deadline = time.monotonic() + 200
        while not (folder / "progress.json").exists() and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.2)
        killed = None
        while killed is None and thread.is_alive() and time.monotonic() < deadline:
            killed = victims_of(folder).get(victim)
        assert killed is not None, raised
        os.kill(killed.pid, signal.SIGKILL)
        thread.join(60)
    finally:
        gives_up.set()
        thread.join(20)
    assert not thread.is_alive() and isinstance(raised[0], StageError)
    assert re.search(said, str(raised[0])), raised[0]
    assert victim == "torchrun" or f"pid {killed.pid}" in str(raised[0])
    assert of_run(folder) == [] and not killed.is_running()
    assert list(settings.servers_dir(data_dir).glob("*.json")) == []


def victims_of(folder: Path) -> dict[str, psutil.Process]:
    """One process of each kind, of those that there are: torchrun, a rank, and what a rank has forked that has stopped
    amid an epoch (``STOPS``).
    """
    found: dict[str, psutil.Process] = {}
    stopped = {int(path.name.removeprefix("amid-")) for path in folder.glob("amid-*")}
    processes = {process.pid: process for process in of_run(folder)}
    for process in processes.values():
        try:
            if "torch.distributed.run" in process.cmdline():
                found["torchrun"] = process
            else:
                parent = process.ppid()
                forked = parent in processes and "torch.distributed.run" not in processes[parent].cmdline()
                if not forked or parent in stopped:
                    found["loader process" if forked else "rank"] = process
        except psutil.Error:
            continue
    return found


def of_run(folder: Path) -> list[psutil.Process]:
    """The processes whose command names the run's order."""
    order, processes = str(folder / "order.json"), []
    for process in psutil.process_iter():
        try:
            if order in process.cmdline():
                processes.append(process)
        except psutil.Error:
            continue
    return processes
