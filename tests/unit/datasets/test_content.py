"""The hash of a data set's samples: what is another one, what is the same one packed otherwise, what is refused."""

from __future__ import annotations

import gzip
import io
import platform
import sqlite3
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from inferbench_tasks.datasets.about import rows
from inferbench_tasks.datasets.base import DATASETS, Collection, DataSource
from inferbench_tasks.datasets.content import require_unchanged, samples_sha256
from inferbench_tasks.datasets.described import Described, description_of
from inferbench_tasks.datasets.file_types import WRITERS, FileTypes, content
from inferbench_tasks.errors import InputError


class Greys(DataSource):
    """Two grey pictures."""

    title, origin, licence, form = "Two greys", "a test", "none", "grey"

    def open(self, path: Path | None) -> Collection:
        return greys()


def greys(**changes: Any) -> Collection:
    """Of 2 x 2 pixels, one of each class."""
    pictures = changes.pop("pictures", np.arange(8, dtype=np.float32).reshape(2, 2, 2))
    plain = Collection("greys", "grey", 2, lambda rows: pictures[rows], np.array([0, 1]), ("dark", "light"))
    return replace(plain, **changes)


def packed(level: int, shade: int = 7) -> Collection:
    """The same two pictures as PNG files, compressed that much."""
    files = []
    for number in range(2):
        data = io.BytesIO()
        Image.new("L", (40, 40), shade + number).save(data, "PNG", compress_level=level)
        files.append(data.getvalue())
    return Collection("greys", "pictures", 2, lambda rows: [files[at] for at in rows], np.array([0, 1]))


def test_whatever_is_another_sample_label_class_or_target_is_another_hash() -> None:
    """One pixel, the type, the order, a label, a class's name, a target, its kind; the same is the same."""
    pictures = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    brighter = pictures.copy()
    brighter[1, 1, 1] += 1
    numbers = np.array([1.0, 2.0])
    each = [
        greys(),
        greys(pictures=brighter),
        greys(pictures=pictures.astype(np.float64)),
        greys(pictures=pictures[::-1]),
        greys(labels=np.array([1, 0])),
        greys(labels=None),
        greys(classes=("dark", "bright")),
        greys(targets={"numbers": numbers}),
        greys(targets={"numbers": numbers + 1}),
        greys(targets={"texts": numbers.astype(str)}),
        greys(form="tensors", rows=lambda rows: {"": pictures[rows]}),
        greys(form="tensors", rows=lambda rows: {"x": pictures[rows]}),
    ]
    digests = [samples_sha256(Greys(), collection) for collection in each]
    assert len(set(digests)) == len(each)
    assert digests[0] == samples_sha256(Greys(), greys(pictures=pictures.copy()))


def test_two_ways_of_packing_a_picture_are_one_picture() -> None:
    """PNG files of other bytes with the same pixels have the same hash, other pixels another."""
    loose, tight = packed(0), packed(9)
    assert loose.rows(np.array([0])) != tight.rows(np.array([0]))
    assert samples_sha256(Greys(), loose) == samples_sha256(Greys(), tight)
    assert samples_sha256(Greys(), packed(9, shade=8)) != samples_sha256(Greys(), tight)


