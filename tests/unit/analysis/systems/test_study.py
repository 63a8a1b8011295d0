"""A study of many models on several stacks: what it is made of, and what its page says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.analysis.systems.study import Entry, place, read
from inferbench_tasks.analysis.systems.study_page import (
    in_words,
    make_page,
    marked,
    picture,
    ratios,
    stacks_of,
)
from inferbench_tasks.cli.paper_models import CATALOGUE, fitting
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.submission.reader import read_submission_data
from inferbench_tasks.submission.sweep import expand

STUDY = {
    "batch_sizes": [1, 4], "threads": 1, "duration_s": 2, "warmup_s": 1,
    "stacks": {"torch": [{"format": "onnx", "backend": "onnxruntime"}, {"format": "pt2", "backend": "triton"}]},
    "models": [
        {"model": "vgg16", "framework": "torch", "paper": ["VGG16"]}, {"model": "resnet18", "framework": "torch"},
    ],
}  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY | changes))
    return path


def row(model: str, backend: str, latency_ms: float | None, **more: Any) -> dict[str, Any]:
    """Of the model x system table."""
    return {
        "model": model, "model_version": "1", "precision": "fp32", "threads": 1, "cores": 2, "device": "cpu0",
        "model_apart": None, "instances": 1, "prompts": None, "inputs": None,
        "backend": backend, "version": None, "format": "onnx", "trimmed_mean_ms": latency_ms, "p90_ms": None,
        "throughput_samples_per_s": 10.0, "batch_size": 4, "measure": None, "quality": None, "not_steady": None,
        "rank_trimmed_mean_ms": 1, "rank_throughput_samples_per_s": 2, "of_this_study": True, **more,
    }  # fmt: skip


def test_the_shipped_study_has_the_papers_37_and_each_can_be_run() -> None:
    """Each of the 37 names once; at least 37 models, all in the zoo, each submission of 12 jobs valid."""
    study = read(CATALOGUE)
    names = [name for entry in study.models for name in entry.paper]
    assert len(names) == len(set(names)) == 37 and len(study.models) >= 37
    assert sum(name.startswith("MobileNet_v1") for name in names) == 16
    assert {entry.model for entry in study.models} <= set(ZOO)
    for entry in study.models:
        submission = study.submission(entry)
        read_ = read_submission_data(submission, submission["name"], INSTALLED)
        assert len(expand(read_)) == 12


def test_the_trained_models_of_the_shipped_study_are_judged_and_no_others() -> None:
    """Random weights are right by chance. What is judged comes with samples of its own."""
    for entry in read(CATALOGUE).models:
        source = ZOO.load(entry.model)(entry.model, entry.framework)
        assert entry.evaluate == (source.accuracy_reason is None), entry.model
        assert not entry.evaluate or source.dataset() is not None


def test_a_stack_that_cannot_serve_a_model_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By validation (Triton serves no `pt2`), and by what is installed; a model without any stack is left out whole."""
    study = read(written(tmp_path))
    here, left_out = fitting(study, study.chosen(["vgg16"]))
    assert [stack.backend for stack in here["vgg16"].stacks["torch"]] == ["onnxruntime"]
    ((what, why),) = left_out
    assert what == "vgg16 on triton" and "pt2" in why
    monkeypatch.setattr(
        "inferbench_tasks.backends.onnxruntime.OnnxRuntime.unavailable", lambda *_: "not installed"
    )
    here, left_out = fitting(study, study.chosen(["vgg16"]))
    assert not here and ("vgg16 on onnxruntime", "not installed") in left_out


def test_a_study_that_is_wrong_is_refused(tmp_path: Path) -> None:
    """With the place: an unknown key, a model twice, no stacks for a framework, a model that is not there."""
    for changes, told in (
        ({"batchsizes": [1]}, "batchsizes"),
        ({"models": [*STUDY["models"], STUDY["models"][0]]}, "twice: vgg16"),  # type: ignore[misc, index]
        (
            {"models": [{"model": "mobilenet", "framework": "tensorflow"}]},
            "no stacks for models of tensorflow",
        ),
        ({"batch_sizes": [0]}, "batch_sizes.0"),
    ):
        with pytest.raises(InputError, match=told):
            read(written(tmp_path, **changes))
    with pytest.raises(InputError, match="vgg1 is none of vgg16, resnet18"):
        read(written(tmp_path)).chosen(["vgg1"])


def test_a_submission_is_written_anew_only_where_it_changed(tmp_path: Path) -> None:
    """What was measured stays done while its file stays the same."""
    study = read(written(tmp_path))
    path = place(study, study.models[0], tmp_path / "out")
    before = path.stat().st_mtime_ns
    assert place(study, study.models[0], tmp_path / "out").stat().st_mtime_ns == before
    other = read(written(tmp_path, duration_s=3))
    assert place(other, other.models[0], tmp_path / "out").read_text() != yaml.safe_dump(
        study.submission(study.models[0]), sort_keys=False
    )


