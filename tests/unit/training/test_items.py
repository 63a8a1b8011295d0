"""Items of a data set, and what is told of a batch."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.training import cold, jpeg
from inferbench_tasks.training.items import (
    ArrayItems,
    FileItems,
    MemoryItems,
    collate,
    jpeg_paths,
)
from inferbench_tasks.training.sending import MADE, PARTS, parts_ns
from inferbench_tasks.training.transforms import DEVIATION, MEAN, Transform

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("jpeg")
    np.save(folder / "labels.npy", jpeg.write(folder / "images", 12, seed=3))
    return folder / "images", folder / "labels.npy"


def test_files_are_as_large_as_imagenets_and_the_same_for_a_seed(files: tuple[Path, Path]) -> None:
    """500 x 375, 80 to 140 KB, in a folder for each class."""
    from PIL import Image

    paths = sorted(files[0].rglob("*.jpg"))
    labels = np.load(files[1])
    assert [int(path.parent.name.removeprefix("class-")) for path in paths] == labels.tolist()
    sizes = [path.stat().st_size for path in paths]
    assert 80_000 < np.mean(sizes) < 140_000
    content = paths[0].read_bytes()
    assert Image.open(io.BytesIO(content)).size == (500, 375)
    assert content == jpeg.encoded((3, 0), int(labels[0])) != paths[1].read_bytes()


def test_a_transform_cuts_the_middle_out_and_normalises() -> None:
    """A grey image of 128 becomes (128 / 255 - mean) / deviation, 3 x 32 x 32."""
    from PIL import Image

    tensor = Transform(32)(Image.new("RGB", (500, 375), (128, 128, 128)), 0)
    assert tuple(tensor.shape) == (3, 32, 32)
    np.testing.assert_allclose(tensor[:, 5, 7].numpy(), (128 / 255 - MEAN) / DEVIATION, rtol=1e-5)
    resized = Transform(224).resize(Image.new("RGB", (500, 375)))
    assert resized.size == (341, 256) and Transform(224).place(resized.size, 0) == (58, 16, False)
    assert Transform(224).resize(Image.new("RGB", (3, 1000))).size[0] == 256


def test_augmented_places_differ_by_epoch_and_are_those_of_the_seed() -> None:
    """Whichever process does it; never outside of the image."""
    transform = Transform(224, augment=True, seed=5)
    first = [transform.place((341, 256), index) for index in range(50)]
    assert all(0 <= left <= 117 and 0 <= top <= 32 for left, top, _ in first) and len(set(first)) > 40
    assert first == [Transform(224, augment=True, seed=5).place((341, 256), index) for index in range(50)]
    transform.epoch = 1
    assert first != [transform.place((341, 256), index) for index in range(50)]


def test_items_in_memory_are_those_on_the_disk(files: tuple[Path, Path]) -> None:
    """Made once, and timed like the others."""
    items = FileItems(jpeg_paths(str(files[0])), str(files[1]), Transform(32))
    memory = MemoryItems(items, str(files[1]))
    assert len(items) == len(memory) == 12
    for index in (0, 11):
        np.testing.assert_array_equal(items[index][0].numpy(), memory[index][0].numpy())
        assert items[index][1] == memory[index][1]
    assert sum(1 for _ in iter(memory)) == 12  # an iteration ends by itself


def test_a_timed_batch_tells_its_parts(files: tuple[Path, Path]) -> None:
    """Sums over its items; what is not timed tells nothing, and costs nothing."""
    items = FileItems(jpeg_paths(str(files[0])), str(files[1]), Transform(32))
    images, labels, nothing = collate([items[0], items[1]])
    assert tuple(images.shape) == (2, 3, 32, 32) and labels.tolist() == [items[0][1], items[1][1]]
    assert nothing is None
    items.timed = True
    one, two = items[0], items[1]
    _, _, times = collate([one, two])
    assert times is not None and times[:3] == [a + b for a, b in zip(one[2], two[2], strict=True)]
    of = dict(zip(PARTS, parts_ns(times), strict=True))
    read, decode, transform, collated, queued = (of[name] for name in (*MADE, "queued"))
    assert decode is not None and read is not None and decode > 0 < read
    assert queued is not None and queued >= 0 and transform and collated


def test_small_items_are_timed_by_the_batch(tmp_path: Path) -> None:
    """The same batch as item by item, with the times of all of it; nothing is decoded."""
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(6, 1, 1, 2))
    np.save(tmp_path / "y.npy", np.arange(6))
    items = ArrayItems(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    plain_images, plain_labels, nothing = collate(items.__getitems__([4, 1]))
    items.timed = True
    images, labels, times = collate(items.__getitems__([4, 1]))
    assert nothing is None and labels.tolist() == plain_labels.tolist() == [4, 1]
    assert images.tolist() == plain_images.tolist() == [[[[8, 9]]], [[[2, 3]]]]
    assert times is not None and times[1] == 0 and times[0] > 0 < times[2] and times[3] > 0


def test_items_are_not_sent_to_other_processes(tmp_path: Path) -> None:
    """They map the files themselves: what is sent is the same for 10 and for 10,000 of them."""
    sizes = []
    for count in (10, 10_000):
        np.save(tmp_path / f"{count}.npy", np.full((count, 1, 1, 2), count, np.float32))
        np.save(tmp_path / f"y{count}.npy", np.arange(count))
        sent = pickle.dumps(ArrayItems(str(tmp_path / f"{count}.npy"), str(tmp_path / f"y{count}.npy")))
        sizes.append(len(sent))
        image, label = pickle.loads(sent)[count - 1]
        assert image.tolist() == [[[count, count]]] and label == count - 1
    assert sizes[1] - sizes[0] < 20


def test_array_items_are_copies(tmp_path: Path) -> None:
    """Nothing of a batch lies in the mapped file."""
    np.save(tmp_path / "x.npy", np.ones((3, 1, 2, 2), np.float32))
    np.save(tmp_path / "y.npy", np.arange(3))
    items = ArrayItems(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    items[0][0][:] = 5
    assert items[0][0].max() == 1


def test_files_leave_the_memory_and_come_back(files: tuple[Path, Path]) -> None:
    """All of them after a read; few after they were dropped. A file system in memory (tmpfs) drops nothing."""
    paths = [str(path) for path in files[0].rglob("*.jpg")]
    cold.warm(paths)
    assert cold.resident_ratio(paths) == 1.0
    cold.drop(paths)
    ratio = cold.resident_ratio(paths)
    assert ratio is not None
    if ratio > 0.02:
        pytest.skip("the file system of the temporary folder keeps its files in memory")
