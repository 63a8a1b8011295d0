"""Points of MLPerf Endpoints by its rules' own examples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.loadgen.mlperf_endpoints import endpoints_point, regions
from inferbench_tasks.loadgen.plan import Segment


@pytest.mark.parametrize(
    ("least", "most", "last_of_low", "last_of_medium"),
    [(32, 8192, 52, 437), (1, 256, 7, 41), (16, 1024, 26, 117)],
)
def test_the_rules_worked_examples(least: int, most: int, last_of_low: int, last_of_medium: int) -> None:
    """Section 5.4, examples A, B and C: the last concurrency of each region and the first of the next.

    Example C has 116 there, by rounding on the way; the reference algorithm of section 5.5 says 117.
    """
    bounds = (least, least + 1, last_of_low, last_of_low + 1, last_of_medium, last_of_medium + 1, most)
    assert list((regions(bounds) or {}).values()) == [
        "ultra low", "low", "low", "medium", "medium", "high", "high"
    ]  # fmt: skip


@pytest.mark.parametrize("points", [[], [1, 32], [33, 64]])
def test_curves_without_regions(points: list[int]) -> None:
    """The lowest is 1 to 32, the highest above."""
    assert regions(points) is None


def test_a_point_is_a_fixed_number_in_flight() -> None:
    """Without pauses; a figure that is withheld makes none."""
    summary: dict[str, Any] = {
        "tpot_ms": {"p90": 25.0}, "ttft_from_send_ms": {"p90": 70.0}, "output_tokens_per_s": 300.0
    }  # fmt: skip
    closed = Segment(kind="closed", start_ns=0, end_ns=1, concurrency=8)

    def point(segment: Segment) -> Any:
        plan: Any = SimpleNamespace(segments=(segment,), turn_step=0)
        return endpoints_point(plan, summary)

    expected = {"concurrency": 8, "system_tps": 300.0, "tps_per_user": 40.0, "ttft_p90_ms": 70.0}
    assert point(closed) == expected
    assert point(closed.model_copy(update={"think_time_ns": 5})) is None
    assert point(Segment(kind="open", start_ns=0, end_ns=1)) is None
    summary["tpot_ms"]["p90"] = None
    assert point(closed) == {**expected, "tps_per_user": None}
