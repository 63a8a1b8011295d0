"""What a training submission may say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.training.job import TrainingJob

HEAD = "kind: training\nname: x\n"


def problems(text: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(text, "x.yaml", INSTALLED)
    return [str(problem) for problem in caught.value.problems]


def job(text: str) -> TrainingJob:
    read = read_submission_text(HEAD + text, "x.yaml", INSTALLED)
    return TrainingJob.model_validate_json(read.model_dump_json(exclude={"sweep"}))


def test_what_a_run_does_not_do_is_an_unknown_key() -> None:
    """Neither precisions nor backends nor where data lies can be chosen: each is refused with its line."""
    text = f"{HEAD}data: {{kind: dummy}}\ntrain:\n  precision: bf16\ndevices:\n  backend: nccl\nserve: {{}}\n"
    first, second, third = problems(text)
    assert first.startswith("x.yaml:5: train.precision: unknown key")
    assert second.startswith("x.yaml:7: devices.backend: unknown key")
    assert third.startswith("x.yaml:8: serve: unknown key")


def test_values_have_bounds_and_choices() -> None:
    """With line, what is allowed and what was written."""
    text = f"{HEAD}data: {{kind: imagenet}}\nloader: {{workers: 99}}\ntrain: {{rounds: 2, batch_size: 0}}\n"
    found = problems(text)
    assert any(p.startswith("x.yaml:3: data.kind: must be one of: digits, dummy") for p in found)
    assert any(p.startswith("x.yaml:4: loader.workers: must be") and "16" in p for p in found)
    assert any(p.startswith("x.yaml:5: train.rounds: must be") for p in found)
    assert problems(HEAD)[0].startswith("x.yaml:")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("devices: {processes: 2}\n", 4, "devices.processes: 2 processes need strategy: ddp"),
        ("loader: {prefetch: 4}\n", 4, "loader.prefetch: prefetch is of loader processes"),
        ("train: {batch_size: 2000}\n", 4, "train.batch_size: a batch of 2,000 in each of 1 process(es)"),
        ("model: {name: resnet-18}\ntrain: {batch_size: 2000}\n", 5, "train.batch_size"),
    ],
)
def test_what_does_not_go_together_is_refused(text: str, line: int, message: str) -> None:
    """Before anything is run, at the field that is meant."""
    (problem,) = problems(f"{HEAD}data: {{kind: digits}}\n{text}")
    assert problem.startswith(f"x.yaml:{line}: {message}")


def test_the_small_network_takes_its_own_images_only() -> None:
    """And digits are no more than they are."""
    assert "28 x 28; got 32" in problems(f"{HEAD}data: {{kind: digits, image_size: 32}}\n")[0]
    assert "1,347" in problems(f"{HEAD}data: {{kind: digits, samples: 2000}}\n")[0]


def test_steps_are_counted_as_the_sampler_gives_them() -> None:
    """100 samples on 3 processes are 34 each: four whole batches of 8 and one of 2, of which two are warm-up."""
    text = "data: {kind: dummy, samples: 100}\ntrain: {batch_size: 8, warmup_steps: 2}\n"
    spec = job(text + "devices: {processes: 3, strategy: ddp}\n")
    assert (spec.samples_per_process, spec.steps, spec.measured_steps) == (34, 5, 2 * 3)
    assert "6 measured steps" in TRAINING.warnings(spec)["steps"]


def test_its_plan_holds_one_device_from_the_training_to_the_release() -> None:
    """Data is made before; the result is written while the device is held, and what still runs is ended last."""
    plan = compile_plan(read_submission_text(f"{HEAD}data: {{kind: dummy}}\n", "x.yaml", INSTALLED))
    assert [node.stage for node in plan.nodes] == ["generate", "train", "collect", "release"]
    generate, train, collect, release = plan.nodes
    assert generate.lease is None and train.opens and release.closes and release.cleans_up
    assert train.lease == collect.lease == release.lease
    assert train.resource == "cpu"


def test_plans_and_stages_need_no_torch() -> None:
    """A worker has all stages in memory before it forks, which torch's threads would not survive."""
    code = (
        "import sys\nfrom inferbench_tasks.pipelines.base import PIPELINES\n"
        "PIPELINES.load('training').entries\n"
        "import inferbench_tasks.training.rank_main, inferbench_tasks.training.launch\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
