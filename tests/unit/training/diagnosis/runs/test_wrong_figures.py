"""Columns and figures that are not to be believed, of runs whose true times are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Observation, PhaseTimes
from tests.unit.training.diagnosis.observations import observe

V100 = "Tesla V100-SXM2-32GB"
GFLOP = 1e9


def smooth(jade_s: dict[str, float], *, kind: str = "gpu", ranks: int = 1, **more: Any) -> Observation:
    """Smooth inference as in Jade's table: 0.2 ms of loading, 0.9 of processing, 109 of the forward pass."""
    fields = {
        "train": {"benchmark": "smooth_inference", "batch_size": 128},
        "devices": {"kind": kind},
    }
    run = observe(None, loading_ms=0.2, fields=fields, processes=ranks, **more)
    times = {"loading": 0.2, "to_device": 0.1, "processing": 0.8, "forward": 109.0}
    jade = {"columns": jade_s, "without_warmup": jade_s}
    changes = {
        "phases": {name: PhaseTimes(ms, ms) for name, ms in times.items()},
        "step_ms": 110.1,
        "jade": jade,
    }
    return Observation(**{**run.__dict__, **changes})


JADE_S = {"loading": 0.1009, "processing": 0.0009, "forward": 0.0082}


def rules(run: Observation) -> dict[str, str]:
    return {cause.rule: cause.sentence for cause in causes_of(run) if cause.kind == "wrong"}


def test_a_forward_pass_in_the_loading_column_is_named() -> None:
    """Jade's published smooth inference: 100.7 of 109 ms of the forward pass stand in "loading"; one process gathers
    nothing.
    """
    (cause,) = [cause for cause in causes_of(smooth(JADE_S)) if cause.rule == "wrong_column"]
    assert cause.sentence.startswith("BenchmarkJade's clock puts 101 ms of forward into its column 'loading'")
    assert "only launched" in cause.sentence
    assert any("forward: 8.2 ms by Jade's clock, 109 ms" in line for line in cause.evidence)
    assert not any("gather" in line for line in cause.evidence)


def inference(kind: str, ranks: int, backend: str | None = None) -> Observation:
    """5 of 8 ms of forward stand in loading, which holds 2."""
    fields = {
        "train": {"benchmark": "inference"},
        "devices": {"kind": kind, "backend": backend} if ranks > 1 else {"kind": kind},
    }
    run = observe(None, loading_ms=1.0, fields=fields, processes=ranks)
    times = {"loading": 1.0, "to_device": 1.0, "forward": 8.0}
    jade_s = {"loading": 0.007, "forward": 0.003}
    changes = {
        "phases": {name: PhaseTimes(ms, ms) for name, ms in times.items()},
        "step_ms": 10.0,
        "jade": {"columns": jade_s, "without_warmup": jade_s},
    }
    return Observation(**{**run.__dict__, **changes})


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (inference("gpu", 1), "only launched"),
        (inference("gpu", 2, "gloo"), "only launched"),  # gloo's barrier does not wait for a GPU
        (inference("gpu", 2, "nccl"), "barrier has every rank wait"),  # nccl's does
        (inference("cpu", 2), "barrier has every rank wait"),
        (inference("cpu", 1), None),
        (smooth(JADE_S, kind="cpu"), None),
        (smooth(JADE_S, ranks=2), "only launched"),  # no barrier stands behind its forward pass
    ],
)
def test_a_wrong_column_has_the_reason_that_this_run_can_have(run: Observation, why: str | None) -> None:
    """One process on a CPU neither launches work nor waits for anybody, so that the rule has nothing to say of it."""
    sentence = rules(run).get("wrong_column")
    assert sentence is None if why is None else why in (sentence or "")


def test_columns_of_another_epoch_are_not_wrong() -> None:
    """A forward pass that is longer while nothing is shorter is another epoch's; and what is right is not named."""
    right = {"loading": 0.0002, "processing": 0.0009, "forward": 0.109}
    assert "wrong_column" not in rules(smooth(right))
    assert "wrong_column" not in rules(smooth({**right, "forward": 0.140}))


def test_what_beats_the_datasheet_is_impossible() -> None:
    """128 images of ResNet-50 in 8.2 ms are 128 TFLOP/s, a V100 has 15.7; the synchronised pass is possible."""
    run = smooth(JADE_S, probes={"forward_flop": 8.178 * GFLOP})
    run = Observation(**{**run.__dict__, "device": V100})
    found = [cause for cause in causes_of(run) if cause.rule == "impossible"]
    assert len(found) == 1 and "timing 'jade'" in found[0].sentence
    assert "128 TFLOP/s" in found[0].sentence and "15.7" in found[0].sentence
    assert json.dumps(found[0].model_dump())


def test_what_an_algorithm_with_fewer_products_may_reach_is_not_impossible() -> None:
    """1.05 TFLOP in 20 ms are 52 TFLOP/s: above a V100's 15.7, below four times that; in 16 ms they are 65."""
    for forward_s, impossible in ((0.020, False), (0.016, True)):
        run = smooth({**JADE_S, "forward": forward_s}, probes={"forward_flop": 8.178 * GFLOP})
        assert ("impossible" in rules(Observation(**{**run.__dict__, "device": V100}))) is impossible


def test_the_last_smaller_batch_makes_nothing_impossible() -> None:
    """A mean over all steps of 8.2 ms says nothing, where whole batches take 109."""
    run = smooth(JADE_S, probes={"forward_flop": 8.178 * GFLOP})
    whole = {"loading": 0.0002, "processing": 0.0009, "forward": 0.109}
    for steady in (whole, None):
        jade = {"columns": JADE_S, "without_warmup": steady}
        assert "impossible" not in rules(Observation(**{**run.__dict__, "device": V100, "jade": jade}))


def test_two_sockets_are_two_peaks() -> None:
    """1.05 TFLOP in 109 ms are 9.6 TFLOP/s: more than four times what one socket of 20 cores has, not so of two."""
    run = smooth(JADE_S, kind="cpu", probes={"forward_flop": 8.178 * GFLOP})
    found = {
        cores: {
            timing.split("'")[1]
            for timing in [
                cause.sentence
                for cause in causes_of(
                    Observation(**{**run.__dict__, "device": "E5-2698 v4", "cores": cores, "jade": None})
                )
                if cause.rule == "impossible"
            ]
        }
        for cores in (20, 40)
    }
    assert found == {20: {"synchronised"}, 40: set()}


@pytest.mark.parametrize(
    ("device", "flop"), [(V100, None), ("nobody's device", 8e9), (None, 8e9), (V100, 1e6)]
)
def test_nothing_is_impossible_without_a_datasheet_or_a_count(device: str | None, flop: float | None) -> None:
    """Nor where the pass is within the peak."""
    run = smooth(JADE_S, probes={"forward_flop": flop})
    assert "impossible" not in rules(Observation(**{**run.__dict__, "device": device}))
