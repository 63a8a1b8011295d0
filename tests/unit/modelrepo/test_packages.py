"""Packages of weights, by the installer of this environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.contracts.models import Package, Watch
from inferbench_tasks.errors import MissingExtraError
from inferbench_tasks.modelrepo import packages


def test_where_the_user_stands_is_no_project_of_the_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pyproject.toml there, which uv would read, is no reason of a fetch that fails for want of an index."""
    (tmp_path / "pyproject.toml").write_text('[tool.uv]\nrequired-version = ">=99"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    package = Package(name="no-such-weights", version="1.0.0", sha256="0" * 64, megabytes=1)
    with pytest.raises(MissingExtraError, match="no-such-weights==1.0.0 can't be fetched") as refused:
        packages.fetch(package, tmp_path / "made", Watch())
    assert ">=99" not in str(refused.value)
