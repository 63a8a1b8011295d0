"""How long, and how much, is kept."""

from __future__ import annotations

from math import inf

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.upkeep.keep import USUAL, Keep


def test_days_and_sizes_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either alone bounds by itself, ``forever`` by nothing; unset is the usual."""
    for text, keep in (
        ("30d, 50GB", Keep(30 * 86_400, 50e9)),
        ("1.5TB,7 d", Keep(7 * 86_400, 1.5e12)),
        ("0MB", Keep(inf, 0)),
        ("2d", Keep(2 * 86_400, inf)),
        ("forever", Keep()),
        ("", Keep.of(settings.KEEP_CACHE)),
    ):
        monkeypatch.setenv(settings.KEEP_RUNS, text)
        if text:
            assert Keep.of(settings.KEEP_RUNS) == keep
    for setting in USUAL:
        monkeypatch.delenv(setting, raising=False)
        assert Keep.of(setting).age_s >= 30 * 86_400 and Keep.of(setting).total_bytes >= 1e9


@pytest.mark.parametrize(
    "bad", ["30", "d", "30d 50GB", "30d, 40d", "-1d", "1e9GB", "infd", "9" * 50 + "d", "never"]
)
def test_what_is_no_bound_is_refused(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    """An InputError with what is allowed: a wrong bound must not remove what was to stay."""
    monkeypatch.setenv(settings.KEEP_RUNS, bad)
    with pytest.raises(InputError, match=rf"{settings.KEEP_RUNS}.*allowed are days, a size, or both"):
        Keep.of(settings.KEEP_RUNS)
