"""What metrics bring is put into the summary; one of another package that fails spoils no run."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES, SHIPPED, Figures
from inferbench_tasks.metrics import derive as deriving
from inferbench_tasks.metrics.base import Measured, Metric
from inferbench_tasks.metrics.derive import BLOCKS
from inferbench_tasks.monitors.records import Recording
from tests.unit.metrics.spent import measure
from tests.unit.test_figures import OtherPackages


def bringing(value: Any, path: str = "jitter_ms") -> type[Metric]:
    """A metric that makes that value, or raises it."""

    class Brings(Metric):
        figure: ClassVar[Figure] = Figure("jitter_ms", path, "ms", "Jitter", "lower", "a formula")

        def compute(self, measured: Measured) -> float | None:
            if isinstance(value, Exception):
                raise value
            assert isinstance(measured.recording, Recording) and measured.summary["energy"] is not None
            return value  # type: ignore[no-any-return]

    return Brings


def summary_with(
    metric: Any, monkeypatch: pytest.MonkeyPatch, origin: str = "somewhere 1.0"
) -> dict[str, Any]:
    """The summary of a run with that metric installed beside ours."""
    installed = OtherPackages(jitter=metric)
    monkeypatch.setattr(installed, "origin", lambda kind: origin)
    monkeypatch.setattr(deriving, "FIGURES", Figures(SHIPPED, installed))
    monkeypatch.setattr(deriving, "METRICS", installed)
    return measure({})


@pytest.mark.parametrize(
    ("value", "stored"), [(2, 2.0), (np.float32(0.5), 0.5), (None, None), (math.nan, None), (math.inf, None)]
)
def test_a_value_is_stored_at_its_path(
    value: Any, stored: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a plain number, in a section of its own if the path says so; what is no finite number was not measured."""
    assert summary_with(bringing(value), monkeypatch)["jitter_ms"] == stored
    assert summary_with(bringing(value, "mine.jitter_ms"), monkeypatch)["mine"] == {"jitter_ms": stored}


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (bringing(ZeroDivisionError("by zero")), "somewhere 1.0: ZeroDivisionError: by zero"),
        (bringing("fast"), "its value is no number: 'fast'"),
        (bringing(True), "its value is no number: True"),
        (bringing(1.0, "requests"), "something else stands at requests of the summary already"),
        (bringing(1.0, "requests.mine"), "something else stands at requests.mine of the summary already"),
        (object, "somewhere 1.0: it has no `figure`"),
    ],
)
def test_a_metric_that_fails_is_noted_and_spoils_nothing(
    metric: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the summary is as without it."""
    found = summary_with(metric, monkeypatch)
    assert problem in found.pop("metric_problems")["jitter"]
    monkeypatch.undo()
    without = measure({})
    assert {name: found[name] for name in ("requests", "energy", "cost")} == {
        name: without[name] for name in ("requests", "energy", "cost")
    }


def test_one_of_ours_that_fails_costs_no_run_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is kept, and the problem says whose metric it was."""
    summary = summary_with(bringing(ZeroDivisionError()), monkeypatch, "built-in")
    assert summary["metric_problems"]["jitter"].startswith("built-in: ZeroDivisionError")


def test_every_figure_and_block_tells_unit_and_formula() -> None:
    """The table is complete."""
    for figure in FIGURES.values():
        assert figure.unit and figure.title and figure.formula, figure.name
    for block in BLOCKS:
        assert block.unit and block.formula and block.path
