"""The reference of the figures, made from the table: ``python -m inferbench_tasks.metrics.reference DIR``.

Writes ``figures.md``. What packages bring to this environment is not in it: ``inferbench metrics`` lists that too.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES, METRICS
from inferbench_tasks.metrics.derive import BLOCKS

COMMAND = "python -m inferbench_tasks.metrics.reference docs/reference"
FILE = "figures.md"
INTRODUCTION = """\
A figure has one name: in a submission's [`slo`](submission.md#slo), in queries and sorting, in `--by` and `--slo`,
over REST, in CSV and on the pages. Earlier and short names are accepted in its place. Latency counts from the moment
at which a request was *meant* to be sent. What was not measured is null, never zero; a percentile that too few samples
support is null.

Which side an objective bounds follows from what is better. Where requests have different numbers of samples, compare
by the figure of a sample. [How the figures are made](../explanation/figures.md),
[a metric of your own](../how-to/own-metric.md)."""
BLOCKS_INTRODUCTION = """\
Parts of a result's summary that are more than a number: the figures above with their method, uncertainty and
reasons."""


def markdown() -> str:
    """The reference for people."""
    parts = ["# Figures", f"<!-- Made by `{COMMAND}`; don't edit. -->", INTRODUCTION, _figures(), "## Blocks"]
    return "\n\n".join([*parts, BLOCKS_INTRODUCTION, _blocks()]) + "\n"


def _figures() -> str:
    theirs = {f.name for kind, f in FIGURES.brought().items() if METRICS.origin(kind) != "built-in"}
    rows = [_row(figure) for figure in FIGURES.values() if figure.name not in theirs]
    return _table(("figure", "what", "unit", "better", "made as", "in a result", "also"), rows)


def _row(figure: Figure) -> tuple[str, ...]:
    what = figure.title
    if figure.per_sample:
        what += f"; of a sample: `{figure.per_sample}`"
    return (
        f"`{figure.name}`", what, "0 to 1" if figure.share else figure.unit, figure.better or "neither",
        figure.formula, f"`{figure.field_path}`", ", ".join(f"`{alias}`" for alias in figure.aliases),
    )  # fmt: skip


def _blocks() -> str:
    rows = [
        (f"`summary.{block.path}`", _summary(block), _summary(block.compute), block.formula)
        for block in BLOCKS
    ]
    return _table(("block", "what", "holds", "made as"), rows)


def _summary(documented: object) -> str:
    """The first paragraph of its docstring, in a line."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the page of all figures into the folder, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
