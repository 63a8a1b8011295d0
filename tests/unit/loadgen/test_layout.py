"""The layout of a record: one description, from which rows, numpy types and files follow."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from inferbench_tasks.clients.base import Call, Payload
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.loadgen.layout import columns_of, row_dtype, row_packer, span_packer, spans_of
from inferbench_tasks.loadgen.merging import merge
from inferbench_tasks.loadgen.records import SPANS, read_samples, schema_of
from inferbench_tasks.loadgen.spool import Recorder, Spool
from inferbench_tasks.loadgen.window import WINDOW_COLUMNS

_NAMES = pa.dictionary(pa.int16(), pa.string())
#: What the files of all runs so far have; PerfDB keeps them.
STORED = [
    ("request_id", pa.int64()), ("shard", pa.int16()), ("phase", _NAMES), ("intended_ns", pa.int64()),
    ("sent_ns", pa.int64()), ("first_byte_ns", pa.int64()), ("done_ns", pa.int64()), ("status", _NAMES),
    ("bytes_sent", pa.int64()), ("bytes_received", pa.int64()), ("sample_index", pa.int32()),
    ("batch_size", pa.int16()),
]  # fmt: skip
STORED_SPANS = [
    "server_queue_ns", "server_inference_ns", "server_preprocess_ns", "server_postprocess_ns",
    "client_preprocess_ns", "client_postprocess_ns",
]  # fmt: skip


def test_the_file_has_the_columns_that_stored_files_have() -> None:
    """Names, types and their order; no value may be absent."""
    every = [pa.field(name, kind, nullable=False) for name, kind in STORED]
    assert schema_of(spans=False).equals(pa.schema(every))
    spans = [pa.field(name, pa.int64(), nullable=False) for name in STORED_SPANS]
    assert schema_of(spans=True).equals(pa.schema([*every, *spans]))
    assert set(STORED_SPANS) == SPANS


@pytest.mark.parametrize("spans", [False, True])
def test_what_is_packed_is_what_numpy_reads(spans: bool) -> None:
    """Every column's value is under its own name, and a row has no gaps."""
    dtype = row_dtype(spans=spans)
    names = [column.name for column in columns_of(spans=spans) if column.in_row]
    assert list(dtype.names or ()) == names
    count = len(names) - (len(STORED_SPANS) if spans else 0)
    data = row_packer().pack(*range(1, count + 1))
    data += span_packer().pack(*range(count + 1, len(names) + 1)) if spans else b""
    assert len(data) == dtype.itemsize == (113 if spans else 65)
    assert list(np.frombuffer(data, dtype)[0].tolist()) == list(range(1, len(names) + 1))


def test_a_recorder_takes_the_columns_of_a_row_in_their_order() -> None:
    """Its parameters are written out, for they are passed by place a million times; they follow the layout."""
    names = [column.name for column in columns_of(spans=False) if column.in_row]
    assert list(inspect.signature(Recorder.append).parameters) == ["self", *names, "spans"]


@pytest.mark.parametrize("spans", [False, True])
def test_a_sender_puts_each_value_under_its_own_name(tmp_path: Path, spans: bool) -> None:
    """From a request under way to the file: no two columns are exchanged."""
    ended = Call(1, 2, Payload(wire=b"x" * 6, sample_index=8, batch_size=9))
    ended.sent_ns, ended.first_byte_ns, ended.bytes_received = 3, 4, 7
    ended.server_spans, ended.client_spans = (11, 12, 13, 14), (15, 16)
    expected: dict[str, Any] = {
        "request_id": 1, "shard": 5, "phase": "measure", "intended_ns": 2, "sent_ns": 3, "first_byte_ns": 4,
        "done_ns": 10, "status": "reset", "bytes_sent": 6, "bytes_received": 7, "sample_index": 8, "batch_size": 9,
    }  # fmt: skip
    if spans:
        expected |= dict(zip(STORED_SPANS, (11, 12, 13, 14, 15, 16), strict=True))
    with Recorder(tmp_path / "0.spool", 5, spans=spans) as recorder:
        sender = Dispatcher(recorder, 10**9, spans=spans)
        sender.outstanding = 1
        sender.finish(ended, "reset", 10)
    merge([tmp_path / "0.spool"], tmp_path / "s.parquet")
    assert read_samples(tmp_path / "s.parquet").to_pylist() == [expected]


def test_a_row_without_its_spans_says_so(tmp_path: Path) -> None:
    """Where a server told nothing of one request, nothing of the request before it in the buffer shows."""
    with Recorder(tmp_path / "0.spool", spans=True, buffered_rows=1) as recorder:
        recorder.append(1, 1, 2, 3, 4, 5, 0, 6, 7, 8, 9, (11, 12, 13, 14, 15, 16))
        recorder.append(2, 1, 2, 3, 4, 5, 0, 6, 7, 8, 9)
    rows = Spool(tmp_path / "0.spool").read()
    assert [[int(row[name]) for name in STORED_SPANS] for row in rows] == [[11, 12, 13, 14, 15, 16], [-1] * 6]


def test_a_window_reads_what_it_is_made_of() -> None:
    """No column more: a long load's file is read in a fraction of its memory."""
    unread = {"bytes_sent", "bytes_received", "sample_index"}
    assert set(WINDOW_COLUMNS) == {column.name for column in columns_of(spans=True)} - unread


def test_spans_are_found_by_side_and_part() -> None:
    """The server's four, the client's two."""
    assert spans_of("client") == {
        "preprocess": "client_preprocess_ns", "postprocess": "client_postprocess_ns",
    }  # fmt: skip
    assert list(spans_of("server")) == ["queue", "inference", "preprocess", "postprocess"]
