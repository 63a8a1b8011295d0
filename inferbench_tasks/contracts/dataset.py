"""Where requests get their samples: a data set's held-out part, a user's files, or seeded noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from inferbench_tasks.contracts.arrays import Arrays

if TYPE_CHECKING:  # whoever checks a submission reads this module; few of them compute
    import numpy as np
    from numpy.typing import NDArray

#: All samples of a run together; they are kept in memory by every process that sends them.
MAX_BYTES = 2 << 30


def fewest_parts(count: int, sample_bytes: int, most_bytes: int = MAX_BYTES) -> int | None:
    """Of so many samples of a size the fewest parts that fit, all of a size but for one; None: one alone does not."""
    fits = most_bytes // max(1, sample_bytes)
    return -(-count // fits) if fits else None


class Dataset(ABC):
    """Labelled or unlabelled samples in the form that one model takes.

    ``name`` goes into results. Held-out: none of these samples was seen in training.
    """

    name: ClassVar[str]
    #: Of its manifest; raised when other samples come out.
    version: ClassVar[str] = "1.0.0"
    licence: ClassVar[str | None] = None
    #: Where it comes from, in words; SHA-256 of its files, where they are known.
    origin: ClassVar[str] = ""
    files: ClassVar[Mapping[str, str]] = {}
    #: Samples of each part, where their number is the same everywhere.
    splits: ClassVar[Mapping[str, int]] = {}
    #: How many labels there are; None without labels.
    classes: ClassVar[int | None] = None
    #: The name of each label by its number; () where nobody knows them.
    class_names: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __len__(self) -> int:
        """How many held-out samples there are."""

    @abstractmethod
    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        """One array per model input, first axis = samples in the order of ``indices``."""

    def raw(self, indices: NDArray[np.int64]) -> list[bytes] | None:
        """The same samples before any processing (an image's file, a text in UTF-8); None where there are none."""
        return None

    @abstractmethod
    def labels(self) -> NDArray[np.int64] | None:
        """The class id of every sample, or None."""

    def targets(self) -> Mapping[str, NDArray[Any]]:
        """What is right of every sample where that is no class, by kind (``contracts.targets``)."""
        return {}

    def calibration(self, count: int) -> Arrays | None:
        """Up to ``count`` samples that are NOT held out, to measure scales on; None where there are none."""
        return None

    def batches(self, size: int = 64) -> Iterator[tuple[Arrays, NDArray[np.int64] | None]]:
        """All samples in order, ``size`` at a time, with their labels."""
        import numpy as np

        labels = self.labels()
        for start in range(0, len(self), size):
            indices = np.arange(start, min(start + size, len(self)))
            yield self.inputs(indices), None if labels is None else labels[indices]
