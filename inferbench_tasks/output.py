"""Results on stdout, as a table for people or as JSON or YAML for programs; ``say`` is for stderr."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import BaseModel

from inferbench_tasks.dotted import walk

if TYPE_CHECKING:
    from rich.console import Console

_Row = TypeVar("_Row")


class OutputFormat(StrEnum):
    """The forms of a command's output that ``-o`` takes."""

    table = "table"
    json = "json"
    yaml = "yaml"


#: The option that every command with results has: ``output: OutputFormat = OUTPUT``.
OUTPUT: OutputFormat = typer.Option(OutputFormat.table, "--output", "-o", help="table, json or yaml.")

#: Control characters (a stored name must not steer the terminal) and marks that reorder text.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def emit(value: Any, output: OutputFormat, columns: Sequence[str] | None = None) -> None:
    """Print rows (a list of mappings) or one document (a mapping) on stdout.

    Pydantic models count as mappings. NaN and infinities become null. ``columns`` chooses and orders a
    table's columns; by default all keys, in the order of their first appearance.
    """
    plain = to_plain(value)
    if output is OutputFormat.json:
        text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
        _write(_UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
    elif output is OutputFormat.yaml:
        _write(_yaml(plain))
    elif isinstance(plain, dict):
        # An empty mapping is shown as one; others by what is in them.
        leaves = [item for item in walk(plain) if not (isinstance(item[1], dict) and item[1])]
        _table([{"field": path, "value": value} for path, value in leaves], ("field", "value"))
    elif isinstance(plain, list):
        rows = [row if isinstance(row, dict) else {"value": row} for row in plain]
        if not rows:
            say("Nothing to show.")
            return
        _table(rows, columns or list(dict.fromkeys(key for row in rows for key in row)))
    else:
        _write(cell(plain))


def say(text: str) -> None:
    """A message for the user on stderr: progress, hints, warnings."""
    typer.echo("\n".join(safe(line) for line in text.splitlines()), err=True)


def first_of(rows: list[_Row], limit: int) -> list[_Row]:
    """Rows of which one more than ``limit`` was asked for, without that one: where it is there, that is said. 0: no
    limit."""
    if not limit or len(rows) <= limit:
        return rows
    say(f"The first {limit:,}; more with --limit.")
    return rows[:limit]


def fitting(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    expendable: Sequence[str],
    width: int | None = None,
) -> list[str]:
    """The columns of a table that fit ``width`` characters, by default the terminal's; into a file or a pipe all go.

    As few of the ``expendable`` ones are left out as it takes, the first of these first, and that is said.
    """
    from rich.cells import cell_len

    if width is None:
        width = _console().width
    shown = list(columns)
    widths = {
        name: max(cell_len(text) for text in (safe(name), *(cell(row.get(name)) for row in rows)))
        for name in columns
    }
    for name in expendable:
        if sum(widths[each] for each in shown) + _BETWEEN * (len(shown) - 1) <= width:
            break
        if name in shown:
            shown.remove(name)
    if rows and len(shown) < len(columns):
        left_out = ", ".join(name for name in columns if name not in shown)
        say(f"Not shown, for the terminal is too narrow: {left_out}.")
    return shown


def safe(text: str) -> str:
    """The text on one line, with nothing that a terminal obeys; the rest of it is shown as it is."""
    return _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}" if match[0] != "\n" else " ", text)


def cell(value: Any) -> str:
    """A value as a table shows it; a number keeps four significant digits, and all before the point."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{safe(str(key))}={cell(item)}" for key, item in value.items())
    return safe(str(value))


def to_plain(value: Any) -> Any:
    """What JSON has: mappings, lists, text, finite numbers, null."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        in_utc = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, (date, PurePath)):
        return str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return to_plain(value.tolist())
    return str(value)


def _yaml(plain: Any) -> str:
    import yaml

    for unicode in (True, False):
        text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=unicode, width=110)
        if not _UNSAFE_IN_JSON.search(text):
            break
    return text.rstrip("\n")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    if value == 0 or 1e-4 <= abs(value) < 1e15:
        decimals = 0 if value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
        return f"{value:.{decimals}f}"
    return f"{value:.3e}"


#: Above so many rows a table is not laid out by rich, which takes 1.5 ms a row.
_LONG_TABLE = 500
#: Blanks between two columns.
_BETWEEN = 3


def _console() -> Console:
    """Into a pipe or a file a row is never folded: its readers count lines."""
    from rich.console import Console

    return Console(soft_wrap=False) if sys.stdout.isatty() else Console(width=100_000)


def _table(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    if len(rows) > _LONG_TABLE:
        return _long_table(rows, columns)
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        numeric = all(isinstance(row.get(name), (int, float, type(None))) for row in rows)
        table.add_column(Text(safe(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(name))) for name in columns))
    _console().print(table)


def _long_table(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    """The same with every row on one line, however wide the terminal is."""
    from rich.cells import cell_len

    columns_of_lines = []
    for name in columns:
        values = [row.get(name) for row in rows]
        numeric = all(isinstance(value, (int, float, type(None))) for value in values)
        texts = [safe(name), *map(cell, values)]
        lengths = [cell_len(text) for text in texts]
        width = max(lengths)
        texts.insert(1, "─" * width)
        lengths.insert(1, width)
        blanks = [" " * (width - length) for length in lengths]
        padded = [
            blank + text if numeric else text + blank for text, blank in zip(texts, blanks, strict=True)
        ]
        columns_of_lines.append(padded)
    _write("\n".join("  ".join(line).rstrip() for line in zip(*columns_of_lines, strict=True)))


def _write(text: str) -> None:
    typer.echo(text)
