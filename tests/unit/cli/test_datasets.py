"""``inferbench datasets check`` refuses what ``evaluate`` would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.cli.datasets import check
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OutputFormat
from tests.unit.datasets.test_users_data import MODEL


def test_more_than_fits_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three samples of 256 bytes do not fit into 700; two do."""
    monkeypatch.setattr("inferbench_tasks.modelrepo.build.build_model", lambda *_: MODEL)
    monkeypatch.setattr("inferbench_tasks.requests.prepare.MAX_BYTES", 700)
    for count in (2, 3):
        np.savez(tmp_path / f"{count}.npz", input=np.zeros((count, 64), np.float32), labels=np.arange(count))
    check("arrays", tmp_path / "2.npz", "digits", OutputFormat.json)
    with pytest.raises(InputError, match="3 samples of 256 bytes are more than the"):
        check("arrays", tmp_path / "3.npz", "digits", OutputFormat.json)
