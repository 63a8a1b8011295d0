"""Raw samples, for processors to turn into tensors: the bytes of files, the lines of a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.ragged import objects
from inferbench_tasks.submission.schema import RequestsSpec

#: All raw samples together: they are kept in memory by every process that sends them.
MAX_BYTES = 1 << 30
SEED_OF_SELECTION = 0x5EED


def raw_samples(
    spec: RequestsSpec, dataset: Dataset | None, base_dir: Path, seed: int
) -> tuple[Array, NDArray[np.int64] | None]:
    """At most ``spec.samples`` distinct samples as bytes, ``n``, and their labels where these are known.

    Raises InputError where the data set has no raw form, or the files can't be read.
    """
    rng = np.random.default_rng([SEED_OF_SELECTION, seed])
    if spec.kind == "files":
        assert spec.path is not None
        files = _files(base_dir, spec.path)
        rows, labels = objects([files[i] for i in rng.permutation(len(files))[: spec.samples]]), None
    else:
        if dataset is None:
            raise InputError(
                "this model has no data set; give requests: {kind: files, path: ...}", field="requests.kind"
            )
        if spec.samples > len(dataset):
            raise InputError(
                f"{spec.samples} asked for, {dataset.name} has {len(dataset)}", field="requests.samples"
            )
        indices = rng.permutation(len(dataset))[: spec.samples]
        raw = dataset.raw(indices)
        if raw is None:
            raise InputError(
                f"{dataset.name} has tensors and no raw samples; leave processors.before out, "
                "or give requests: {kind: files, path: ...}",
                field="requests.kind",
            )
        known = dataset.labels()
        rows, labels = objects(raw), None if known is None else known[indices]
    first: dict[bytes, int] = {}
    for index, row in enumerate(rows.tolist()):
        first.setdefault(row, index)
    keep = list(first.values())
    return rows[keep], None if labels is None else labels[keep]


def _files(base_dir: Path, path: str) -> list[bytes]:
    source = inside(base_dir, path, "requests.path")
    try:
        if source.suffix.lower() == ".txt":
            lines = source.read_text(encoding="utf-8").splitlines()
            samples = [line.encode() for line in lines if line.strip()]
        else:
            plain = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
            plain = [p for p in plain if not p.name.startswith(".")]
            size = sum(p.stat().st_size for p in plain)
            if size > MAX_BYTES:
                raise InputError(
                    f"{path} has {size} bytes, at most {MAX_BYTES} are allowed", field="requests.path"
                )
            samples = [p.read_bytes() for p in plain]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}", field="requests.path") from error
    if not samples:
        raise InputError(f"{path} has no sample in it", field="requests.path")
    return samples
