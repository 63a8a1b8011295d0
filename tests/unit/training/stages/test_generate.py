"""A run's data is its own: what one run drops at its end is not where another's is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.stages.base import Context
from inferbench_tasks.stores.manifest import Manifest
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.stages import generate, release

pytest.importorskip("torch")


@pytest.mark.parametrize("data", [{"kind": "digits", "samples": 64}, {"kind": "jpeg", "samples": 20}])
def test_equal_data_of_two_runs_is_two_artifacts(tmp_path: Path, data: dict[str, object]) -> None:
    """With the same samples and seed the files have the same content, and neither artifact is the other's; the second
    run's end leaves the first one's data whole.
    """
    job = TrainingJob.model_validate(
        {"kind": "training", "name": "x", "data": {**data, "image_size": 32}, "train": {"batch_size": 4}}
    )
    context = Context(data_dir=tmp_path)
    made, digests = [], []
    for run_id in ("a", "b"):
        output = generate.run(generate.Input(job=job, run_id=run_id, job_id=run_id), context)
        paths = [Path(output.images_path), Path(output.labels_path)]
        roots = [(path, sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()))
                 if path.is_dir() else (path.parent, [path.name]) for path in paths]  # fmt: skip
        digests.append([Manifest.of(root, names).digest for root, names in roots])
        made.append(paths)
    assert not set(digests[0]) & set(digests[1])
    assert made[0][1].read_bytes() == made[1][1].read_bytes()
    release.run(release.Input(job=job, run_id="b", job_id="b"), context)
    assert all(path.exists() for path in made[0]) and not any(path.exists() for path in made[1])
