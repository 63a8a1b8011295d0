"""Precisions, optimisers and memory formats, and GPUs that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import InputError
from inferbench_tasks.training import gpus, launch
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.hosts.on_host import rank_cores
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.rank_main import device_of


def job(train: dict[str, Any] | None = None, **devices: Any) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "data": {"kind": "digits"},
            "train": train or {},
            "devices": devices,
        }
    )


def test_bf16_computes_in_bf16_and_keeps_its_weights() -> None:
    """Scores are bfloat16, weights and gradients fp32; fp32 computes nothing in bfloat16."""
    import torch

    for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        computing = Computing(job({"precision": precision}), "cpu")
        layer = torch.nn.Linear(4, 2)
        with computing.autocast():
            scores = layer(torch.ones(3, 4))
        assert scores.dtype == dtype
        computing.backward(scores.float().sum())
        assert layer.weight.grad.dtype == layer.weight.dtype == torch.float32


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_each_optimiser_moves_the_weights_and_empties_the_gradients(name: str) -> None:
    """By the learning rate that was asked for, torch's optimiser of that name."""
    import torch

    computing = Computing(job({"optimiser": name, "learning_rate": 0.5}), "cpu")
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = computing.optimiser([weight])
    assert type(optimiser).__name__.lower() == name and optimiser.param_groups[0]["lr"] == 0.5
    computing.backward(weight.sum())
    computing.step(optimiser)
    assert (weight < 1).all() and weight.grad is None


def test_channels_last_is_the_layout_of_images_only() -> None:
    """Images and weights have it; labels, which have one axis, are left as they are."""
    import torch

    computing = Computing(job({"channels_last": True}), "cpu")
    images = computing.place(torch.ones(2, 3, 4, 4))
    assert images.is_contiguous(memory_format=torch.channels_last)
    weight = computing.place(torch.nn.Conv2d(3, 8, 3)).weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert computing.place(torch.ones(5, dtype=torch.int64)).shape == (5,)
    assert (
        not Computing(job(), "cpu")
        .place(torch.ones(2, 3, 4, 4))
        .is_contiguous(memory_format=torch.channels_last)
    )


def test_a_network_is_compiled_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch.compile, and not else."""
    import torch

    monkeypatch.setattr(torch, "compile", lambda network: ["compiled", network])
    assert Computing(job(), "cpu").compiled("net") == "net"
    assert Computing(job({"compile": True}), "cpu").compiled("net") == ["compiled", "net"]


def test_gpus_that_are_not_there_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """None here: the kind is meant; fewer than asked for: the number; nccl that torch lacks: the backend."""
    import torch

    wanted = job(kind="gpu", count=4, strategy="ddp")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(
        InputError, match=r"devices.kind: 4 GPU\(s\) are asked for, torch sees 0 .*gloo"
    ) as none:
        gpus.check(wanted)
    assert none.value.field == "devices.kind"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="torch sees 2") as few:
        gpus.check(wanted)
    assert few.value.field == "devices.count"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(InputError, match="backend: gloo"):
        gpus.check(wanted)
    gpus.check(job())  # CPUs are always there


def test_who_exchanges_follows_the_device_unless_it_is_said() -> None:
    """gloo between CPUs, nccl between GPUs, nobody in one process."""
    assert job().devices.exchange is None
    assert job(strategy="ddp").devices.exchange == "gloo"
    assert job(kind="gpu:h100", strategy="ddp").devices.exchange == "nccl"
    assert job(kind="gpu", backend="gloo", strategy="ddp").devices.exchange == "gloo"


def test_each_rank_has_the_gpu_of_its_place_among_those_that_are_held() -> None:
    """CUDA sees the held ones in their order, so that ranks count from 0; one alone is what its worker sees."""
    held = [HeldDevice(device_id=f"g{i}", device_type="h100", host="h", gpu_index=i) for i in (3, 1)]
    assert launch.gpus(held) == "3,1" and launch.gpus(held[:1]) is None and launch.gpus(()) is None
    shared = job(kind="gpu", count=2, processes=2, backend="gloo", strategy="ddp")
    assert [device_of(shared, rank) for rank in range(4)] == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert device_of(job(), 0) == "cpu"


def test_a_killed_loader_process_is_named_with_its_rank() -> None:
    """Of torch's words in the log; without them the rank alone, and nothing without torchrun's summary."""
    summary = (
        "Root Cause (first observed failure):\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n"
    )
    said = launch.first_failure(
        f"RuntimeError: DataLoader worker (pid 88) is killed by signal: Killed. \n{summary}"
    )
    assert (
        said is not None and "rank 1 (pid 77) ended with exit code 1, for its loader process (pid 88)" in said
    )
    assert "loader" not in (launch.first_failure(summary) or "loader")
    assert launch.first_failure("nothing") is None


def test_ranks_get_so_many_cores_of_their_own() -> None:
    """Of their device's in turn; too few are refused with those that there are."""
    devices = [
        HeldDevice(device_id=f"d{first}", device_type="cpu", host="h", cores=tuple(range(first, first + 4)))
        for first in (0, 4)
    ]
    two = job(count=2, processes=2, cores=2, strategy="ddp")
    assert rank_cores(two, devices) == ((0, 1), (2, 3), (4, 5), (6, 7))
    with pytest.raises(InputError, match="need 6; there are 4"):
        rank_cores(job(count=2, processes=2, cores=3, strategy="ddp"), devices)
