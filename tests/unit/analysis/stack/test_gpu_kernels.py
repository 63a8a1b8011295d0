"""XSP's analyses of kernels of a model on a GPU, each against a table made by hand; no span was recorded on one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from inferbench_tasks.analysis.stack.base import ANALYSES
from inferbench_tasks.analysis.stack.kernels import kernels_of
from inferbench_tasks.tracing.spans import AnyLevel, Span
from tests.unit.analysis.stack.spans import sentence_of
from tests.unit.analysis.stack.test_kernels import SUBJECT, US, aten, run


def test_on_a_gpu_kernels_are_what_ran_there() -> None:
    """Neither operators nor calls; a layer's time is that of its kernels, which add up to it. Nothing is known of their
    work, no roof of a CPU is held against them, and nobody tells what else a layer does."""
    spans = []
    for span in run("a", 0, [("fc", "linear", aten("linear", 0, 10, aten("addmm", 1, 9)))]):
        about = {**span.attributes, "gpu_ns": 70 * US} if span.level == "layer" else span.attributes
        spans.append(replace(span, attributes=about))
    last = spans[-1]
    spans += [
        Span("a", 100, last.number, "library", "cudaLaunchKernel", 2 * US, US, "call", {"library": "CUDA"}),
        Span("a", 101, 100, "hardware", "gemm", 3 * US, 50 * US, "kernel", {"library": "CUDA", "stream": 7}),
        Span("a", 102, last.number, "library", "cudaMemcpyAsync", 4 * US, US, "call", {"library": "CUDA"}),
        Span("a", 103, 102, "hardware", "Memcpy DtoH", 60 * US, 20 * US, "copy", {"library": "CUDA"}),
    ]
    found = kernels_of(spans, {"problem": "of a GPU nobody measures them"})
    assert found is not None
    assert [(each.name, each.library, each.ms) for each in found.kernels] == [
        ("gemm", "CUDA", 0.05),
        ("Memcpy DtoH", "CUDA", 0.02),
    ]
    assert found.kernels[0].flops is None and found.kernels[0].bytes is None
    ((layer_, inside),) = found.by_layer()
    assert layer_.ms == pytest.approx(sum(each.ms for each in inside)) == pytest.approx(0.07)
    subject = replace(SUBJECT, kernels=found)
    missing = {name: ANALYSES.load(name)().missing(subject) or "" for name in ANALYSES}
    assert not missing["kernels"] and not missing["kernels_by_model"] and not missing["kernels_by_layer"]
    assert "of a GPU's kernels nobody tells them" in missing["kernel_roofline"]
    assert "that of its kernels alone" in missing["kernel_share"]


def test_on_a_gpu_kernels_of_a_loop_s_body_are_of_the_loop() -> None:
    """15 and 25 us of its two nodes are the loop's 40, which is a model's only layer or beside another of 50 us. On a
    CPU, where a loop has a time of its own, what is within its body is no kernel of it."""

    def spans(gpu: bool, *, alone: bool = False) -> Iterator[Span]:
        level: AnyLevel = "hardware" if gpu else "library"

        def layer_(number: int, parent: int, name: str, us: int) -> Span:
            about = {"gpu_ns": us * US} if gpu else {}
            return Span("a", number, parent, "layer", name, number * US, US, "Conv", about)

        def ran(number: int, parent: int, name: str, us: int) -> Span:
            return Span("a", number, parent, level, name, number * US, us * US, "kernel", {"library": "x"})

        yield from run("a", 0, [])
        yield from (layer_(2, 1, "loop", 40), layer_(3, 2, "body", 15), ran(4, 3, "k0", 15))
        yield from (layer_(5, 2, "body", 25), ran(20, 5, "k1", 25))
        if not alone:
            yield from (layer_(50, 1, "z", 50), ran(51, 50, "kz", 50))

    found = kernels_of(spans(gpu=True))
    assert found is not None
    assert [(each.name, each.layer, each.ms) for each in found.kernels] == [
        ("k0", 0, 0.015), ("k1", 0, 0.025), ("kz", 1, 0.05),
    ]  # fmt: skip
    assert [(each.name, each.ms) for each in found.layers] == [("loop", 0.04), ("z", 0.05)]
    only = kernels_of(spans(gpu=True, alone=True))
    assert only is not None and only.ms == pytest.approx(0.04)
    on_cpu = kernels_of(spans(gpu=False))
    assert on_cpu is not None and [each.name for each in on_cpu.kernels] == ["kz"]
    assert kernels_of(spans(gpu=False, alone=True)) is None


def test_what_a_gpu_s_streams_ran_side_by_side_is_counted_once_in_all() -> None:
    """300 us on each of two streams, the second 5 us later, are 305 of a run of 380: 80.3% and not 158%. Each kernel
    has its 300, which is said; shares of all kernels' time are no more than all of it."""
    spans = [*run("a", 0, [], 380)]
    for at, own in enumerate((300, 5)):
        spans.append(Span("a", 2 + at, 1, "layer", f"l{at}", at * US, US, "Conv", {"gpu_ns": own * US}))
        spans.append(Span("a", 8 + at, 2 + at, "hardware", f"k{at}", (20 + 5 * at) * US, 300 * US, "kernel",
                          {"library": "CUDA"}))  # fmt: skip
    found = kernels_of(spans)
    assert found is not None and [each.ms for each in found.kernels] == [0.3, 0.3]
    assert [found.ms, found.added_ms] == pytest.approx([0.305, 0.6])
    assert found.ms == pytest.approx(sum(each.ms for each in found.layers))
    subject = replace(SUBJECT, kernels=found)
    clause = (
        "Kernels ran side by side on several streams: each has all of its time, 0.6 ms added up, and any of them ran "
        "for 0.305 ms."
    )
    assert sentence_of(ANALYSES.load("kernels")(), subject) == (
        f"2 of 2 kernels (CUDA) are 100% of all kernels' own times; these take 80.3% of a run's 0.38 ms. {clause}"
    )
    by_model = ANALYSES.load("kernels_by_model")()
    assert [row["share_ratio"] for row in by_model.rows(subject)] == [pytest.approx(305 / 380)] * 2
    assert sentence_of(by_model, subject).startswith("2 kernels take 80.3% of a run's 0.38 ms;")
    for name in ("kernels_by_layer", "kernels_by_name"):
        rows = ANALYSES.load(name)().rows(subject)
        assert [row["share_ratio"] for row in rows] == [pytest.approx(0.5)] * 2
        assert sentence_of(ANALYSES.load(name)(), subject).endswith(clause)
    assert not SUBJECT.kernels or not SUBJECT.kernels.side_by_side
