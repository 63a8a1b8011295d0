"""Numbers that are too small for a processor's fast way, in an optimiser's state."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.training import denormal
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.job import TrainingJob

TINY = 1e-40
#: The same in fp32, as an integer: where denormal numbers count as 0, none is made of the other.
DENORMAL_BITS = 71362


@pytest.fixture(autouse=True)
def torch_again() -> Iterator[Any]:
    """The processor computes with denormal numbers before and after each test."""
    torch = pytest.importorskip("torch")
    torch.set_flush_denormal(False)
    yield torch
    torch.set_flush_denormal(False)


def job(train: dict[str, Any] | None = None, **devices: Any) -> TrainingJob:
    document = {
        "kind": "training",
        "name": "x",
        "data": {"kind": "digits"},
        "train": train or {},
        "devices": devices,
    }
    return TrainingJob.model_validate(document)


def rank(spec: TrainingJob, *, denormals: int) -> Any:
    """One step was made; then so many of its 300 weights have denormal momentum."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Linear(10, 30, bias=False)
    computing = Computing(spec, "cpu")
    optimiser = computing.optimiser(module.parameters())
    module(torch.ones(1, 10)).sum().backward()
    optimiser.step()
    for of in optimiser.state.values():
        for name in set(of) & {"momentum_buffer", "exp_avg"}:
            of[name].view(-1)[:denormals] = TINY
    return SimpleNamespace(
        job=spec, module=module, computing=computing, optimiser=optimiser, device=torch.device("cpu"),
        synchronise=lambda: None,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "ratio"), [("sgd", 0.25), ("adam", 0.125), ("adamw", 0.125)])
def test_denormal_numbers_are_counted_and_a_step_timed_with_and_without(name: str, ratio: float) -> None:
    """75 of 300 weights; Adam keeps two numbers for each. Weights and state stay as they were, and so does the thread's
    way to compute.
    """
    import torch

    of = rank(job({"optimiser": name}), denormals=75)
    weights = of.module.weight.detach().clone()
    found = denormal.probe(of)
    assert found["denormal_ratio"] == pytest.approx(ratio)
    assert (found["optimiser_ms"] or 0) > 0 < (found["optimiser_flushed_ms"] or 0)
    assert torch.equal(weights, of.module.weight)
    assert denormal.probe(of)["denormal_ratio"] == found["denormal_ratio"]
    assert float(torch.tensor([TINY]) * 1.0) != 0


def test_what_has_none_is_not_timed() -> None:
    """A share of 0; of several threads, of which the setting would reach one, the share alone; of no optimiser, of one
    without a state and of a GPU nothing.
    """
    assert denormal.probe(rank(job(), denormals=0)) == {"denormal_ratio": 0.0}
    assert set(denormal.probe(rank(job(threads=2), denormals=5))) == {"denormal_ratio"}
    assert denormal.probe(rank(job({"momentum": 0.0}), denormals=0)) == {}
    assert denormal.probe(SimpleNamespace(job=job({"benchmark": "inference"}))) == {}  # type: ignore[arg-type]
    on_gpu = SimpleNamespace(job=job(), device=SimpleNamespace(type="cuda"))
    assert denormal.probe(on_gpu) == {}  # type: ignore[arg-type]


def test_a_frozen_weight_has_no_state() -> None:
    """The optimiser knows it, and never had a gradient of it."""
    import torch

    of = rank(job(), denormals=0)
    frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    of.optimiser = of.computing.optimiser([frozen, of.module.weight])
    of.module.weight.grad = torch.full((30, 10), TINY)
    of.optimiser.step()
    of.module = torch.nn.ParameterList([frozen, of.module.weight])
    found = denormal.probe(of)
    assert found["denormal_ratio"] == 1.0 and (found["optimiser_ms"] or 0) > 0


def test_one_copy_of_the_state_lies_beside_the_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the four times has its own, made when the one before is gone."""
    copies: list[Any] = []

    def copied(state: Any) -> Any:
        assert all(old() is None for old in copies), "the last one is still there"
        copy = deepcopy(state)
        copies.append(weakref.ref(copy["state"][0]["exp_avg"]))
        return copy

    monkeypatch.setattr(denormal, "deepcopy", copied)
    denormal.probe(rank(job({"optimiser": "adam"}), denormals=75))
    assert len(copies) == 4


def test_each_way_is_timed_first_once(torch_again: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What grows from one time to the next, 1, 2, 3 and 4 ms, is in both alike."""
    ways: list[bool] = []

    def median_ms(rank: Any, work: Any) -> float:
        bits = torch_again.full((1,), DENORMAL_BITS, dtype=torch_again.int32)
        ways.append(not (bits.view(torch_again.float32) * 1.0).view(torch_again.int32).item())
        return float(len(ways))

    monkeypatch.setattr(denormal, "median_ms", median_ms)
    found = denormal.probe(rank(job(), denormals=75))
    assert ways == [False, True, True, False]
    assert found["optimiser_ms"] == found["optimiser_flushed_ms"] == 2.5


def test_a_job_has_them_taken_for_zero() -> None:
    """What the state has none of then."""
    of = rank(job(), denormals=75)
    assert (denormal.probe(of)["denormal_ratio"] or 0) > 0
    Computing(job({"flush_denormals": True}), "cpu")
    assert denormal.probe(of) == {"denormal_ratio": 0.0}


#: How many products of a million denormal numbers by 1, of which two threads make half each, are no 0 in their bits (a
#: comparison would take them for 0 as well): as the job has it, and once the first thread alone computes with them.
THREADS = """
import sys, torch
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.job import TrainingJob
torch.set_num_threads(2)
Computing(TrainingJob.model_validate_json(sys.argv[1]), "cpu")
numbers = torch.full((1 << 20,), int(sys.argv[2]), dtype=torch.int32).view(torch.float32)
for _ in range(2):
    print(int(((numbers * 1.0).view(torch.int32) != 0).sum()))
    torch.set_flush_denormal(False)
"""


def test_torchs_other_threads_take_them_for_zero_too() -> None:
    """They begin after the thread that makes the rank has been told, and have it from that one: they keep it when that
    one has it no more.
    """
    spec = job({"flush_denormals": True}, threads=2).model_dump_json()
    command = [sys.executable, "-c", THREADS, spec, str(DENORMAL_BITS)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    of_job, of_first = map(int, text.split())
    assert of_job == 0 < of_first < 1 << 20


def test_a_job_without_the_field_keeps_its_digest_and_a_gpu_has_no_use_for_it() -> None:
    """Said before anything starts, with the field."""
    assert (
        job_digest(job())
        == job_digest(job({"flush_denormals": False}))
        != job_digest(job({"flush_denormals": True}))
    )
    assert findings(job({"flush_denormals": True})) == []
    (finding,) = findings(job({"flush_denormals": True}, kind="gpu"))
    assert finding.fields[0] == "train.flush_denormals" and "is of CPUs" in finding.message
