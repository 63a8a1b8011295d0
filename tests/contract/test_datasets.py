"""Every data set keeps one contract: samples in its form, labels that are classes or targets, the same each time."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from inferbench_tasks.contracts.targets import TARGETS
from inferbench_tasks.datasets.about import facts, rows
from inferbench_tasks.datasets.base import DATASETS, Collection, open_dataset
from inferbench_tasks.datasets.content import samples_sha256
from inferbench_tasks.datasets.described import description_of
from inferbench_tasks.errors import MissingExtraError
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure
from tests.layouts import coco, squad

_FORMS = {
    "grey": np.ndarray, "pictures": list, "scenes": list, "texts": list, "questions": list, "tensors": dict,
    "bytes": list,
}  # fmt: skip


def png(shade: int, side: int = 12) -> bytes:
    """A picture of one grey."""
    data = io.BytesIO()
    Image.new("L", (side, side), shade).save(data, "PNG")
    return data.getvalue()


def users(name: str, folder: Path) -> str:
    """The user's data for that way of having them: four samples of two classes."""
    if name == "folder":
        for at in range(4):
            place = folder / "pictures" / ("cat" if at % 2 else "dog")
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{at}.png").write_bytes(png(40 * at))
        return "pictures"
    if name == "imagenet-val":
        (folder / "imagenet" / "val").mkdir(parents=True, exist_ok=True)
        for at in range(4):
            (folder / "imagenet" / "val" / f"ILSVRC2012_val_{at:08}.JPEG").write_bytes(png(40 * at))
        lines = [f"ILSVRC2012_val_{at:08}.JPEG {at % 2}\n" for at in range(4)]
        (folder / "imagenet" / "val.txt").write_text("".join(lines))
        return "imagenet"
    if name == "table":
        lines = [json.dumps({"label": at % 2, "text": f"text {at}"}) for at in range(4)]
        (folder / "t.jsonl").write_text("\n".join(lines))
        return "t.jsonl"
    if name == "coco":
        return coco(folder / "coco").name
    if name == "squad":
        return squad(folder / "dev.json").name
    np.savez(folder / "a.npz", input=np.arange(8, dtype=np.float32).reshape(4, 2), labels=np.arange(4) % 2)
    return "a.npz"


def opened(name: str, folder: Path) -> Collection:
    """The data set; skipped where the package that it comes with is missing."""
    path = users(name, folder) if DATASETS.load(name).takes_path else None
    try:
        return open_dataset(name, path, folder)
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", list(DATASETS))
def test_a_data_set_keeps_the_contract(name: str, tmp_path: Path) -> None:
    """As many labels, or targets, as samples, each label a class; rows in the order asked for; twice the same; it says
    its kind."""
    collection = opened(name, tmp_path)
    source = DATASETS.load(name)
    assert collection.count > 0 and isinstance(collection.rows(np.arange(2)), _FORMS[collection.form])
    assert collection.labels is not None or collection.targets
    assert {len(target) for target in collection.targets.values()} <= {collection.count}
    if collection.labels is not None:
        assert collection.labels.dtype == np.int64
        assert collection.labels.shape == (collection.count,) and collection.labels.min() >= 0
    classes = [] if collection.labels is None else [collection.labels.max()]
    classes += [boxes[..., 0].max() for kind, boxes in collection.targets.items() if kind == "boxes"]
    if collection.classes:
        assert max(classes) < len(collection.classes)
    assert set(collection.targets) <= set(TARGETS)
    assert collection.generated == source.generated == ("(generated)" in collection.shown_name)
    one, other = (opened(name, tmp_path).rows(np.array([1, 0])) for _ in range(2))
    for first, second in zip(_parts(one), _parts(other), strict=True):
        assert first == second
    assert _parts(collection.rows(np.array([0])))[0] == _parts(one)[1]
    assert source.title and source.origin and source.licence and source().version()
    labelled = 0 if collection.labels is None else collection.count
    assert sum(facts(collection)["samples_by_class"].values()) == labelled
    assert name in [row["name"] for row in rows()]


@pytest.mark.parametrize("name", [name for name in DATASETS if description_of(DATASETS.load(name))])
def test_a_data_set_is_what_its_manifest_says(name: str, tmp_path: Path) -> None:
    """The hash of its samples, their number, the names of its classes, and measures that there are: of each kind of
    target that it has, and of no other.

    Where the hash is another: other samples come out, and `described` needs a new version with the new hash.
    """
    collection, source = opened(name, tmp_path), DATASETS.load(name)
    described = description_of(source)
    assert described is not None and not source.takes_path
    assert samples_sha256(source(), collection) == described.samples_sha256
    assert collection.split is not None and described.splits[collection.split] == collection.count
    assert set(source().splits(None)) == set(described.splits)
    assert set(described.split_sha256) == set(described.splits) - {collection.split}
    assert described.labels == collection.classes
    assert set(described.metrics) <= set(MEASURES)
    measured = {
        measure.target
        for measure in map(MEASURES.load, described.metrics)
        if issubclass(measure, TargetMeasure)
    }
    assert measured == {*collection.targets, *(["texts"] if collection.written else [])}


@pytest.mark.parametrize("name", ["digits", "digits-png"])
def test_another_split_is_what_the_manifest_says(name: str, tmp_path: Path) -> None:
    """Its number and its hash; models are usually trained on it. (Of clothes 60,000 take long.)"""
    source, described = DATASETS.load(name), description_of(DATASETS.load(name))
    assert described is not None
    for split in set(described.splits) - {source.usual_split}:
        collection = open_dataset(name, None, tmp_path, split)
        assert collection.count == described.splits[split] and collection.training
        assert samples_sha256(source(), collection) == described.split_sha256[split]


def test_every_data_set_that_comes_with_inferbench_has_a_manifest() -> None:
    """All but those that read the user's files."""
    ours = [name for name in DATASETS if DATASETS.origin(name) == "built-in"]
    without = {name for name in ours if description_of(DATASETS.load(name)) is None}
    assert without == {name for name in ours if DATASETS.load(name).takes_path}


def _parts(samples: object) -> list[bytes]:
    """Each sample as bytes."""
    if isinstance(samples, dict):
        return _parts(next(iter(samples.values())))
    if isinstance(samples, np.ndarray):
        return [row.tobytes() for row in samples]
    assert isinstance(samples, list)
    return [row if isinstance(row, bytes) else str(row).encode() for row in samples]
