"""The folder of a suite: what was written is read, and of a stranger's nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.suite import manifest
from inferbench_tasks.bricks.suite.manifest import FILE, Entry, Wish, file_digest, read_suite, write_suite
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import save, weight

WISH = Wish(runs=15, rounds=3, budget_s=2.0)
NAMES = ("00112233445566aa", "ffeeddccbbaa9988")


def suite(folder: Path, change: Callable[[Path], object] = lambda path: None) -> Path:
    """Two networks, each a matrix product; the second is changed before the suite is sealed."""
    networks = []
    for at, name in enumerate(NAMES):
        node = helper.make_node("MatMul", ["x0", "w0"], ["y0"])
        path = save(
            folder / f"{name}.onnx",
            [node],
            {"w0": weight(4, 4 + at)},
            {"x0": (TensorProto.FLOAT, (1, 4))},
            ["y0"],
        )
        np.savez(folder / f"{name}.npz", allow_pickle=False, x0=weight(1, 4))
        if at:
            change(path)
        entry = Entry(name=name, network=file_digest(path), inputs=file_digest(path.with_suffix(".npz")))
        networks.append((entry, path, path.with_suffix(".npz")))
    write_suite(folder / "suite", WISH, networks)
    return folder / "suite"


def test_a_suite_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Its networks are copied before they are used; no file tells when it was made."""
    folder = suite(tmp_path)
    read, digest, items = read_suite(folder, tmp_path / "copy")
    assert read.method == WISH and tuple(item.name for item in items) == NAMES
    assert digest == manifest.digest_of((folder / FILE).read_bytes())
    assert all(item.path.parent == tmp_path / "copy" and item.path.exists() for item in items)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mtime for path in paths} == {315_532_800.0}
    with pytest.raises(InputError, match="is there already"):
        write_suite(folder, WISH, [])


def network(folder: Path) -> Path:
    return folder / "networks" / f"{NAMES[0]}.onnx"


def flipped(path: Path) -> None:
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(bytes(text))


def linked(folder: Path) -> None:
    path = network(folder)
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")


def hard_linked(folder: Path) -> None:
    path = network(folder)
    os.link(path, folder.parent / "other-name")


def climbing(folder: Path) -> None:
    path = folder / FILE
    path.write_bytes(path.read_bytes().replace(NAMES[0].encode(), b"../../../etc/pass"[:16]))


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a byte of a network": lambda folder: flipped(network(folder)),
    "a byte of the inputs": lambda folder: flipped(network(folder).with_suffix(".npz")),
    "a blank in the manifest": lambda folder: (folder / FILE).write_bytes(
        (folder / FILE).read_bytes() + b" "
    ),
    "a name that climbs": climbing,
    "a link": linked,
    "a file of two names": hard_linked,
    "a file too many": lambda folder: (folder / "networks" / "0123456789abcdef.onnx").write_bytes(b""),
    "a file too few": lambda folder: network(folder).unlink(),
    "a folder in it": lambda folder: (folder / "networks" / "more").mkdir(),
    "a file beside": lambda folder: (folder / "run.sh").write_text("echo"),
    "a pipe": lambda folder: os.mkfifo(folder / "networks" / "0123456789abcdef.npz"),
    "no manifest": lambda folder: (folder / FILE).unlink(),
    "another version": lambda folder: (folder / FILE).write_bytes(
        (folder / FILE).read_bytes().replace(b'"method_version":', b'"method_version":9')
    ),
    "rounds for ever": lambda folder: (folder / FILE).write_bytes(
        (folder / FILE).read_bytes().replace(b'"runs":15', b'"runs":1500000')
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_was_changed_is_refused(name: str, tmp_path: Path) -> None:
    """Links, pipes, names that climb, other files, each byte: InputError, which is exit code 2."""
    folder = suite(tmp_path)
    HOSTILE[name](folder)
    with pytest.raises(InputError):
        read_suite(folder, tmp_path / "copy")


def test_a_suite_beyond_the_limits_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of its files and by their bytes; the limits are 100,000 and 4 GB. A file with a hole is as large as
    it says."""
    folder = suite(tmp_path)
    assert (manifest.MOST_FILES, manifest.MOST_BYTES) == (100_000, 4_000_000_000)
    os.truncate(network(folder), 4_000_000_001)
    with pytest.raises(InputError, match=r"at most 100,000 files of 4,000,000,000 bytes"):
        read_suite(folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    monkeypatch.setattr(manifest, "MOST_FILES", 4)
    with pytest.raises(InputError, match="at most 4 files"):
        read_suite(folder, tmp_path / "copy")


def test_a_suite_that_asks_for_single_runs_is_refused() -> None:
    """15 in three rounds are five each; in four they would be less, of which there is no mean."""
    assert Wish(runs=15, rounds=3, budget_s=2.0).method().runs_each == 5
    with pytest.raises(ValueError, match="15 runs in 4 rounds are less than 5 in each"):
        Wish(runs=15, rounds=4, budget_s=2.0)
