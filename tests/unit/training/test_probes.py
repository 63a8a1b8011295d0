"""What is told by another amount of the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from inferbench_tasks.training import denormal, probes
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Epoch, Order
from inferbench_tasks.training.own_step import OwnStep
from inferbench_tasks.training.phases import MEASURED, WARMUP
from inferbench_tasks.training.probes import cores_of_a_rank, fixed_of, probe


@pytest.mark.parametrize(
    ("few", "many", "fixed_ms"),
    [
        ((8, 6.0), (16, 10.0), 2.0),
        ((1, 5.0), (2, 5.1), 4.9),
        ((8, 6.0), (16, 12.0), 0.0),
        ((8, 6.0), (16, 13.0), 0.0),
    ],
)
def test_what_does_not_grow_with_the_samples_is_left_of_a_straight_line(
    few: tuple[int, float], many: tuple[int, float], fixed_ms: float
) -> None:
    """8 samples in 6 ms and 16 in 10 are half a millisecond each and 2 ms for none; never less than 0."""
    assert fixed_of(*few, *many) == pytest.approx(fixed_ms)


MS = 1_000_000
STEPS = {
    "alone_ms", "beside_ms", "fewer_threads_ms", "fewer_threads", "larger_ms", "larger_batch", "ready_ms",
    "larger_ready_ms",
}  # fmt: skip


@pytest.fixture
def probed(tmp_path: Path) -> Iterator[Callable[..., tuple[dict[str, float | None], Any]]]:
    """The probes of a small training with other fields, and its rank."""
    torch = pytest.importorskip("torch")
    from inferbench_tasks.training.rank import Rank

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a training; more of them spin on a busy machine

    def run(epochs: Sequence[Epoch] = (), **blocks: dict[str, Any]) -> tuple[dict[str, float | None], Any]:
        base: dict[str, Any] = {"kind": "training", "name": "x", "data": {"kind": "digits", "samples": 16}}
        base |= {"train": {"batch_size": 4}}
        job = TrainingJob.model_validate(
            base | {name: base.get(name, {}) | of for name, of in blocks.items()}
        )
        images, labels = arrays(job, tmp_path)
        paths = {"images_path": str(tmp_path / "images.npy"), "labels_path": str(tmp_path / "labels.npy")}
        np.save(paths["images_path"], images)
        np.save(paths["labels_path"], labels)
        rank = Rank(Order(job=job, **paths), 0, 1)
        before = [weights.detach().clone() for weights in rank.module.parameters()]
        found = probe(rank, epochs)
        assert all(
            bool((old == new).all()) for old, new in zip(before, rank.module.parameters(), strict=True)
        )
        return found, rank

    yield run
    torch.set_num_threads(threads)


def test_a_rank_probes_without_touching_its_weights(probed: Callable[..., Any]) -> None:
    """The probes of a small training by itself give times, beside a loader process too, and leave the weights."""
    found, _ = probed()
    others = {"own_making_ms", "hand_over_ms", "forward_flop", "pinned_copy_ms", *denormal.FIGURES}
    assert set(found) == STEPS | others
    assert all(found[name] is None for name in denormal.FIGURES), "no step was made: there is no state"
    assert found["pinned_copy_ms"] is None, "of a GPU"
    assert found["forward_flop"] > 1e5 and found["hand_over_ms"] > 0
    assert found["alone_ms"] > 0 and found["beside_ms"] > 0
    assert found["fewer_threads_ms"] is None and found["fewer_threads"] is None
    assert found["own_making_ms"] is None


def test_what_a_run_has_already_is_not_probed(probed: Callable[..., Any]) -> None:
    """With loader processes of its own nothing is timed beside another one; more threads than cores are tried fewer."""
    found, rank = probed(
        loader={"workers": 1}, devices={"threads": 64}, train={"benchmark": "inference", "batch_size": 8}
    )
    assert found["beside_ms"] is None and found["hand_over_ms"] is None and found["own_making_ms"] > 0
    assert found["fewer_threads"] == cores_of_a_rank(rank.job) < 64 and found["fewer_threads_ms"] > 0
    import torch

    assert torch.get_num_threads() == 1, "as before"


def test_a_larger_batch_is_tried_where_little_grows_with_the_samples(
    probed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 samples in 5 ms and 2 in 4.5 most is the same: 64 are timed. Of 4 in 5 ms and 2 in 2.6 it is not."""
    monkeypatch.setattr(OwnStep, "ms", lambda self, samples, before=None: 4.0 + samples / 4)
    found, _ = probed()
    assert (found["alone_ms"], found["larger_batch"], found["larger_ms"]) == (5.0, 64, 20.0)
    assert found["ready_ms"] is None, "nobody hands batches over"
    asked: list[int] = []

    def ready_ms(rank: Any, samples: int) -> float:
        asked.append(samples)
        return float(samples)

    monkeypatch.setattr(probes, "ready_ms", ready_ms)
    found, _ = probed(loader={"workers": 1})
    assert (found["ready_ms"], found["larger_ready_ms"], asked) == (4.0, 64.0, [4, 64])
    monkeypatch.setattr(OwnStep, "ms", lambda self, samples, before=None: 0.2 + samples * 1.2)
    found, _ = probed()
    assert found["larger_batch"] is None and found["larger_ms"] is None


