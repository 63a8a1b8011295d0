"""The samples of ``evaluate.vary``, written where they are made and read where they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.datasets.base import open_dataset
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.requests.digits import Digits as OwnDigits
from inferbench_tasks.stages import varied_samples
from inferbench_tasks.submission.vary import VarySpec
from tests.unit.datasets.test_varied import model

IDS = np.array([2, 5, 7], dtype=np.int64)
MODEL = model(3, 8, 8)
SOURCE = Digits("digits")
SCORES = {"scores": np.eye(10, dtype=np.float32)[IDS]}


def pictures() -> Dataset:
    """The digits as files, for a model of their size."""
    return fitted(open_dataset("digits-png", None, Path()), SOURCE, MODEL)


def write(folder: Path, dataset: Dataset, answers: Any = None, **vary: Any) -> None:
    """As ``generate`` does, without labels."""
    spec = VarySpec.model_validate(vary)
    arrays = dataset.inputs(IDS)
    answers = SCORES if answers is None else answers
    classifier = MODEL if len(answers["scores"].shape) == 2 else MODEL.model_copy(update={"task": None})
    varied_samples.write(folder, spec, dataset, IDS, arrays, answers, None, SOURCE, classifier, Watch())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Each variant with its own inputs, and how many samples have another one: bytes of grey pictures in another order
    of colours are the same.
    """
    write(tmp_path, pictures(), colour_order=["bgr"], normalise=["none"])
    varied = varied_samples.read(tmp_path)
    assert varied is not None and varied.changes == [("colour_order", "bgr"), ("normalise", "none")]
    assert varied.inputs_changed == [0, 3]
    assert varied.took_ms.shape == (2, 3) and varied.plain_ms.shape == (3,) and varied.processor
    plain = pictures().inputs(IDS)["input"]
    np.testing.assert_array_equal(varied.inputs(0)["input"], plain)
    np.testing.assert_allclose(varied.inputs(1)["input"], plain * 255, rtol=1e-6)


def test_nothing_is_read_where_nothing_was_varied(tmp_path: Path) -> None:
    """As in every cache of before."""
    assert varied_samples.read(tmp_path) is None


def test_samples_that_are_no_files_have_no_step_to_change(tmp_path: Path) -> None:
    """The first step is named, and what to do."""
    own = OwnDigits("input", (64,))
    with pytest.raises(InputError, match="samples of digits are no image files: there is no crop to change"):
        write(tmp_path, own, crop=["none"])


def test_answers_that_are_no_classes_are_refused(tmp_path: Path) -> None:
    """A picture for a picture names none."""
    with pytest.raises(InputError, match="m answers values"):
        write(tmp_path, pictures(), {"scores": np.zeros((3, 4, 4), dtype=np.float32)}, crop=["none"])


def test_more_than_fits_is_refused_with_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three samples of 768 bytes, three times each, are 6,912 bytes; of 5,000 two samples fit."""
    monkeypatch.setattr(varied_samples, "MAX_BYTES", 5_000)
    with pytest.raises(InputError, match="3 samples and 2 variants of each .* allowed .*: 2 samples"):
        write(tmp_path, pictures(), crop=["none", 0.5])
