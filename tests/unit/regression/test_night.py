"""What a night consists of before anything runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferbench_tasks.errors import InputError, LeaseLostError, PerfDBError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression import night as sessions
from inferbench_tasks.regression import session as nightly
from inferbench_tasks.regression import store
from inferbench_tasks.regression.night import DEFAULT_PAIRS, MOST_PAIRS, pairs_for
from inferbench_tasks.regression.sides import Side
from tests.unit.regression.builders import P50, nights
from tests.unit.regression.leases import LEASE, Leased

TODAY = Side(id="b" * 16, tree="/nowhere", python="/usr/bin/python3", git_sha="c" * 40)


def test_pairs_follow_from_the_noise_and_not_from_a_change_that_was_accepted() -> None:
    """As many after 20% were confirmed and became the baseline as before; the most where nothing else is enough."""
    quiet = nights([0] * 10, noise=0.004)
    slower = [
        replace(s, id=f"z{s.id}", at=datetime(2026, 2, 1, tzinfo=UTC)) for s in nights([0.2] * 2, noise=0.004)
    ]
    assert pairs_for({P50: []}, None) == DEFAULT_PAIRS
    before = pairs_for({P50: quiet}, 0.1)
    assert before < MOST_PAIRS and pairs_for({P50: quiet + slower}, 0.1) <= before + 1
    assert pairs_for({P50: nights([0] * 10, noise=0.05)}, 0.005) == MOST_PAIRS


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> list[Side]:
    """What the baseline was moved to, the newest last; the store is this list."""
    moves: list[Side] = []
    monkeypatch.setattr(store, "baseline", lambda db, name: moves[-1] if moves else None)
    monkeypatch.setattr(store, "move_baseline", lambda db, name, side, why, lease=None: moves.append(side))
    return moves


def baseline(tmp_path: Path, **options: Any) -> Side:
    night = nightly.Night(tmp_path / "n.yaml", **options)
    return nightly.accepted_baseline(night, "n", TODAY, None, tmp_path)  # type: ignore[arg-type]


def test_an_accepted_baseline_that_is_not_here_is_not_replaced_silently(
    accepted: list[Side], tmp_path: Path
) -> None:
    """Another host's or a deleted folder: said, with what can be done; only who asks for it starts anew."""
    assert baseline(tmp_path) == TODAY, "the first night"
    gone = TODAY.model_copy(update={"id": "d" * 16, "tree": str(tmp_path / "gone")})
    accepted.append(gone)
    with pytest.raises(InputError, match=r"gone is not on this machine .*--new-baseline"):
        baseline(tmp_path)
    assert accepted[-1] == gone
    assert baseline(tmp_path, new_baseline=True) == TODAY and accepted[-1] == TODAY


def run_session(db: Leased, tmp_path: Path) -> store.SessionDocument:
    submission: Any = SimpleNamespace(name="n", kind="serving")
    return sessions.run_session(
        tmp_path / "n.yaml", submission, baseline=TODAY, candidate=TODAY, pairs=1, db=cast(PerfDB, db),
        data_dir=tmp_path, lease=LEASE,
    )  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were made: all are valid."""
    runs: list[str] = []

    def one_run(*given: Any) -> list[dict[str, str]]:
        runs.append(f"run-{len(runs)}")
        return [{"run_id": runs[-1], "verdict": "valid"}]

    monkeypatch.setattr(sessions, "one_run", one_run)
    return runs


def test_no_run_is_begun_beside_the_device_s_new_holder(ran: list[str], tmp_path: Path) -> None:
    """The lease is asked for before each run, and each write is made under it."""
    whole = Leased()
    assert len(run_session(whole, tmp_path).runs) == len(ran) == 2
    look, write = "looking at the device's lease", "writing a regression session"
    assert whole.writes == [look, write, look, write, write]
    for held, runs in ((0, 0), (1, 1), (2, 1), (3, 2)):
        ran.clear()
        with pytest.raises(LeaseLostError):
            run_session(Leased(held), tmp_path)
        assert len(ran) == runs


def test_a_baseline_that_another_night_moves_at_once_is_moved_again(tmp_path: Path) -> None:
    """Of two first nights the second's insertion meets the first's; it is repeated, and no error is kept quiet."""
    db = Leased(met=1)
    store.move_baseline(cast(PerfDB, db), "n", TODAY, "the first night", LEASE)
    assert [values["why"] for values in db.replaced] == ["the first night"]
    with pytest.raises(PerfDBError, match="moving a baseline: 'n' was inserted and removed"):
        store.move_baseline(cast(PerfDB, Leased(met=2)), "n", TODAY, "the first night", LEASE)
