"""What a certificate's checks say."""

from __future__ import annotations

import pytest

from inferbench_tasks.loadgen.evidence import beside


@pytest.mark.parametrize(
    ("value", "limit", "texts"),
    [
        (1.002, 1.0, ("1.002", "1.000")),
        (1.26, 1.0, ("1.26", "1.00")),
        (1.0, 1.0, ("1.00", "1.00")),
        (3.0049, 3.0051, ("3.00", "3.01")),
    ],
)
def test_what_is_exceeded_reads_so(value: float, limit: float, texts: tuple[str, str]) -> None:
    """A value and its limit that differ are written with enough digits to differ, and no more than that."""
    assert beside(value, limit, 2) == texts
