"""Stages generate and convert on the quick start's model: in a child, cached, cancelled, and killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from inferbench_tasks.errors import CancelledError, ConversionError, InputError, StageError
from inferbench_tasks.requests.digits import Digits
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import convert, generate
from inferbench_tasks.stages.base import Context


def job(samples: int = 64, **more: Any) -> dict[str, Any]:
    return {
        "name": "t",
        "model": {"kind": "zoo", "name": "digits"},
        "requests": {"samples": samples},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
        **more,
    }


def generated(folder: Path, document: dict[str, Any], **more: Any) -> generate.Output:
    inp = generate.Input(run_id="r", job_id="j", job=document)
    output: generate.Output = perform(generate, inp, Context(data_dir=folder, base_dir=folder, **more))
    return output


def converted(folder: Path, document: dict[str, Any], before: generate.Output) -> convert.Output:
    inp = convert.Input(run_id="r", job_id="j", job=document, generate=before)
    output: convert.Output = perform(convert, inp, Context(data_dir=folder, base_dir=folder))
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that the tests of this file share; nothing in it is changed by them."""
    return tmp_path_factory.mktemp("data")


def test_from_nothing_to_a_checked_model(folder: Path) -> None:
    """Trained, measured on the held-out images, converted, compared; the second time nothing is done."""
    first = generated(folder, job())
    assert first.model.accuracy_ratio is not None and first.model.accuracy_ratio > 0.95
    assert first.model.flops == 2 * (64 * 256 + 256 * 128 + 128 * 10)
    assert first.requests.samples == 64 and first.requests.labels_path is not None
    output = converted(folder, job(), first)
    assert output.model.format == "onnx" and output.difference_ratio < 1e-5
    assert output.accuracy_ratio == first.model.accuracy_ratio
    again = generated(folder, job())
    assert again.cached and again.model == first.model and again.requests == first.requests
    assert converted(folder, job(), again).cached


def test_the_reference_is_the_source_model_s_answer(folder: Path) -> None:
    """The labels' accuracy by the stored answers is near that of all held-out images."""
    output = generated(folder, job())
    with np.load(output.requests.reference_path, allow_pickle=False) as archive:
        answers = archive["probabilities"]
    labels = np.load(str(output.requests.labels_path), allow_pickle=False)
    assert (answers.argmax(1) == labels).mean() > 0.9
    assert answers.sum(1) == pytest.approx(np.ones(64), abs=1e-5)


def test_an_error_of_the_child_keeps_its_kind(folder: Path) -> None:
    """What is refused in the child is bad input here as well."""
    with pytest.raises(InputError, match="451 are asked for"):
        generated(folder, job(samples=451))


def test_a_changed_answer_stops_the_run(folder: Path) -> None:
    """Beyond the tolerance: both values in the message."""
    strict = job(convert={"format": "onnx", "precision": "fp16", "tolerance_ratio": 1e-9})
    with pytest.raises(ConversionError, match=r"converted .*, source "):
        converted(folder, strict, generated(folder, job()))


def test_an_impossible_conversion_is_refused_at_once(folder: Path) -> None:
    """Before any child is started."""
    with pytest.raises(InputError, match="allowed: onnx"):
        converted(folder, job(convert={"format": "savedmodel"}), generated(folder, job()))


def children() -> list[psutil.Process]:
    """Those that run: one that an earlier test's left behind may have ended, and is nobody's to wait for."""
    running = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    return [p for p in running if "inferbench_tasks.running.child" in " ".join(p.cmdline())]


def test_cancelling_ends_the_child(tmp_path: Path) -> None:
    """Nothing runs on, and no half model is left."""
    with pytest.raises(CancelledError):
        generated(tmp_path, job(), cancelled=lambda: bool(children()))
    assert not children()
    assert not list((tmp_path / "cache").rglob("entry.json"))


def test_a_killed_child_has_a_name(tmp_path: Path) -> None:
    """The kernel's out-of-memory killer looks like this."""

    def kill() -> bool:
        for child in children():
            child.kill()
        return False

    with pytest.raises(StageError, match="generate: its process was killed by SIGKILL"):
        generated(tmp_path, job(), cancelled=kill)


def test_random_weights_have_no_accuracy(folder: Path) -> None:
    """A canonical model without training is never set against labels, and says why; with one epoch it is."""
    untrained = {"kind": "canonical", "family": "mlp", "neurons": 16, "layers": 1, "training": {"epochs": 0}}
    first = generated(folder, job(samples=16, model=untrained, evaluate={"samples": 20}))
    assert first.model.accuracy_ratio is None
    assert "random" in str(first.model.accuracy_reason)
    assert first.requests.labels_path is None
    assert first.evaluation is not None and first.evaluation.labels_path is None
    output = converted(folder, job(samples=16, model=untrained), first)
    assert output.accuracy_ratio is None and output.model.accuracy_reason == first.model.accuracy_reason


def test_a_data_set_of_the_users_is_evaluated(folder: Path, tmp_path: Path) -> None:
    """Its arrays and labels are asked as they are; other content under the same name is another set."""
    images = Digits("input", (64,)).inputs(np.arange(5))["input"]

    def asked(labels: list[int]) -> generate.Output:
        np.savez(tmp_path / "mine.npz", input=images, labels=np.array(labels))
        document = job(samples=8, evaluate={"dataset": "arrays", "path": "mine.npz"})
        inp = generate.Input(run_id="r", job_id="j", job=document)
        output: generate.Output = perform(generate, inp, Context(data_dir=folder, base_dir=tmp_path))
        return output

    first = asked([0, 1, 2, 3, 4]).evaluation
    assert first is not None and first.dataset == "mine" and first.samples == 5
    with np.load(first.path, allow_pickle=False) as archive:
        assert np.array_equal(archive["input"], images)
    assert np.load(str(first.labels_path), allow_pickle=False).tolist() == [0, 1, 2, 3, 4]
    second = asked([9, 1, 2, 3, 4]).evaluation
    assert second is not None and np.load(str(second.labels_path), allow_pickle=False)[0] == 9
    with pytest.raises(InputError, match="the first is 10 of sample 4"):
        asked([0, 1, 2, 3, 10])
