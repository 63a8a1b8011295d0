"""Children that stay for the next model of the same framework, and those that must not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.running import child
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import generate
from inferbench_tasks.stages.base import Context


def generated(folder: Path, seed: int, **model: Any) -> generate.Output:
    job = {
        "name": "t",
        "model": model or {"kind": "zoo", "name": "digits"},
        "requests": {"samples": 8},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}, "seed": seed},
    }
    inp = generate.Input.model_validate({"run_id": "r", "job_id": "j", "job": job})
    output: generate.Output = perform(generate, inp, Context(data_dir=folder, base_dir=folder))
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model is trained once; each order is new by its seed."""
    return tmp_path_factory.mktemp("data")


def pids() -> list[int]:
    found = psutil.Process().children()
    return [p.pid for p in found if "inferbench_tasks.running.child_main" in " ".join(p.cmdline())]


def test_the_next_order_goes_to_the_same_process_and_none_is_left(folder: Path, tmp_path: Path) -> None:
    """Each order has its own log; the answers are those of a process of its own; it ends with the block."""
    with child.keeping():
        generated(folder, 1)
        (first,) = pids()
        kept = generated(folder, 2)
        assert pids() == [first]
    assert pids() == [] and not psutil.pid_exists(first)
    alone = generated(tmp_path, 2)
    assert pids() == []
    assert (kept.model.digest, kept.requests.digest) == (alone.model.digest, alone.requests.digest)


def test_a_failure_a_death_and_too_much_memory_end_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not as new is not used again, the next order gets a fresh process; an error keeps its field."""
    with child.keeping():
        generated(folder, 11)
        with pytest.raises(InputError) as refused:
            generated(folder, 11, kind="zoo", name="digits", framework="torch")
        assert refused.value.field == "model.framework"
        assert str(refused.value) == f"model.framework: {refused.value.message}"
        generated(folder, 12)
        (kept,) = pids()
        psutil.Process(kept).kill()
        generated(folder, 13)
        assert kept not in pids()
        monkeypatch.setattr(child, "KEPT_BYTES", 1)
        generated(folder, 14)
        assert pids() == []


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_a_log_that_is_no_file_is_not_written(what: str, tmp_path: Path) -> None:
    """A child before this one could have put it there: nothing is started, and the error names file and reason."""
    (tmp_path / "secret").write_text("not yours")
    log_path = tmp_path / "runs" / "r" / "generate.log"
    log_path.parent.mkdir(parents=True)
    if what == "link":
        log_path.symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(log_path)
    with pytest.raises(OSError, match="stands there") as refused:
        generated(tmp_path, 3)
    assert refused.value.filename == str(log_path) and pids() == []
    assert (tmp_path / "secret").read_text() == "not yours"
