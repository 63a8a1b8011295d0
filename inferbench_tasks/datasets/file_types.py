"""``file-types``: files that Python's own libraries write, so that each one's type is known. Generated, and says so."""

from __future__ import annotations

import bz2
import configparser
import csv
import gzip
import io
import json
import lzma
import plistlib
import sqlite3
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described

EACH = 40
_SEED = 20_261_126
_WORDS = ("alpha", "beta", "gamma", "delta", "omega", "node", "edge", "run", "load", "time", "rate", "size")

_Rng = np.random.Generator


def _text(rng: _Rng, words: int = 60) -> str:
    return " ".join(_WORDS[at] for at in rng.integers(0, len(_WORDS), words))


def _rows(rng: _Rng) -> list[list[str]]:
    return [["name", "value"], *([_text(rng, 1), str(rng.integers(0, 10_000))] for _ in range(30))]


def _csv(rng: _Rng) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(_rows(rng))
    return out.getvalue().encode()


def _ini(rng: _Rng) -> bytes:
    parser = configparser.ConfigParser()
    for at in range(5):
        parser[f"section{at}"] = {f"{_text(rng, 1)}{n}": _text(rng, 3) for n in range(4)}
    out = io.StringIO()
    parser.write(out)
    return out.getvalue().encode()


def _xml(rng: _Rng) -> bytes:
    root = ElementTree.Element("list")
    for name, value in _rows(rng)[1:]:
        ElementTree.SubElement(root, name).text = value
    return b'<?xml version="1.0"?>\n' + ElementTree.tostring(root)


def _zip(rng: _Rng) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for at in range(3):
            archive.writestr(zipfile.ZipInfo(f"{at}.txt"), _text(rng))
    return out.getvalue()


def _tar(rng: _Rng) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for at in range(3):
            data = _text(rng).encode()
            member = tarfile.TarInfo(f"{at}.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _wav(rng: _Rng) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(rng.integers(-20_000, 20_000, 2_000).astype("<i2").tobytes())
    return out.getvalue()


def _sqlite(rng: _Rng) -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE t (name TEXT, value TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", _rows(rng)[1:])
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


#: Type -> how one file of it is written; a class each, in this order.
WRITERS: dict[str, Callable[[_Rng], bytes]] = {
    "txt": lambda rng: _text(rng, 200).encode(),
    "csv": _csv,
    "json": lambda rng: json.dumps(dict(_rows(rng)), indent=1).encode(),
    "ini": _ini,
    "xml": _xml,
    "plist": lambda rng: plistlib.dumps({"words": _text(rng).split()}),
    "gzip": lambda rng: gzip.compress(_text(rng, 300).encode(), mtime=0),
    "bzip2": lambda rng: bz2.compress(_text(rng, 300).encode()),
    "xz": lambda rng: lzma.compress(_text(rng, 300).encode()),
    "zlib": lambda rng: zlib.compress(_text(rng, 300).encode()),
    "zip": _zip,
    "tar": _tar,
    "wav": _wav,
    "sqlite": _sqlite,
}


def _unzipped(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return repr([(name, archive.read(name)) for name in archive.namelist()]).encode()


def _rows_in(data: bytes) -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data)
        return repr(connection.execute("SELECT name, value FROM t").fetchall()).encode()
    finally:
        connection.close()


#: What is in a file whose bytes are also its library's: another zlib packs otherwise, SQLite writes its own version.
READERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
    "zlib": zlib.decompress,
    "zip": _unzipped,
    "sqlite": _rows_in,
}


class FileTypes(DataSource):
    """Forty files of each type, with seeded content."""

    title = f"Whole files of {len(WRITERS)} types, written by Python's standard library; labels are exact"
    origin = "generated here, by a fixed seed"
    licence = "made here"
    form = "bytes"
    generated = True
    described = Described(
        version="1.0.0",
        samples_sha256="942174caac342ccc64c0f1e814be8e01e426d53346de9457bf964c76f221674c",
        splits={"test": EACH * len(WRITERS)},
        labels=tuple(WRITERS),
        made_with={"numpy": "2.4.6", "python": "3.11.7"},
    )

    def open(self, path: Path | None) -> Collection:
        count = EACH * len(WRITERS)
        return Collection(
            "file-types", "bytes", count, lambda rows: [content(int(at)) for at in rows],
            np.arange(count, dtype=np.int64) % len(WRITERS), tuple(WRITERS), generated=True,
        )  # fmt: skip

    def version(self) -> str:
        return f"seed {_SEED}"

    def hashed(self, index: int, sample: Any) -> Any:
        read = READERS.get(list(WRITERS)[index % len(WRITERS)])
        return sample if read is None else read(sample)


def content(index: int) -> bytes:
    """The bytes of one sample's file."""
    write = list(WRITERS.values())[index % len(WRITERS)]
    return write(np.random.default_rng([_SEED, index]))
