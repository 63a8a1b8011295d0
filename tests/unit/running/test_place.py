"""What a stage's child may use, and what has to be there before it is confined."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import extras
from inferbench_tasks.datasets.mnist import Mnist
from inferbench_tasks.errors import StorageError
from inferbench_tasks.running import place
from inferbench_tasks.settings import DATA_DIR
from inferbench_tasks.stages.base import Context, StageInput
from inferbench_tasks.submission.schema import JobSpec
from tests.serving_cases import dense_case


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


def test_names_of_classes_beside_a_table_are_read_and_no_more_of_its_folder(tmp_path: Path) -> None:
    """The sandbox reads the table and its ``classes.txt``; no link that leads out of its folder."""
    base = tmp_path / "submission"
    (base / "data").mkdir(parents=True)
    for name in ("t.csv", "classes.txt", "others.csv"):
        (base / "data" / name).write_text("a\n")
    (tmp_path / "secret").write_text("x")
    document = order().job.model_dump(mode="json", by_alias=True, exclude_none=True)
    document |= {"evaluate": {"dataset": "table", "path": "data/t.csv"}}
    asked = StageInput(run_id="r", job_id="j", job=JobSpec.model_validate(document))
    context = Context(data_dir=tmp_path, base_dir=base)
    reads = place.Place.of(asked, context, kept=False).reach.reads
    assert {str(base / "data" / "t.csv"), str(base / "data" / "classes.txt")} <= set(reads)
    assert str(base / "data" / "others.csv") not in reads and str(base / "data") not in reads
    (base / "data" / "classes.txt").unlink()
    (base / "data" / "classes.txt").symlink_to(tmp_path / "secret")
    assert str(tmp_path / "secret") not in place.Place.of(asked, context, kept=False).reach.reads


def test_a_data_set_is_fetched_before_a_child_that_has_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's model is evaluated in a child that connects nowhere: MNIST could not be had there. It is fetched into
    the data directory, which the child is told, and reads of it what data sets come with."""
    fetched: list[Path] = []
    monkeypatch.setattr(Mnist, "fetch", lambda self, data_dir: fetched.append(data_dir))
    monkeypatch.delenv(DATA_DIR, raising=False)
    document = order().job.model_dump(mode="json", by_alias=True, exclude_none=True)
    path = Path(dense_case(tmp_path).model.path).relative_to(tmp_path)
    document |= {"model": {"kind": "file", "path": str(path)}, "requests": {"kind": "random"}}
    for data, times in (("mnist-5k", 1), ("digits", 1), (None, 1)):
        evaluate = {"evaluate": {"dataset": data} if data else {}}
        asked = StageInput(run_id="r", job_id="j", job=JobSpec.model_validate(document | evaluate))
        place.fetch_data(asked, Context(data_dir=tmp_path / "data", base_dir=tmp_path))
        assert fetched == [tmp_path / "data"] * times
    made = place.Place.of(asked, Context(data_dir=tmp_path / "data", base_dir=tmp_path), kept=False)
    assert made.reach.connects == () and str(tmp_path / "data" / "cache" / "datasets") in made.reach.reads
    assert made.environment[DATA_DIR] == str(tmp_path / "data")
