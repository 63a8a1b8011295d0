"""The data set as the loader takes it: items one by one, and how long each part of making a batch took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.training.folder import DECODERS, too_large
from inferbench_tasks.training.job import ENCODED
from inferbench_tasks.training.jpeg import FILES_SUFFIX
from inferbench_tasks.training.making import Use, since, used_here
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.sending import Batch, Times
from inferbench_tasks.training.transforms import Transform


class TimedBatch(list[tuple[Any, ...]]):
    """Items without times of their own, and the times of all of them together: the first three of ``MADE``, ns.

    ``begun``: what the loader process's thread had used before the first of them.
    """

    def __init__(
        self, items: Iterable[tuple[Any, ...]], times_ns: Sequence[int], begun: Use | None = None
    ) -> None:
        super().__init__(items)
        self.times_ns, self.begun = times_ns, begun


def mapped(path: str) -> Any:
    """An array of a file, without reading it; a plain one, for an element of a memmap costs as much as a small item."""
    return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)


class Items:
    """An image and its label by index. ``timed``: with the times of its parts, ns, as a third value.

    A loader's processes start with each epoch and see ``timed`` as it is then. A loader asks for a batch at once.
    """

    #: What lies in mapped files: a loader process that is not forked maps them itself, instead of being sent them.
    MAPPED: tuple[str, ...] = ("_labels",)

    def __init__(self, labels_path: str) -> None:
        self._labels_path = labels_path
        self._labels: NDArray[np.int64] = mapped(labels_path)
        self.timed = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self.MAPPED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._labels = mapped(self._labels_path)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def labels(self) -> NDArray[np.int64]:
        """All of them."""
        return self._labels

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        label = int(self._labels[index])  # an IndexError ends an iteration over the items
        if not self.timed:
            return self.transform(self.decode(self.read(index)), index), label
        start_ns = time.monotonic_ns()
        content = self.read(index)
        read_ns = time.monotonic_ns()
        image = self.decode(content)
        decoded_ns = time.monotonic_ns()
        tensor = self.transform(image, index)
        times = (read_ns - start_ns, decoded_ns - read_ns, time.monotonic_ns() - decoded_ns)
        return tensor, label, times

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, ...]]:
        if not self.timed:
            return [self[index] for index in indices]
        begun = used_here()
        items = [self[index] for index in indices]
        times_ns = [sum(times) for times in zip(*(item[2] for item in items), strict=True)]
        return TimedBatch((item[:2] for item in items), times_ns, begun)

    def read(self, index: int) -> Any:
        """What the storage holds of an item."""
        raise NotImplementedError

    def decode(self, content: Any) -> Any:
        """It as an image; the same where nothing is encoded."""
        return content

    def transform(self, image: Any, index: int) -> Any:
        """The tensor that goes into the batch, in the shape that the network takes."""
        raise NotImplementedError


class SmallItems(Items):
    """Of which none is encoded. Timed, each part is done of the whole batch: of one it takes little longer than reading
    the clocks does.
    """

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, ...]]:
        if not self.timed:
            return [(self.transform(self.read(index), index), int(self._labels[index])) for index in indices]
        begun = used_here()
        labels = [int(self._labels[index]) for index in indices]
        start_ns = time.monotonic_ns()
        contents = [self.read(index) for index in indices]
        read_ns = time.monotonic_ns()
        tensors = [self.transform(content, index) for content, index in zip(contents, indices, strict=True)]
        times_ns = (read_ns - start_ns, 0, time.monotonic_ns() - read_ns)
        return TimedBatch(zip(tensors, labels, strict=True), times_ns, begun)


class ArrayItems(SmallItems):
    """Copied out of a mapped npy file ``n x shape``."""

    MAPPED = (*Items.MAPPED, "_images")

    def __init__(self, images_path: str, labels_path: str) -> None:
        super().__init__(labels_path)
        self._images_path = images_path
        self._images = mapped(images_path)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._images = mapped(self._images_path)

    def read(self, index: int) -> Any:
        return np.array(self._images[index])

    def transform(self, image: Any, index: int) -> Any:
        return _from_numpy()(image)


class FileItems(Items):
    """Files with an image each, in the order of the labels, decoded and transformed."""

    def __init__(self, paths: Sequence[str], labels_path: str, transform: Transform) -> None:
        super().__init__(labels_path)
        self._paths = list(paths)
        self._transform = transform

    @property
    def paths(self) -> list[str]:
        """The files, in the order of the items."""
        return self._paths

    def read(self, index: int) -> bytes:
        with open(self._paths[index], "rb") as file:
            return file.read()

    def decode(self, content: bytes) -> Any:
        import io

        from PIL import Image

        with Image.open(io.BytesIO(content), formats=DECODERS) as image:
            if reason := too_large(image):  # the file was changed since it was looked at
                raise ValueError(f"a file {reason}")
            return image.convert("RGB")

    def transform(self, image: Any, index: int) -> Any:
        return self._transform(image, index)


class MemoryItems(SmallItems):
    """The same items, made before the first epoch and kept: of each only the batch is left to be made."""

    def __init__(self, items: Items, labels_path: str) -> None:
        super().__init__(labels_path)
        self._tensors = [items[index][0] for index in range(len(items))]

    def read(self, index: int) -> Any:
        return self._tensors[index]

    def transform(self, image: Any, index: int) -> Any:
        return image


@cache
def _from_numpy() -> Callable[[Any], Any]:
    """Looked up once, not for each item of each batch."""
    import torch

    from_numpy: Callable[[Any], Any] = torch.from_numpy
    return from_numpy


def jpeg_paths(folder: str) -> list[str]:
    """The files of the set of our own making, in the order of its labels."""
    return sorted(str(path) for path in Path(folder).rglob(f"*{FILES_SUFFIX}"))


def items_of(order: Order) -> tuple[Items, Transform | None]:
    """The data of an order where its job wants it to lie; what changes its images, if they are decoded."""
    data, transform = order.job.data, None
    items: Items
    if data.kind in ENCODED:
        transform = Transform(data.image_size, augment=data.augment, seed=order.job.train.seed)
        if order.files_folder is None:
            paths = jpeg_paths(order.images_path)
        else:
            paths = LocatedFiles(
                folder=order.files_folder, listing=order.images_path, listing_sha256=order.files_sha256
            ).paths
        items = FileItems(paths, order.labels_path, transform)
    else:
        items = ArrayItems(order.images_path, order.labels_path)
    return (MemoryItems(items, order.labels_path) if data.where == "memory" else items), transform


def collate(items: list[tuple[Any, ...]]) -> tuple[Any, Any, Times | None]:
    """A batch: images, labels, and of timed items the sums of their times, the own one, what its loader process used,
    and the moment of its end.
    """
    from torch.utils.data import default_collate

    timed = items if isinstance(items, TimedBatch) else None
    if timed is None and len(items[0]) == 2:
        images, labels = default_collate(items)
        return images, labels, None
    start_ns = time.monotonic_ns()
    images, labels = default_collate([item[:2] for item in items])
    collate_ns = time.monotonic_ns() - start_ns
    sums = timed.times_ns if timed else [sum(of) for of in zip(*(item[2] for item in items), strict=True)]
    used = since(timed.begun if timed else None)
    return Batch((images, labels, Times([*sums, collate_ns, *used, time.monotonic_ns()])))