def test_one_stack_by_another_by_hand() -> None:
    """Ratios 1/2, 1/4 and 1/8: their geometric mean is 1/4; Student's half width is t(0.975, 2) ln 2 / sqrt 3."""
    rows = [row(model, "a", 1.0) for model in "xyz"] + [
        row(model, "b", latency) for model, latency in (("x", 2.0), ("y", 4.0), ("z", 8.0))
    ]
    (pair,) = ratios(rows)
    half = math.log(2) / math.sqrt(3) * 4.302652729911275
    assert (pair.first, pair.second, pair.models) == ("a", "b", 3)
    assert pair.ratio == pytest.approx(0.25)
    assert pair.low == pytest.approx(0.25 * math.exp(-half)) and pair.high == pytest.approx(
        0.25 * math.exp(half)
    )
    entries = [Entry(model=name, framework="torch") for name in "xyz"]
    assert "a is not told apart from b: 0.25 times its latency" in in_words(rows, entries, set("xyz"))


def test_what_other_runs_measured_is_no_part_of_the_study() -> None:
    """Rows of last month, of another device, and of this study's latency beside another run's throughput are marked:
    none is counted or compared. Where all runs of this study failed, no model was measured."""

    def of_run(model: str, backend: str, run: str, best: str | None = None) -> dict[str, Any]:
        return row(model, backend, 1.0, online_run=run, best_run=best, of_this_study=None)

    entries = [Entry(model=name, framework="torch", paper=(f"P{name}",)) for name in "xyz"]
    found = [
        of_run("x", "a", "new.0", "new.1"), of_run("x", "b", "new.2"), of_run("y", "a", "old.0"),
        of_run("y", "b", "new.3", "old.1"), of_run("z", "a", "new.4"), of_run("z", "b", "new.5"),
        row("z", "c", None, online_run=None, best_run=None),
    ]  # fmt: skip
    rows = marked(found, {f"new.{number}" for number in range(6)})
    assert [each["of_this_study"] for each in rows] == [True, True, False, False, True, True, False]
    (pair,) = ratios(rows)
    assert (pair.first, pair.second, pair.models) == ("a", "b", 2)
    words = in_words(rows, entries, {"x", "z"})
    assert words.startswith(
        "2 of 3 models measured, which stand for 2 of MLModelScope's 37, on 2 stacks. Of 2 models"
    )
    old = marked(found, set())
    assert ratios(old) == [] and picture(old) is None
    assert in_words(old, entries, set()).startswith("0 of 3 models measured, which stand for 0 of")


def test_only_like_rows_make_pairs() -> None:
    """Another device, version, precision or content is no pair, nor is one that was asked otherwise, or ran in more
    copies; two models have no interval, and no verdict."""
    rows = [
        row("x", "a", 1.0), row("x", "b", 2.0), row("y", "a", 1.0), row("y", "b", 2.0),
        row("z", "a", 1.0), row("z", "b", 9.0, precision="int8"), row("u", "a", 1.0), row("u", "b", 9.0, device="cpu1"),
        row("v", "a", None), row("v", "b", 3.0),
        row("text", "a", 1.0, inputs="sizes 16"), row("text", "b", 9.0, inputs="sizes 512"),
        row("copies", "a", 1.0), row("copies", "b", 9.0, instances=2),
        row("two", "a", 1.0, model_apart="torch"), row("two", "b", 9.0, model_apart="tensorflow"),
        row("words", "a", 1.0, prompts="100 tokens"), row("words", "b", 9.0, prompts="900 tokens"),
    ]  # fmt: skip
    (pair,) = ratios(rows)
    assert (pair.models, pair.low) == (2, None) and pair.ratio == pytest.approx(0.5)
    assert "times its latency" not in in_words(rows, [], set())


def test_the_page_has_each_model_and_what_is_missing(tmp_path: Path) -> None:
    """The best of a model in bold, MLModelScope's name beside ours, why a stack is not there; names are text."""
    rows = [row("x", "a", 1.234), row("x", "b", 2.0, rank_trimmed_mean_ms=2, not_steady="moved by 20%")]
    entries = [Entry(model="x", framework="torch", paper=("VGG16",))]
    make_page(
        tmp_path / "p.html", rows, entries, [("x on <c>", "not here")], {"x": "r.html", "y": None}, {"x"}
    )
    text = (tmp_path / "p.html").read_text()
    assert "<b>1.23</b> ms" in text and ">2 ms<br>" in text and "VGG16" in text
    assert "x on &lt;c&gt;" in text and "not here" in text and "r.html" in text and "not steady" in text
    assert stacks_of(rows) == [("cpu0", "a"), ("cpu0", "b")] and "another run:</span>" not in text
    make_page(tmp_path / "p.html", [row("x", "a", 1.0, of_this_study=False)], entries, [], {}, set())
    assert "another run:</span>" in (tmp_path / "p.html").read_text()
