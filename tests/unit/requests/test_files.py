"""Requests from files of the user's."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.files import files_digest, open_files


def model(*inputs: tuple[str, str, tuple[int, ...]]) -> ModelArtifact:
    return ModelArtifact(
        name="m",
        framework="onnx",
        format="onnx",
        path="",
        digest="",
        inputs=tuple(TensorSpec(name=n, dtype=d, shape=s) for n, d, s in inputs),
        outputs=(),
    )


VECTOR = model(("x", "float32", (4,)))


def test_npz_with_labels(tmp_path: Path) -> None:
    """An array per input; "labels" is not an input. Types become the model's."""
    np.savez(tmp_path / "a.npz", x=np.eye(4), labels=np.arange(4))
    found = open_files(tmp_path, "a.npz", VECTOR)
    labels = found.labels()
    assert len(found) == 4 and labels is not None and labels.dtype == np.int64
    assert found.inputs(np.array([2, 0]))["x"].dtype == np.float32


def test_npy_for_a_single_input(tmp_path: Path) -> None:
    """One array is the one input."""
    np.save(tmp_path / "a.npy", np.eye(4, dtype=np.float32))
    assert len(open_files(tmp_path, "a.npy", VECTOR)) == 4
    with pytest.raises(InputError, match="holds one array, the model takes a, b"):
        open_files(tmp_path, "a.npy", model(("a", "float32", (4,)), ("b", "float32", (4,))))


def test_parquet_columns_take_the_model_s_shape(tmp_path: Path) -> None:
    """A flat list per row becomes the input's tensor."""
    rows = np.arange(24, dtype=np.float32).reshape(3, 8)
    pq.write_table(pa.table({"x": rows.tolist(), "labels": [1, 0, 1]}), tmp_path / "a.parquet")
    found = open_files(tmp_path, "a.parquet", model(("x", "float32", (2, 4))))
    assert np.array_equal(found.inputs(np.arange(3))["x"], rows.reshape(3, 2, 4))


def test_a_folder_of_images(tmp_path: Path) -> None:
    """Decoded, scaled and normalised as the model's input wants."""
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("a.png", (255, 0, 0)), ("b.png", (0, 0, 255))):
        data = io.BytesIO()
        image.new("RGB", (40, 30), colour).save(data, "PNG")
        (tmp_path / name).write_bytes(data.getvalue())
    found = open_files(tmp_path, ".", model(("x", "float32", (3, 8, 8))), pixels=(127.5, 127.5))
    pixels = found.inputs(np.array([0]))["x"]
    assert pixels.shape == (1, 3, 8, 8) and pixels[0, 0].min() == 1.0 and pixels[0, 2].max() == -1.0
    blue_first = open_files(tmp_path, ".", model(("x", "float32", (3, 8, 8))), colour_order="bgr")
    assert blue_first.inputs(np.array([0]))["x"][0].mean(axis=(1, 2)).tolist() == [0.0, 0.0, 1.0]


def test_texts_are_encoded(tmp_path: Path) -> None:
    """A text per line, by the model's own tokenizer."""
    (tmp_path / "a.txt").write_text("one\n\ntwo words\n")
    found = open_files(
        tmp_path, "a.txt", model(("n", "int64", ())), lambda texts: {"n": np.array([len(t) for t in texts])}
    )
    assert found.inputs(np.arange(2))["n"].tolist() == [3, 9]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 5))}, r"input x has shape \[5\], the model takes \[4\]"),
        ({"y": np.zeros((2, 4))}, r"input x is missing; the model has no input y"),
        ({"x": np.zeros((2, 4), dtype=np.complex64)}, "x is complex64, the model takes float32"),
        ({"x": np.zeros((0, 4))}, "same number of samples, >= 1"),
        ({"x": np.zeros((2, 4)), "labels": np.zeros(3)}, "3 labels for 2 samples"),
        ({"x": np.array([["a"] * 4], dtype=object)}, "can't be read"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    """The message says what is wrong and what the model takes; objects are never unpickled."""
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    with pytest.raises(InputError, match=message):
        open_files(tmp_path, "a.npz", VECTOR)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """No traceback for a truncated archive."""
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match="can't be read"):
        open_files(tmp_path, "a.npz", VECTOR)


def test_an_unknown_ending_lists_the_known(tmp_path: Path) -> None:
    """The allowed kinds of files are named."""
    (tmp_path / "a.xyz").write_text("x")
    with pytest.raises(InputError, match=r"allowed: \.npz"):
        open_files(tmp_path, "a.xyz", VECTOR)


def test_outside_and_missing_are_refused(tmp_path: Path) -> None:
    """Neither is read."""
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "a.npy").write_bytes(b"x")
    (inside / "link.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(InputError, match="leads out"):
        files_digest(inside, "link.npy")
    with pytest.raises(InputError, match="is not there"):
        files_digest(inside, "b.npy")


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_archive_is_named_with_what_to_do(tmp_path: Path, cut: bool) -> None:
    """Half a file and a changed byte: which file, what is wrong, what to do."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.eye(4, dtype=np.float32))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if cut else data.replace(b"\0\0\x80\x3f", b"\0\0\x80\x40", 1))
    with pytest.raises(InputError, match=r"requests\.path: a\.npz can't be read: .*; write it again"):
        open_files(tmp_path, "a.npz", VECTOR)


def test_an_archive_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    """A bomb of 3 GiB in 3 MB: its directory is read, its content is not."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x.npy", b"\0" * 1024)
    data = path.read_bytes()
    path.write_bytes(data.replace((1024).to_bytes(4, "little"), (3 << 30).to_bytes(4, "little")))
    with pytest.raises(InputError, match=r"bomb\.npz has .* and would unpack to 3,221,225,472"):
        open_files(tmp_path, "bomb.npz", VECTOR)


def test_an_array_that_claims_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    """A header of 16 TiB over a few bytes is a wrong file, not a crash."""
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array_header_2_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 4)}
        )
    with pytest.raises(InputError, match=r"a\.npy is larger than the memory here"):
        open_files(tmp_path, "a.npy", VECTOR)


def test_labels_are_one_class_number_per_sample(tmp_path: Path) -> None:
    """A column of them counts, as Keras writes it; one-hot rows, words and fractions are refused by name."""
    np.savez(tmp_path / "column.npz", x=np.eye(4), labels=np.arange(4.0)[:, None])
    labels = open_files(tmp_path, "column.npz", VECTOR).labels()
    assert labels is not None and labels.tolist() == [0, 1, 2, 3]
    wrong = (np.eye(4), np.array(["a", "b", "c", "d"]), np.array([0, 1, 2, 0.5]), np.array([0, 1, 2, np.nan]))
    for given in (*wrong, np.array([0, 1, 2, -1])):
        np.savez(tmp_path / "wrong.npz", x=np.eye(4), labels=given)
        with pytest.raises(InputError, match="labels must be one class number"):
            open_files(tmp_path, "wrong.npz", VECTOR)
