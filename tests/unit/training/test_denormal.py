"""Numbers that are too small for a processor's fast way, in an optimiser's state."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.training import denormal
from inferbench_tasks.training.computing import Computing
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.job import TrainingJob

TINY = 1e-40


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


def test_a_job_has_them_taken_for_zero() -> None:
    """In the thread that makes the rank; torch's other threads begin later, and have it from that one."""
    import torch

    Computing(job({"flush_denormals": True}), "cpu")
    assert float(torch.tensor([TINY]) * 1.0) == 0
    assert denormal.probe(rank(job({"flush_denormals": True}), denormals=75)) == {"denormal_ratio": 0.0}


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
