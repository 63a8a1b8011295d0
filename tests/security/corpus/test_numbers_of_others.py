"""Sizes, names and types that others give, and that would take all memory or mean something else."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.artifacts import parquet_files
from inferbench_tasks.clients.metadata import fetch_metadata
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError

MIB = 1 << 20


@contextmanager
def answering(body: bytes) -> Iterator[Endpoint]:
    """A server that says this of its model."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Endpoint(
            protocol="http", host="127.0.0.1", port=server.server_port, model_name="m", model_version=""
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def described(**changes: Any) -> bytes:
    """KServe's metadata of a model with one input."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4], **changes}
    return json.dumps({"name": "m", "inputs": [tensor], "outputs": [tensor]}).encode()


@pytest.mark.parametrize(
    "body",
    [
        described(shape=[3_000_000_000]),
        described(shape=[3e9]),
        described(shape=[-7]),
        described(shape=[0]),
        described(shape=[10**30]),
        described(shape=["9" * 5000]),
        described(shape=[100_000, 100_000]),
        described(shape=[1] * 65),
        described(shape=None),
        described(shape="4"),
        described(shape=[None]),
        described(shape=[[4]]),
        described(shape={"a": 1}),
        described(datatype=5),
        described(datatype=None),
        described(datatype="FP9"),
        described(datatype=["FP32"]),
        described(name=5),
        described(name=None),
        described(name=""),
        described(name="x" * 100_000),
        b'{"inputs": [5], "outputs": []}',
        b'{"inputs": 5, "outputs": []}',
        b'{"inputs": {"a": 1}, "outputs": []}',
        b"[]",
        b"5",
        b"null",
        b"{",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_no_model_has_is_an_input_error(body: bytes) -> None:
    """Before arrays of that shape are made."""
    with answering(body) as endpoint, pytest.raises(InputError):
        fetch_metadata(endpoint)


def test_an_honest_model_is_described() -> None:
    """-1 stands for any size, and whole numbers may be texts."""
    with answering(described(shape=["-1", 224])) as endpoint:
        assert fetch_metadata(endpoint).inputs[0].shape == (-1, 224)


@pytest.mark.parametrize("name", ["file", "allow_pickle", "args", "kwds", "self", "a/b", "../x", "a b"])
def test_an_inputs_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    """numpy's own function would take ``file`` as its target and ``allow_pickle`` as a switch."""
    write_archive(tmp_path / "a.npz", {name: np.arange(3), "other": np.ones((2, 2))})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert archive[name].tolist() == [0, 1, 2] and archive["other"].shape == (2, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_objects_are_not_pickled(tmp_path: Path) -> None:
    """An array of objects is refused when it is written, not when it is read."""
    with pytest.raises(ValueError, match="pickle"):
        write_archive(tmp_path / "a.npz", {"x": np.array([{}], dtype=object)})


def _constant(path: Path, array: Any) -> Path:
    pq.write_table(pa.table({"x": array}), path, compression="zstd", use_dictionary=True)
    return path


@pytest.mark.parametrize("kind", ["numbers", "flags", "lists", "texts", "nulls"])
def test_a_parquet_bomb_is_refused_before_it_is_read(tmp_path: Path, kind: str) -> None:
    """Files of some kilobytes that would take more than the limit in memory."""
    rows = 2_000_000
    array = {
        "numbers": lambda: pa.array(np.zeros(rows)),
        "flags": lambda: pa.array(np.zeros(rows, np.bool_)),
        "lists": lambda: pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows, np.float32)), 1000),
        "texts": lambda: pa.array(["a" * 10_000] * 1000).dictionary_encode(),
        "nulls": lambda: pa.nulls(rows, pa.float64()),
    }[kind]()
    path = _constant(tmp_path / "x.parquet", array)
    assert path.stat().st_size < 200_000
    with pytest.raises(InputError, match="would take"):
        parquet_files.read(path, 4 * MIB)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"x" * 1000])
def test_a_damaged_parquet_file_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    """Whatever Arrow says of it."""
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InputError, match="can't be read"):
        parquet_files.read(tmp_path / "x.parquet", MIB)


def test_an_honest_parquet_file_is_read(tmp_path: Path) -> None:
    """Lists, texts and numbers below the limit."""
    table = pa.table({"x": [[1.0, 2.0]] * 50, "text": ["a", "b"] * 25, "n": list(range(50))})
    pq.write_table(table, tmp_path / "x.parquet")
    assert parquet_files.read(tmp_path / "x.parquet", MIB).num_rows == 50
