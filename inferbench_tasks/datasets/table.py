"""``table``: a CSV, JSON Lines or Parquet file with labels, and beside each a text, an image's file, or numbers."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.artifacts import parquet_files
from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.classes import NAMES_FILE, numbered
from inferbench_tasks.datasets.pictures import readable
from inferbench_tasks.errors import InputError

LABEL, TEXT, FILE, SPLIT = "label", "text", "file", "split"
MAX_BYTES = 1 << 30
_ENDINGS = (".csv", ".jsonl", ".parquet")
#: So many tables of a folder are named.
_NAMED = 5
MAX_ROWS = 1_000_000
_FIELD = "evaluate.path"
_Row = dict[str, Any]


class Table(DataSource):
    """Columns: ``label``; and ``text``, or ``file`` (an image, relative to the table), or else numbers only, which are
    the model's one input in their order. With ``evaluate.split`` also ``split``: the name of the part that a row is of.

    ``path``: the table, or a folder with one, with its images and the names of classes: what reads a stranger's samples
    reaches only what a submission names.
    """

    title = (
        "Your table (.csv, .jsonl, .parquet), or a folder with one: columns label, and text, file, or numbers"
    )
    origin = "yours"
    licence = "yours"
    form = "texts"
    takes_path = True
    form_by_file = True

    def open(self, path: Path | None) -> Collection:
        return self._opened(path, None)

    def open_split(self, path: Path | None, split: str) -> Collection:
        return self._opened(path, split)

    def splits(self, path: Path | None) -> tuple[str, ...]:
        """The names in the column ``split``, sorted; () where the table has none."""
        if path is None:
            return ()
        return tuple(sorted({row[SPLIT] for _, row in _read(_table(path)) if _has_split(row)}))

    def _opened(self, path: Path | None, split: str | None) -> Collection:
        assert path is not None
        path = _table(path)
        rows, places = [], []
        for place, row in _read(path):
            rows.append(row)
            places.append(place)
            if len(rows) > MAX_ROWS:
                raise InputError(f"{path.name} has more than {MAX_ROWS:,} rows", field=_FIELD)
        if not rows:
            raise InputError(f"{path.name} has no rows", field=_FIELD)
        labels = [_label(row, place) for row, place in zip(rows, places, strict=True)]
        found = numbered(labels, places, path.parent)  # by all rows: a class has one number in all splits
        known: dict[str, Any] = {"classes": found.names, "by_name": found.by_name}
        ids, first = found.ids, rows[0]
        if split is not None:
            chosen = [at for at, row in enumerate(rows) if _text(row, SPLIT, places[at]) == split]
            rows, places, ids = [rows[at] for at in chosen], [places[at] for at in chosen], ids[chosen]
        elif TEXT in first or FILE in first:
            known["all_splits"] = tuple(sorted({row[SPLIT] for row in rows if _has_split(row)}))
        if TEXT in first:
            texts = [_text(row, TEXT, place) for row, place in zip(rows, places, strict=True)]
            return Collection(
                path.stem, "texts", len(texts), lambda at: [texts[int(i)] for i in at], ids, **known
            )
        if FILE in first:
            files = [
                inside(path.parent, _text(row, FILE, place), f"{_FIELD}: {place}")
                for row, place in zip(rows, places, strict=True)
            ]
            _require_reach(files[0], places[0])
            named = [f"{place}: {file.name}" for place, file in zip(places, files, strict=True)]
            keep, broken = readable(files, named, path.name)
            good = [files[at] for at in keep]
            return Collection(
                path.stem, "pictures", len(good), lambda at: [good[int(i)].read_bytes() for i in at],
                ids[keep], left_out=broken, **known,
            )  # fmt: skip
        values = _numbers(rows, places, () if split is None else (SPLIT,))
        return Collection(path.stem, "tensors", len(values), lambda at: {"": values[at]}, ids, **known)

    def count(self, path: Path, split: str | None) -> int:
        return sum(1 for _, row in _read(_table(path)) if split is None or row.get(SPLIT) == split)

    def digests(self, path: Path) -> list[str]:
        """Of the table, of the names of classes beside it, and of each image that it names."""
        return self._digests(path, None)

    def split_digests(self, path: Path, split: str) -> list[str]:
        """The same, of the images of that split alone."""
        return self._digests(path, split)

    def _digests(self, path: Path, split: str | None) -> list[str]:
        path = _table(path)
        beside = path.parent / NAMES_FILE
        files = [beside] if beside.is_file() else []
        pictures: bool | None = None
        for place, row in _read(path):
            if pictures is None:  # as ``open`` does, by the first row
                pictures = TEXT not in row and FILE in row
            if not pictures:
                break
            if split is not None and row.get(SPLIT) != split:
                continue
            files.append(inside(path.parent, _text(row, FILE, place), f"{_FIELD}: {place}"))
        return [tree_digest(path), *(tree_digest(file) for file in files)]


def _table(path: Path) -> Path:
    """Itself, or the one in a folder. InputError where there is none, or several."""
    if not path.is_dir():
        return path
    found = sorted(each for each in path.iterdir() if each.suffix.lower() in _ENDINGS and each.is_file())
    if len(found) != 1:
        names = ", ".join(each.name for each in found[:_NAMED]) or "none"
        raise InputError(
            f"{path.name} needs one table ({', '.join(_ENDINGS)}) at its top; there: {names}", field=_FIELD
        )
    return inside(path, found[0].name, _FIELD)


def _require_reach(file: Path, place: str) -> None:
    """InputError where the sandbox keeps an image from being read, not the image itself."""
    try:
        with open(file, "rb"):
            pass
    except PermissionError as error:
        raise InputError(
            f"{place}: {file.name} can't be opened ({error.strerror}): of a submission's folder only what it names is "
            "read. Put the table and its images into one folder, and name the folder",
            field=_FIELD,
        ) from error
    except OSError:  # told with all that can't be read
        return


def _read(path: Path) -> Iterator[tuple[str, _Row]]:
    """Each row with its place, "name:line"; of Parquet the row's number."""
    ending = path.suffix.lower()
    if not path.is_file() or ending not in _ENDINGS:
        raise InputError(f"{path.name} is no table; allowed: {', '.join(_ENDINGS)}", field=_FIELD)
    if ending == ".parquet":
        table = parquet_files.read(path, MAX_BYTES, _FIELD)
        for at, row in enumerate(table.to_pylist()):
            yield f"{path.name}, row {at}", row
        return
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path.name} has more than {MAX_BYTES:,} bytes", field=_FIELD)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from (_csv if ending == ".csv" else _jsonl)(path.name, file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path.name} can't be read: {error}", field=_FIELD) from error