def test_what_another_library_writes_otherwise_is_the_same_file_type() -> None:
    """gzip and zip with another compression, SQLite's file with another version in its head: what is in them counts."""
    kinds, source = list(WRITERS), FileTypes()

    def hashed(kind: str, data: bytes) -> Any:
        return source.hashed(kinds.index(kind), data)

    plain = gzip.decompress(content(kinds.index("gzip")))
    again = gzip.compress(plain, compresslevel=1, mtime=5)
    assert again != content(kinds.index("gzip"))
    assert hashed("gzip", again) == hashed("gzip", content(kinds.index("gzip"))) == plain
    stored = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content(kinds.index("zip")))) as before,
        zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as after,
    ):
        for name in before.namelist():
            after.writestr(zipfile.ZipInfo(name), before.read(name))
    assert hashed("zip", stored.getvalue()) == hashed("zip", content(kinds.index("zip")))
    sqlite = bytearray(content(kinds.index("sqlite")))
    before_head = hashed("sqlite", bytes(sqlite))
    sqlite[96:100] = (3_000_000).to_bytes(4, "big")  # by which SQLite it was written
    assert hashed("sqlite", bytes(sqlite)) == before_head
    connection = sqlite3.connect(":memory:")
    connection.deserialize(bytes(sqlite))
    connection.execute("UPDATE t SET value = 'x' WHERE rowid = 1")
    connection.commit()
    assert hashed("sqlite", connection.serialize()) != before_head
    connection.close()
    assert hashed("txt", b"abc") == b"abc"


def described(collection: Collection, **more: Any) -> Described:
    """What a manifest says of these samples."""
    return Described("1.0.0", samples_sha256(Greys(), collection), {"test": 2}, ("dark", "light"), **more)


def test_other_samples_under_an_old_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the version, both hashes, the files and libraries that those were made with, the libraries that are here,
    and what to do; one without a manifest is left alone."""
    source = Greys()
    require_unchanged("greys", source, greys())
    made_with = {"numpy": "1.0.1", "a-brush": "2.0", "python": "3.0.0"}
    said = described(greys(), made_with=made_with, files={"greys.bin": "ab" * 32})
    monkeypatch.setattr(Greys, "described", said)
    require_unchanged("greys", source, greys())
    with pytest.raises(InputError) as refused:
        require_unchanged("greys", source, greys(labels=np.array([1, 1])))
    other = samples_sha256(source, greys(labels=np.array([1, 1])))
    for words in (
        "greys@1.0.0",
        said.samples_sha256[:12],
        other[:12],
        "made with greys.bin (SHA-256 abababababab), numpy 1.0.1, a-brush 2.0, python 3.0.0; "
        f"these with 1, numpy {version('numpy')}, a-brush not installed, python {platform.python_version()}.",
        "never changes",
    ):
        assert words in str(refused.value)
    assert refused.value.field == "evaluate.dataset"


def test_without_a_word_on_what_it_was_made_with_the_version_here_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source's own."""
    monkeypatch.setattr(Greys, "described", described(greys()))
    with pytest.raises(InputError, match=r"\. These were made with 1\. A version never changes"):
        require_unchanged("greys", Greys(), greys(labels=np.array([1, 1])))


def test_a_data_set_made_of_another_is_not_held_to_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has other samples, and no manifest until it says one of its own; the list says none of it either."""
    monkeypatch.setattr(Greys, "described", described(greys()))

    class Darker(Greys):
        """One of the two is darker."""

    darker = greys(labels=np.array([0, 0]))
    require_unchanged("darker", Darker(), darker)
    monkeypatch.setattr(DATASETS, "load", lambda name, where="": Darker if name == "words" else Greys)
    assert {row["name"]: row["manifest"] for row in rows()}["words"] is None
    assert {row["name"]: row["manifest"] for row in rows()}["digits"] == "digits@1.0.0"
    monkeypatch.setattr(Darker, "described", described(greys()), raising=False)
    with pytest.raises(InputError, match=r"darker@1\.0\.0"):
        require_unchanged("darker", Darker(), darker)


def test_each_data_set_says_which_libraries_decide_its_samples() -> None:
    """By the names that they are installed by, at the versions whose samples were hashed."""
    made_with = {
        name: said.made_with for name in DATASETS if (said := description_of(DATASETS.load(name))) is not None
    }
    assert all("numpy" in libraries for libraries in made_with.values())
    assert "pillow" in made_with["words"] and "python" in made_with["file-types"]
    assert "scikit-learn" in made_with["digits"] and "scikit-learn" in made_with["digits-png"]
    for libraries in made_with.values():
        assert all(version(library) for library in libraries if library != "python")
