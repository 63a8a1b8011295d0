"""Arrays by name in an ``.npz`` file, whatever the names are.

``numpy.savez`` takes them as keyword arguments, so that an input called ``file`` or ``allow_pickle`` is one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from inferbench_tasks.contracts.arrays import Array


def write_archive(path: Path, arrays: Mapping[str, Array]) -> None:
    """The same file as ``numpy.savez`` writes; ValueError for an array of objects, which would be pickled."""
    with ZipFile(path, "w", ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
