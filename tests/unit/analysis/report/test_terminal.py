"""The table in the terminal."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.report.terminal import heading, row
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.builders import records, view


@pytest.mark.parametrize(
    ("column", "lines"),
    [
        ("p50, ms", "p50\nms"),
        ("requests/s", "requests\n/s"),
        ("cold start, ms", "cold\nstart ms"),
        ("accuracy", "accuracy"),
    ],
)
def test_a_head_stands_on_two_lines(column: str, lines: str) -> None:
    """Of about the same length, so that columns are narrow."""
    assert heading(column) == lines


def test_a_row_has_each_figure_under_its_name() -> None:
    """Those of the table of figures that a terminal shows, and whether the objective was kept; nothing else is new."""
    names = {figure.name for view_ in ("terminal", "wide") for figure in FIGURES.on(view_)}
    cells = row(view(records(5.0)))
    assert set(cells) == {"run_id", "job", "errors", "slo_met", "verdict", *names}
    assert cells["p50_ms"] == pytest.approx(5.0, rel=0.1)
