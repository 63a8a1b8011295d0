"""The reference of the figures is made from the table."""

from __future__ import annotations

import re
from pathlib import Path

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.metrics import reference
from inferbench_tasks.metrics.derive import BLOCKS

FILE = Path(__file__).parents[3] / "docs" / "reference" / reference.FILE


def test_the_file_in_docs_is_up_to_date() -> None:
    """Otherwise: ``python -m inferbench_tasks.metrics.reference docs/reference``."""
    assert FILE.read_text(encoding="utf-8") == reference.markdown(), f"run: {reference.COMMAND}"


def test_every_figure_and_block_has_a_line_without_a_gap() -> None:
    """Name, what it is, unit, the better side, formula, place; other names where there are any."""
    rows = [
        re.split(r"(?<!\\)\|", line)[1:-1]
        for line in reference.markdown().splitlines()
        if line.startswith("| `")
    ]
    figures = {row[0].strip(" `"): [cell.strip() for cell in row] for row in rows if len(row) == 7}
    assert list(figures) == list(FIGURES)
    assert all(all(cells[:6]) for cells in figures.values())
    blocks = [row for row in rows if len(row) == 4]
    assert [row[0].strip(" `") for row in blocks] == [f"summary.{block.path}" for block in BLOCKS]
    assert all(cell.strip() for row in blocks for cell in row)