def test_a_step_that_is_mostly_optimiser_is_the_same_for_any_batch(
    probed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 samples in 5 ms and 2 in 2.6 little is; 7 ms of a step that are neither its passes nor the clocks are."""
    monkeypatch.setattr(OwnStep, "ms", lambda self, samples, before=None: 0.2 + samples * 1.2)
    columns = ["part", "step_ns", "loading_wall_ns", "forward_wall_ns", "optimiser_wall_ns", "clocks_ns"]
    rows: list[list[int | None]] = [
        [WARMUP, 99 * MS, 0, 0, 99 * MS, 0],
        [MEASURED, 22 * MS, 1 * MS, 4 * MS, 6 * MS, 10 * MS],
        [MEASURED, 25 * MS, 4 * MS, 4 * MS, 6 * MS, 10 * MS],
    ]
    of: dict[str, Any] = {"started_ns": 0, "ready_ns": 0, "round": 0}
    epochs = [Epoch(kind="synchronised", columns=columns, rows=rows, **of), Epoch(kind="bare", **of)]
    assert probes.around_ms(epochs) == 7.0 and probes.around_ms(epochs[1:]) == 0.0
    assert probed(epochs)[0]["larger_batch"] == 64
    assert probed(epochs[1:])[0]["larger_batch"] is None
    clocks = Epoch(
        kind="synchronised", columns=columns, rows=[[MEASURED, 9 * MS, 0, 4 * MS, 0, 5 * MS]], **of
    )
    assert probed([clocks])[0]["larger_batch"] is None


@pytest.mark.parametrize(
    ("available", "left", "larger"),
    [
        (256_000_000, None, 64),
        (255_999_999, None, None),
        (1 << 40, 256_000_000, 64),
        (1 << 40, 255_999_999, None),
    ],
)
def test_a_larger_batch_takes_no_training_with_it_that_has_no_memory_for_it(
    probed: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    available: int,
    left: int | None,
    larger: int | None,
) -> None:
    """64 samples of 1 MB are a quarter of 256, of the machine or of what its cgroups leave; else the log says why."""
    monkeypatch.setattr(OwnStep, "ms", lambda self, samples, before=None: 4.0 + samples / 4)
    monkeypatch.setattr(OwnStep, "grown_bytes", lambda self, few, many: 1e6)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available))
    monkeypatch.setattr(probes, "left_bytes", lambda cached: left)
    found, _ = probed()
    assert found["larger_batch"] == larger and (found["larger_ms"] is None) == (larger is None)
    assert ("1 rank(s) would need 6.4e+07 bytes" in caplog.text) == (larger is None)


@pytest.mark.parametrize(("train", "grown"), [({}, (8 + 100) * 4), ({"benchmark": "inference"}, 100 * 4)])
def test_what_a_pass_keeps_of_each_sample_is_counted(train: dict[str, Any], grown: int) -> None:
    """Its 8 inputs and the 100 values between two layers, of 4 bytes; of what has no way back the larger one. No
    weights: they are the same for any number of samples.
    """
    torch = pytest.importorskip("torch")
    job = TrainingJob.model_validate(
        {"kind": "training", "name": "x", "data": {"kind": "digits"}, "train": train}
    )
    network = torch.nn.Sequential(torch.nn.Linear(8, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    rank: Any = SimpleNamespace(
        job=job, items=[(torch.ones(8), 0)], build=lambda: network, computing=Computing(job, "cpu"),
        to_device=lambda batch: batch[:2],
    )  # fmt: skip
    assert OwnStep(rank).grown_bytes(2, 6) == grown


def test_ranks_of_a_host_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two may have an eighth each."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=800))
    monkeypatch.setattr(probes, "left_bytes", lambda cached: None)
    devices = SimpleNamespace(ranks_of_host=2)
    rank: Any = SimpleNamespace(job=SimpleNamespace(devices=devices))
    assert probes._has_room(rank, 100) and not probes._has_room(rank, 101)


@pytest.mark.parametrize(
    ("size", "timed"), [(1, [1, 4, 64]), (2, [2, 8, 64]), (3, [3, 12, 64]), (4, [4, 2, 64])]
)
def test_no_single_sample_is_timed_that_the_training_does_not_take(
    probed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, size: int, timed: list[int]
) -> None:
    """A network that normalises by its batch refuses one: of fewer than four four times as many are timed beside,
    since one sample more may take as long as the first for the way in which it is computed."""
    asked: list[int] = []

    def ms(self: OwnStep, samples: int, before: Any = None) -> float:
        asked.append(samples)
        return 4.0 + samples / 4

    monkeypatch.setattr(OwnStep, "ms", ms)
    found, _ = probed(train={"batch_size": size}, data={"where": "memory"}, loader={"workers": 1})
    assert asked == timed and found["larger_batch"] == 64


def test_a_batch_that_a_gpu_has_no_room_for_takes_no_training_with_it(
    probed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was timed before stays, the larger batch is not told of; all that is no step is told."""
    torch = pytest.importorskip("torch")

    def ms(self: OwnStep, samples: int, before: Any = None) -> float:
        if samples == 64:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 4.0 + samples / 4

    monkeypatch.setattr(OwnStep, "ms", ms)
    found, _ = probed()
    assert found["alone_ms"] == 5.0 and found["larger_ms"] is None and found["larger_batch"] is None
    assert found["forward_flop"] > 1e5


@pytest.mark.parametrize(
    "blocks", [{"train": {"benchmark": "smooth_inference"}}, {"train": {"compile": True}}]
)
def test_no_other_network_than_the_training_s_is_timed(
    probed: Callable[..., Any], blocks: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smooth inference makes its batches itself, and another network than the compiled one would be timed."""
    monkeypatch.setattr(Computing, "compiled", lambda self, network: network)  # torch needs a minute for it
    found, _ = probed(**blocks)
    assert {name for name in STEPS if found[name] is not None} == set()


def test_no_probe_takes_a_measured_training_with_it(
    probed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A module that takes its own batches alone, and a loader process that dies, leave their probes out, and say so."""

    def ms(self: OwnStep, samples: int, before: Any = None) -> float:
        if samples != 4:
            raise ValueError("expected 4 samples")
        return 5.0

    def lost(rank: Any) -> float:
        raise RuntimeError("DataLoader worker exited")

    monkeypatch.setattr(OwnStep, "ms", ms)
    monkeypatch.setitem(probes._OTHERS, "hand_over_ms", lost)
    found, _ = probed()
    assert (found["alone_ms"], found["beside_ms"], found["larger_ms"], found["hand_over_ms"]) == (
        5.0,
        5.0,
        None,
        None,
    )
    assert found["forward_flop"] > 1e5
    assert "expected 4 samples" in caplog.text and "hand_over_ms: DataLoader worker exited" in caplog.text
