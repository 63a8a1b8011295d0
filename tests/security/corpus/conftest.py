"""Every input of the corpus is held to the same limits; a module whose tests start whole servers has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.bounds import Limits, Writes, measured

WRITES = Writes()


@pytest.fixture
def limits() -> Limits:
    """Of each test's input: 5 s of CPU, 500 MiB, no file outside of the test's folder, no process."""
    return Limits()


@pytest.fixture(autouse=True)
def _bounded(
    limits: Limits, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    folders: list[Path] = [tmp_path_factory.getbasetemp()]
    # What a fixture of the test's own has set up is not the input's.
    for name in ("data_dir", "monkeypatch"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    with measured(WRITES, *folders) as cost:
        yield
    if reasons := cost.exceeds(limits):
        pytest.fail(f"this input costs or leaves too much: {'; '.join(reasons)}")
