"""Spans for other tools: the forms that there are, and a file of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.forms import chrome, jaeger, otlp_json, otlp_protobuf, parquet


class Form(NamedTuple):
    """``ending``: of a file's name. ``content``: of a stored table and what the file says of itself."""

    ending: str
    title: str
    media_type: str
    content: Callable[[pa.Table, dict[str, str]], bytes]


_JSON = "application/json"
#: By the name that REST has for them; of two endings that fit the first is meant.
FORMS = {
    "otlp": Form(".otlp.json", "OTLP as JSON", _JSON, otlp_json.content),
    "otlp_protobuf": Form(".otlp.pb", "OTLP as protobuf", "application/x-protobuf", otlp_protobuf.content),
    "jaeger": Form(".jaeger.json", "Jaeger's JSON", _JSON, jaeger.content),
    "perfetto": Form(".json", "Chrome's trace format, for Perfetto", _JSON, chrome.content),
    "parquet": Form(".parquet", "Parquet", "application/vnd.apache.parquet", parquet.content),
}


def form_of(path: Path) -> Form:
    """What a file's name asks for; InputError for another ending."""
    for form in FORMS.values():
        if path.name.lower().endswith(form.ending):
            return form
    known = ", ".join(f"{form.ending} ({form.title})" for form in FORMS.values())
    raise InputError(f"{path}: its ending says what is written; known: {known}", field="FILE")


def write(table: pa.Table, path: Path, about: dict[str, str]) -> int:
    """Write the spans of a stored table; how many. InputError for another ending. The file is whole or not at all."""
    content = form_of(path).content(table, about)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
    return int(table.num_rows)
