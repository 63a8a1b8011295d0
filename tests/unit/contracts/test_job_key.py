"""The name of a job across processes."""

from __future__ import annotations

import pytest

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.errors import InputError


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (
            JobKey("digits", "manual__2026-01-31T10:00:00+00:00_x", 3),
            "digits|manual__2026-01-31T10:00:00+00:00_x|003",
        ),
        (JobKey("nightly.digits", "a|b", 1000), "nightly.digits|a|b|1000"),
    ],
)
def test_a_key_is_read_as_it_was_written(key: JobKey, text: str) -> None:
    """Its text is stored in leases and logs, so its form stays; a DAG run's id may hold the separator."""
    assert str(key) == text
    assert JobKey.parse(text) == key


@pytest.mark.parametrize(
    "text", ["", "digits", "digits|000", "digits|run|", "digits|run|-1", "|run|000", "digits||0"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    """The message says what a key looks like."""
    with pytest.raises(InputError, match=r"<dag id>\|<dag run id>\|<index>"):
        JobKey.parse(text)
