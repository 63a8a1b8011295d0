"""``inferbench datasets check`` refuses what ``evaluate`` would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from inferbench_tasks.cli.datasets import app, check
from inferbench_tasks.datasets.mnist import Mnist
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OutputFormat
from tests.unit.datasets.test_users_data import MODEL


def test_more_than_fits_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three samples of 256 bytes do not fit into 700; two do."""
    monkeypatch.setattr("inferbench_tasks.modelrepo.build.build_model", lambda *_: MODEL)
    monkeypatch.setattr("inferbench_tasks.requests.prepare.MAX_BYTES", 700)
    for count in (2, 3):
        np.savez(tmp_path / f"{count}.npz", input=np.zeros((count, 64), np.float32), labels=np.arange(count))
    check("arrays", tmp_path / "2.npz", None, "digits", OutputFormat.json)
    with pytest.raises(InputError, match="3 samples of 256 bytes are more than the"):
        check("arrays", tmp_path / "3.npz", None, "digits", OutputFormat.json)


def test_what_is_fetched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a package its folder below the data directory; of what comes with an installed one nothing is."""
    monkeypatch.setenv("INFERBENCH_DATA_DIR", str(tmp_path))
    images = (np.zeros((5_000, 28, 28), np.float32), np.zeros(5_000, np.int64))
    monkeypatch.setattr(Mnist, "fetch", lambda self, data_dir: data_dir / "kept")
    monkeypatch.setattr("inferbench_tasks.datasets.mnist._fetched", lambda: images)
    for name, samples, place in (("mnist-5k", 5_000, str(tmp_path / "kept")), ("digits", 450, None)):
        ended = CliRunner().invoke(app, ["fetch", name, "-o", "json"], catch_exceptions=False)
        (row,) = json.loads(ended.stdout)
        assert (row["name"], row["samples"], row["in"]) == (name, samples, place)
        assert row["fetched"] == (place is not None)


def test_data_of_the_users_is_not_fetched() -> None:
    """What to do instead is said."""
    ended = CliRunner().invoke(app, ["fetch", "coco"])
    assert isinstance(ended.exception, InputError) and "`datasets check` reads it" in str(ended.exception)
