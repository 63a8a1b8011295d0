"""The table in the terminal."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.report.columns import columns_of
from inferbench_tasks.analysis.report.terminal import heading, row, show_results
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.output import OutputFormat
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


def test_figures_of_a_disturbed_run_are_shown_as_bounds_with_that_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At most so slow, at least so much; the word stands in the table, by what and how much below it."""
    verdict = "disturbed: the hypervisor took 30.0% of the machine's CPU time (at most 5%)"
    results = [
        view(records(5.0, noise=0), f"run.00{n}", said).result for n, said in enumerate(("valid", verdict))
    ]
    show_results([result for result in results if result], None, OutputFormat.table)
    lines = capsys.readouterr().out.splitlines()
    first, second = (
        next(line for line in lines if line.split()[-1:] == [kind]) for kind in ("valid", "disturbed")
    )
    assert "≤" not in first and "≥" not in first
    assert "≤ 5" in second and "≥ 200" in second
    assert any(verdict in line for line in lines)


def test_so_does_a_report() -> None:
    """Each figure that may be better or worse; one that may be neither stands as it is."""
    run = view(
        records(5.0), verdict="disturbed: the hypervisor took 30.0% of the machine's CPU time (at most 5%)"
    )
    cells = {column.figure.name: column.cell(run) for column in columns_of([run]) if column.figure}
    assert cells["p50_ms"].startswith("≤ ") and cells["throughput_rps"].startswith("≥ ")
    assert all(
        cell.startswith(FIGURES[name].bound_sign) for name, cell in cells.items() if FIGURES[name].better
    )


def test_what_a_disturbed_machine_missed_is_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    """A quiet one may keep the objective; what the disturbed one kept a quiet one keeps too."""
    verdict = "disturbed: the hypervisor took 30.0% of the machine's CPU time (at most 5%)"
    for bound_ms, said, valid in ((1.0, "undecided", "missed"), (50.0, "met", "met")):
        runs = [
            view(records(5.0), job={"slo__p99_ms": bound_ms}, verdict=text) for text in (verdict, "valid")
        ]
        cells = [column.cell(run) for run in runs for column in columns_of([run]) if column.figure is None]
        assert cells == [said, valid]
        results = [run.result for run in runs if run.result]
        show_results(results[:1], None, OutputFormat.table)
        assert said in capsys.readouterr().out
