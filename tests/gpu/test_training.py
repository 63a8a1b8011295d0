"""Trainings on NVIDIA GPUs; elsewhere these are skipped with what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training import figures, gpus
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.events import device_clock
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Answer
from inferbench_tasks.training.stages import generate, train

pytestmark = pytest.mark.gpu


def job(count: int = 1, **train: Any) -> TrainingJob:
    """A small network on so many GPUs, or skipped without them."""
    spec = TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "data": {"kind": "dummy", "samples": 512 * count},
            "loader": {"workers": 1, "pin_memory": True},
            "train": {"batch_size": 32, **train},
            "devices": {"kind": "gpu", "count": count, "strategy": "ddp" if count > 1 else "single"},
            "timing": ["synchronised", "events", "jade"],
        }
    )
    try:
        gpus.check(spec)
    except InputError as error:
        pytest.skip(str(error))
    return spec


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_a_gpu_computes_in_each_precision(precision: str) -> None:
    """Forward, loss, backward and optimiser; TF32 only where it is asked for; the stamps of its stream tell time."""
    spec = job(precision=precision)
    import torch

    computing = Computing(spec, "cuda:0")
    layer = computing.place(torch.nn.Linear(512, 512))
    before = layer.weight.detach().clone()
    optimiser = computing.optimiser(layer.parameters())
    stamp, between = device_clock("cuda")
    start = stamp()
    with computing.autocast():
        loss = layer(torch.ones(256, 512, device="cuda:0")).float().square().mean()
    computing.backward(loss)
    computing.step(optimiser)
    end = stamp()
    computing.synchronise()
    assert between(start, end) > 0 and torch.isfinite(loss) and not torch.equal(before, layer.weight)
    assert torch.backends.cuda.matmul.allow_tf32 == (precision == "tf32")
    assert torch.backends.cudnn.allow_tf32 == (precision == "tf32")


@pytest.mark.parametrize("count", [1, 2])
def test_a_training_on_gpus_tells_its_phases_by_three_clocks(
    count: int, tmp_path: Path, data_dir: Path
) -> None:
    """The loss falls; the device's stamps of a step are no longer than the synchronised step, which waits besides."""
    spec = job(count)
    ctx = Context(data_dir=data_dir, base_dir=tmp_path)
    made = generate.run(generate.Input(run_id="x.000", job_id="x", job=spec), ctx)
    out = train.run(train.Input(run_id="x.000", job_id="x", job=spec, generate=made), ctx)
    answers = [Answer.model_validate_json(Path(path).read_text()) for path in out.answers]
    assert [answer.device for answer in answers] == [f"cuda:{rank}" for rank in range(count)]
    events = figures.events(answers)
    timing = figures.of_timing(answers, "train", spec.devices.strategy)
    assert events is not None and not events["in_step_with_host"] and events["step_ms"]["mean"] > 0
    assert timing["phases"]["backward"]["wall_ms"]["mean"] > 0
    assert (timing["all_reduce"]["wall_ms"] is not None) == (count > 1)
