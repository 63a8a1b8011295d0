"""What a night times first: shares of predicted times, calculated by hand."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.brick_jobs.filling import run_s
from inferbench_tasks.brick_jobs.useful import lacking, within
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import Result

SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")


def cut(model: str, *parts: str, flops: float = 0.0) -> dict[str, Any]:
    work = [
        {"identity": part, "operators": ["Conv"], "flops": flops, "moved_bytes": 0.0}
        for part in dict.fromkeys(parts)
    ]
    return {"model": model, "batch_size": 1, "granularity": "1", "parts": list(parts), "work": work}


def known(**ms: float) -> dict[str, Result]:
    return {
        name: Result(
            identity=name, key=name, operators=("Conv",), setting=SETTING, session="s", method=Method(),
            rounds_ns={"warm": (1e6 * value,) * 3, "streamed": (1e6 * value,) * 3}, raw_ns={},
        )
        for name, value in ms.items()
    }  # fmt: skip


def test_the_most_useful_brick_is_the_largest_share_of_all_models() -> None:
    """one = a a b, 2 ms of 5 ms are a's; two = a c: a is 1 of 10 ms. So a 0.4 + 0.1 = 0.5, b 0.6, c 0.9; what has a
    time that counts is not asked for, and each knows where it stands."""
    cuts = [cut("one", "a", "a", "b"), cut("two", "a", "c")]
    times = known(a=1.0, b=3.0, c=9.0)
    ranked = lacking(cuts, set(), times, Method())
    assert [one.identity for one in ranked] == ["c", "b", "a"]
    assert [one.use for one in ranked] == pytest.approx([0.9, 0.6, 0.5])
    assert ranked[2].models == {("one", 1, "1", ()), ("two", 1, "1", ())}
    assert [one.identity for one in lacking(cuts, {"c", "a"}, times, Method())] == ["b"]


def test_what_was_never_timed_is_guessed_by_its_work() -> None:
    """20 GFLOP are a second more than none at 20 GFLOP/s; in each of three rounds one run before five warm ones, and
    five streamed ones."""
    [one] = lacking([cut("one", "a", flops=20e9)], set(), {}, Method(runs=15, rounds=3, budget_s=100))
    assert run_s(20e9, 0) == pytest.approx(1, rel=1e-3)
    assert one.use == pytest.approx(1) and one.measuring_s == pytest.approx(33, rel=0.01)


def test_the_budget_is_spent_on_what_fits() -> None:
    """The first takes 33 s of 40, the second 33 would be too much, the third of less is taken."""
    cuts = [cut("one", "a"), cut("two", "b", "b"), cut("three", "c", "a", "b")]
    ranked = lacking(cuts, set(), known(a=1000.0, b=1000.0, c=1.0), Method(runs=15, rounds=3, budget_s=100))
    chosen = within(ranked, 40)
    assert [one.identity for one in chosen] == [ranked[0].identity, "c"]
    assert sum(one.measuring_s for one in chosen) <= 40
    assert within(ranked, 0.0) == []
