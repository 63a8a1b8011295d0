"""The measured roof for runs that are looked at later: only what is kept of this machine, and only for its own runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.ceilings import (
    Ceilings,
    kept_ceilings,
    kept_of,
    last_level_cache_bytes,
    processor_of,
)
from inferbench_tasks.monitors import environment
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

LARGE = max(32_000_000, 4 * (last_level_cache_bytes() or 0))


def keep(data_dir: Path, processor: str, array_bytes: int = LARGE) -> Path:
    """As the stage ``analyze`` leaves it: 100 GFLOP/s, 10 GB/s."""
    folder = data_dir / "cache" / "roofline"
    folder.mkdir(parents=True, exist_ok=True)
    rates = {"sgemm_gflops": 100.0, "triad_gb_s": 10.0, "array_bytes": array_bytes, "cache_bytes": 8}
    (folder / "ceilings.json").write_text(json.dumps({"processor": processor, **rates}))
    return folder


def on(cpu: str | None, kind: str = "cpu") -> ResultDocument:
    told: dict[str, Any] = {} if cpu is None else {"hardware": {"cpu": cpu}}
    return result(environment=told, device={"kind": kind, "name": "X"})


def test_what_is_kept_is_given_and_nothing_measured(tmp_path: Path) -> None:
    """None without a file, of another processor, of arrays that a cache may hold, or of a file that is none."""
    assert kept_ceilings(tmp_path, "cpu A") is None and not list(tmp_path.iterdir())
    folder = keep(tmp_path, "cpu A")
    assert kept_ceilings(folder, "cpu A") == Ceilings(100.0, 10.0, LARGE, 8)
    assert kept_ceilings(folder, "cpu B") is None
    keep(tmp_path, "cpu A", LARGE - 1)
    assert kept_ceilings(folder, "cpu A") is None
    for text in ("[]", "{}", "x"):
        (folder / "ceilings.json").write_text(text)
        assert kept_ceilings(folder, "cpu A") is None


def test_a_run_stands_under_the_roof_of_its_own_machine_alone(tmp_path: Path) -> None:
    """All runs are of CPUs of this processor, or there is no roof; one that does not tell its processor has none."""
    here = environment.processor()
    assert here == environment.hardware()["cpu"]
    keep(tmp_path, here)
    assert kept_of([on(here), on(here)], tmp_path) == Ceilings(100.0, 10.0, LARGE, 8)
    for others in ([], [on("another")], [on(None)], [on(here, "gpu")], [on(here), on("another")]):
        assert kept_of(others, tmp_path) is None, others


def test_only_runs_with_figures_say_where_they_ran(tmp_path: Path) -> None:
    """One that failed tells of no hardware, and takes the roof of no other; of such alone there is nothing to draw."""
    here = environment.processor()
    keep(tmp_path, here)
    failed = result(environment={}, summary={}, verdict="failed: serve, it did not start")
    assert processor_of([on(here), failed]) == here
    assert kept_of([on(here), failed], tmp_path) is not None
    assert processor_of([failed]) is None and processor_of([failed, on("another")]) is None


def test_a_roof_of_another_machine_is_not_taken(tmp_path: Path) -> None:
    """The data directory came with another machine's: this one's runs stay without it."""
    keep(tmp_path, "another")
    assert kept_of([on(environment.processor())], tmp_path) is None
