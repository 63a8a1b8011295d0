"""BenchmarkJade's Markdown tables, and those that are exported here in their form.

A heading names the network and in brackets the precision, ``Resnet 50 (fp32)``. Jade's batch is 128 and its images have
224 pixels unless its log says otherwise, so that it says neither; what is exported does, and whatever else of the job
is not usual: ``fashion-cnn (fp32, batch 32, 28 px, threads 2)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.imported.rows import PHASES, Benchmark, TableRow

#: The header's cells, without case; every other header is an error.
COLUMNS = (
    "cluster", "dataset", "benchmark", "device name", "# devices", "num workers", "data loading time",
    "data processing time", "forward time", "backward time",
)  # fmt: skip
BENCHMARKS: dict[str, Benchmark] = {
    "train": "train",
    "inference": "inference",
    "smooth inference": "smooth_inference",
}
#: A name, and sizes that differ from the network's usual ones: ``resnet18(width=32)``.
_MODEL = re.compile(r"[\w\-. ]+(\([\w\-]+=\d+(, [\w\-]+=\d+)*\))?")
_PRECISIONS = ("fp32", "fp16", "bf16", "tf32")
_BATCH, _SIDE = re.compile(r"batch (\d{1,6})"), re.compile(r"(\d{1,5}) px")
_RULE = re.compile(r"^\|?[\s:|-]+\|?$")


def is_table(text: str) -> bool:
    """Whether the text holds such a table, or something like one."""
    return any(_cells(line)[:1] == ["cluster"] for line in text.lower().splitlines())


def read(text: str, name: str) -> list[TableRow]:
    """The rows of all tables of the text, which came from the file ``name``.

    Raises InputError with the line: for other columns, a row that is too short, an unknown benchmark, what is no time,
    a row that no header is above. What is commented out is not read.
    """
    rows: list[TableRow] = []
    of: dict[str, Any] = {}
    depth = 0
    inside = False
    for number, line in enumerate(_without_comments(text).splitlines(), 1):
        if level := _level(line):
            said = _heading(line)
            # What is no network ends what the heading before said, unless it stands below it.
            if said is not None or level <= depth:
                of, depth = said or {}, level
            inside = False
            continue
        cells = _cells(line, within=inside)
        if not cells:
            inside = False
        elif cells[0].lower() == "cluster":
            _check_header(cells, f"{name}:{number}")
            inside = True
        elif inside and not _RULE.match(line.strip()):
            rows.append(_row(cells, f"{name}:{number}", of))
        elif not inside and len(cells) == len(COLUMNS) and cells[2].lower() in BENCHMARKS:
            raise InputError(
                f"{name}:{number}: this row stands in no table: the header and its rule must be above it"
            )
    if not rows:
        raise InputError(f"{name} has no row of a table with the columns {' | '.join(COLUMNS)}")
    return rows


def heading(
    model: str, precision: str, batch_size: int, image_size: int | None, settings: Sequence[str]
) -> str:
    """As ``read`` takes it, without the marks before it."""
    side = [] if image_size is None else [f"{image_size} px"]
    return f"{model} ({', '.join([precision, f'batch {batch_size}', *side, *settings])})"


def _level(line: str) -> int:
    """How deep a Markdown heading stands, from 1 on; 0 of any other line."""
    text = line.strip()
    return len(text) - len(text.lstrip("#"))


def _heading(line: str) -> dict[str, Any] | None:
    """What a Markdown heading says of the rows below it; None where it names no network."""
    text = line.strip().lstrip("#").strip()
    name, _, last = text.rpartition("(")
    precision, *more = last.removesuffix(")").split(", ") if last.endswith(")") else [""]
    precision = precision.lower()
    if precision not in _PRECISIONS:
        name, precision, more = text, "", []
    if not _MODEL.fullmatch(name := name.rstrip()):
        return None
    said: dict[str, Any] = {"model": name, "precision": precision or None}
    for part in list(more):
        for field, form in (("batch_size", _BATCH), ("image_size", _SIDE)):
            if field not in said and (found := form.fullmatch(part)) and int(found[1]):
                said[field] = int(found[1])
                more.remove(part)
    return said | {"settings": tuple(more)}


def _without_comments(text: str) -> str:
    """The text with as many lines, those of HTML comments empty."""
    kept, at = [], 0
    while (begins := text.find("<!--", at)) >= 0:
        ends = text.find("-->", begins)
        comment = text[begins:] if ends < 0 else text[begins : ends + 3]
        kept += [text[at:begins], "\n" * comment.count("\n")]
        at = begins + len(comment)
    return "".join((*kept, text[at:]))


def _cells(line: str, *, within: bool = False) -> list[str]:
    """Those of a line of a table; ``within`` one it may do without its first bar."""
    line = line.strip()
    if not line.startswith("|") and not (within and "|" in line):
        return []
    return [cell.strip() for cell in line.strip("|").split("|")]


def _check_header(cells: Sequence[str], where: str) -> None:
    names = tuple(cell.lower() for cell in cells)
    if names != COLUMNS:
        raise InputError(f"{where}: the columns must be {' | '.join(COLUMNS)}; got {' | '.join(names)}")


def _row(cells: Sequence[str], where: str, of: Mapping[str, Any]) -> TableRow:
    if len(cells) != len(COLUMNS):
        raise InputError(f"{where}: a row has {len(COLUMNS)} cells; got {len(cells)}")
    cluster, data, benchmark, device, devices, workers, *times = cells
    if benchmark.lower() not in BENCHMARKS:
        raise InputError(f"{where}: the benchmark must be one of: {', '.join(BENCHMARKS)}; got {benchmark!r}")
    for what, cell in (("# devices", devices), ("num workers", workers)):
        if not cell.isdecimal() or len(cell) > 6:
            raise InputError(f"{where}: {what} must be a whole number; got {cell!r}")
    if int(devices) < 1:
        raise InputError(f"{where}: # devices must be at least 1")
    return TableRow(
        source=where,
        cluster=cluster,
        data=data,
        benchmark=BENCHMARKS[benchmark.lower()],
        device=device,
        devices=int(devices),
        workers=int(workers),
        cells=dict(zip(PHASES, times, strict=True)),
        **of,
        **{f"{phase}_s": _seconds(cell, where) for phase, cell in zip(PHASES, times, strict=True)},
    )


def _seconds(cell: str, where: str) -> float | None:
    if cell in ("-", "–", ""):
        return None
    if not re.fullmatch(r"\d{1,9}(\.\d{1,12})?", cell):
        raise InputError(f"{where}: a time in seconds, or a dash, is expected; got {cell!r}")
    return float(cell)
