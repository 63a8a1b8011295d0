"""Files of an import, each told by its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.imported import log, table
from inferbench_tasks.training.imported.rows import Import, Log, TableRow

#: A table and its logs have some kilobytes, and less than a hundred rows.
MAX_BYTES = 2 << 20
#: Rules set rows beside rows and logs.
MAX_ROWS, MAX_LOGS = 200, 500


def read(paths: Sequence[Path], say: Callable[[str], None] = lambda _: None) -> Import:
    """Tables and logs; InputError for a file that can't be read, is too large, or is neither, for too many, and for a
    row or a log that is there twice, which would count twice.

    A log without results, of a job that was cancelled or failed, is left out, as ``say`` is told.
    """
    content = Import()
    for path in paths:
        text = _text(path)
        if log.is_log(text):
            content.logs.append(log.read(text, path.name))
        elif table.is_table(text):
            content.rows += table.read(text, path.name)
        elif log.is_unfinished(text):
            say(f"left out: {path}: its job ended before its results")
        else:
            raise InputError(
                f"{path} is neither a log of BenchmarkJade (with its benchmark results) nor a Markdown table with the "
                f"columns {' | '.join(table.COLUMNS)}"
            )
        if len(content.rows) > MAX_ROWS or len(content.logs) > MAX_LOGS:
            raise InputError(
                f"an import has at most {MAX_ROWS} rows and {MAX_LOGS} logs; with {path} these have "
                f"{len(content.rows)} and {len(content.logs)}: import them in parts"
            )
    if not content.rows and not content.logs:
        raise InputError("no job of these logs came to its results: there is nothing to import")
    _require_once([*content.rows, *content.logs])
    return content


def _require_once(documents: Sequence[TableRow | Log]) -> None:
    """InputError for one that says the same as another, wherever both stand."""
    seen: dict[str, str] = {}
    for of in documents:
        said = of.model_dump_json(exclude={"source"})
        if said in seen:
            raise InputError(f"{of.source} says the same as {seen[said]}: give each row and each log once")
        seen[said] = of.source


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path} has more than {MAX_BYTES >> 20} MB")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}") from error
