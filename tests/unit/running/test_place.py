"""What a stage's child may use, and what has to be there before it is confined."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import extras
from inferbench_tasks.errors import StorageError
from inferbench_tasks.running import place
from inferbench_tasks.stages.base import Context, StageInput
from inferbench_tasks.submission.schema import JobSpec


def order(model: str = "digits", kind: str = "onnx") -> StageInput:
    """A stage of a job of that zoo model."""
    document = {
        "name": "x", "model": {"kind": "zoo", "name": model}, "convert": {"format": kind},
        "serve": {"backend": "onnxruntime"},
        "load": {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "duration_s": 5},
    }  # fmt: skip
    return StageInput(run_id="r", job_id="j", job=JobSpec.model_validate(document))


def test_what_a_model_needs_beside_its_framework_is_installed_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama-random is written by a package of the part `llm`, which no framework's name says: in the sandbox, where
    the environment can't be written, installing it failed. Also where every framework is there."""
    asked: list[str] = []
    monkeypatch.setattr(extras, "installable", lambda: True)
    monkeypatch.setattr(extras, "require", asked.append)
    place.install(order("llama-random", "gguf"), Context(data_dir=tmp_path, base_dir=tmp_path))
    assert "llm" in asked


def test_a_home_without_caches_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages are fetched into folders that are only reached where they exist: of a new user there was none."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_CACHE_HOME", "UV_CACHE_DIR", "PIP_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    made = place.Place.of(order(), Context(data_dir=tmp_path, base_dir=tmp_path), kept=False)
    assert (home / ".cache").is_dir() and str(home / ".cache") in made.reach.writes


def test_a_cache_that_can_not_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is to be set."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    with pytest.raises(StorageError, match="Set XDG_CACHE_HOME"):
        place.Place.of(order(), Context(data_dir=tmp_path, base_dir=tmp_path), kept=False)