def _csv(name: str, file: Any) -> Iterator[tuple[str, _Row]]:
    reader = csv.reader(file, strict=True)
    head = next(reader, None)
    if head is None:
        return
    if len(set(head)) != len(head):
        raise InputError(f"{name}:1: a column stands twice: {', '.join(head)}", field=_FIELD)
    for values in reader:
        if not values:
            continue
        if len(values) != len(head):
            raise InputError(
                f"{name}:{reader.line_num}: {len(values)} values, the head has {len(head)}", field=_FIELD
            )
        yield f"{name}:{reader.line_num}", dict(zip(head, values, strict=True))


def _jsonl(name: str, file: Any) -> Iterator[tuple[str, _Row]]:
    for line, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}:{line}: no JSON: {error}", field=_FIELD) from error
        if not isinstance(row, dict):
            raise InputError(f"{name}:{line}: no object", field=_FIELD)
        yield f"{name}:{line}", row


def _label(row: _Row, place: str) -> str:
    value = row.get(LABEL)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(
            f"{place}: a {LABEL} is needed, a class's number or name; got {value!r}"[:300], field=_FIELD
        )
    return str(value)


def _text(row: _Row, name: str, place: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{place}: {name} must be a text; got {value!r}"[:300], field=_FIELD)
    return value


def _has_split(row: _Row) -> bool:
    return isinstance(row.get(SPLIT), str) and bool(row[SPLIT])


def _numbers(rows: list[_Row], places: list[str], besides: tuple[str, ...] = ()) -> Any:
    """A row for each sample, of all columns but the label and ``besides``."""
    columns = [name for name in rows[0] if name not in (LABEL, *besides)]
    if not columns:
        raise InputError(
            f"{places[0]}: there is nothing but the {LABEL}; needed: {TEXT}, {FILE}, or numbers", field=_FIELD
        )
    values = np.empty((len(rows), len(columns)), dtype=np.float32)
    largest = float(np.finfo(np.float32).max)
    for at, (row, place) in enumerate(zip(rows, places, strict=True)):
        if row.keys() - {LABEL, *besides} != set(columns):
            raise InputError(f"{place}: it has other columns than the first row", field=_FIELD)
        for to, name in enumerate(columns):
            try:
                number = float(row[name])
            except (TypeError, ValueError, OverflowError):
                number = math.nan
            if not abs(number) <= largest:
                named = "; evaluate.split names the split that is to be asked" if name == SPLIT else ""
                raise InputError(
                    f"{place}: {name} is no finite number: {str(row[name])[:200]!r} (float32){named}",
                    field=_FIELD,
                )
            values[at, to] = number
    return values
