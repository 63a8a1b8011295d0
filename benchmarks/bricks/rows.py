"""The raw rows of a gate, Parquet with machine and versions: a script that is run again goes on with them."""

from __future__ import annotations

import json
import math
import platform
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from inferbench_tasks.bricks.processor import instruction_set


def options(parser: ArgumentParser, name: str, unit: str = "part") -> None:
    """``--rows`` and ``--minutes``, the same in every gate; ``unit``: what none is begun of when time is over."""
    parser.add_argument(
        "--rows",
        type=Path,
        default=Path(f"build/{name}.parquet"),
        help="Raw rows, Parquet; kept and gone on with.",
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help=f"begin no {unit} after them")


def ends_at(parsed: Namespace) -> float:
    """The moment of ``time.monotonic`` after which nothing is begun."""
    return time.monotonic() + 60 * float(parsed.minutes)


def where(*libraries: str) -> dict[str, str]:
    """What each row is of: the machine, and the versions of these libraries (JSON: a column of its own each would be
    empty in the rows of others)."""
    versions = {name: version(name) for name in libraries}
    return {
        "machine": f"{platform.node()} {instruction_set()}",
        "versions": json.dumps(versions, sort_keys=True),
    }


def kept(path: Path, of: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of before of which that is true, in their order; none where there is no file."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return [row for row in rows if all(row.get(name) == value for name, value in of.items())]


def keep(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows; the file is whole at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    every: list[Mapping[str, Any]] = [*kept(path, {}), *rows]
    write(path, every)


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """These rows and no others; a column that a row lacks is null in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    every = list(rows)
    columns = list(dict.fromkeys(name for row in every for name in row))
    table = pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in every])
    partial = path.with_name(f".{path.name}")
    pq.write_table(table, partial)
    partial.replace(path)
