"""What a submission of kind bricks may say, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import run_of, shards_of
from inferbench_tasks.brick_jobs.spec import BricksSpec, MeasureSpec, ValidateSpec
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand

LIST = """\
kind: bricks
name: x
models:
  - model: {kind: zoo, name: digits}
  - model: {kind: zoo, name: lstm}
"""


#: Two points of four jobs each: two models, their cutting, and one shard.
SWEEP = LIST + "measure: {shard_s: 100}\nsweep: {bricks.granularity: [1, 3]}\n"


def test_threads_above_the_cores_are_refused_before_anything_starts(tmp_path: Path) -> None:
    """Of this machine where it is run at once, of the largest CPU device where it waits for one."""
    from inferbench_tasks.cluster.device import Device
    from inferbench_tasks.running.cluster_abilities import ClusterAbilities, MachineAbilities

    path = tmp_path / "x.yaml"
    path.write_text(LIST + "bricks: {threads: 200}\n")
    with pytest.raises(SubmissionError, match="x.yaml:6: bricks.threads: needs 200 cores; "):
        read_submission(path, MachineAbilities())
    small = Device(device_id="a", device_type="cpu", name="EPYC", host="a", cores=(0, 1))
    with pytest.raises(SubmissionError, match="the largest cpu device has 2"):
        read_submission(path, ClusterAbilities(lambda: [small]))
    large = small.model_copy(update={"device_id": "b", "cores": tuple(range(200))})
    read_submission(path, ClusterAbilities(lambda: [small, large]))
    read_submission(path, ClusterAbilities(list))


def submission(text: str, folder: Path) -> SubmissionBase:
    path = folder / "x.yaml"
    path.write_text(text)
    return read_submission(path, INSTALLED)


def problems(text: str, folder: Path) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        submission(text, folder)
    return str(caught.value).replace(str(folder) + "/", "").splitlines()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("bricks: {granularity: 0}", "x.yaml:6: bricks.granularity"),
        ("bricks: {granularity: 1.5}", "x.yaml:6: bricks.granularity"),
        ("bricks: {granularity: [1, 1]}", "has a value twice: 1, 1"),
        (
            "bricks: {runtime: openvin}",
            "x.yaml:6: bricks.runtime: unknown runtime of bricks 'openvin'; did you mean 'openvino'? known: "
            "onnxruntime, onnxruntime-cuda, onnxruntime-tensorrt, openvino",
        ),
        (
            "bricks: {runtime: openvino, precision: int8}",
            "x.yaml:6: bricks.precision: OpenVINO bricks are of fp32; got int8: it quantises across the edges of its "
            "bricks, some of whose products are then computed in fp32; ONNX Runtime has it (runtime onnxruntime)",
        ),
        (
            "bricks: {runtime: openvino, precision: fp16}",
            "got fp16: with the settings of its servers it computes that in fp32; ONNX Runtime has it",
        ),
        ("bricks: {precision: fp8}", "x.yaml:6: bricks.precision"),
        ("bricks: {batch_sizes: [0]}", "x.yaml:6: bricks.batch_sizes"),
        ("bricks: {batch_sizes: []}", "x.yaml:6: bricks.batch_sizes"),
        ("measure: {shard_s: 100000}", "x.yaml:6: measure.shard_s"),
        ("measure: {reuse: sometimes}", "x.yaml:6: measure.reuse"),
        (
            "serve: {device: gpu}",
            "x.yaml:6: serve.device: bricks are measured on cpu by the runtime onnxruntime; got 'gpu'; runtimes of "
            "gpu: onnxruntime-cuda, onnxruntime-tensorrt",
        ),
        (
            "bricks: {runtime: onnxruntime-cuda}",
            "bricks are measured on gpu by the runtime onnxruntime-cuda; got 'cpu'",
        ),
        (
            "bricks: {runtime: onnxruntime-cuda, precision: fp16}",
            "x.yaml:6: bricks.precision: ONNX Runtime's CUDA provider bricks are of fp32; got fp16",
        ),
        ("serve: {device: tpu}", "x.yaml:6: serve.device"),
        (
            "validate: {calibrate_on: 5}",
            "x.yaml:6: validate.calibrate_on: 5 models can't calibrate when there are 2",
        ),
        ("validate: {calibrate_on: 2}", "x.yaml:6: validate.calibrate_on: 2 models say nothing"),
        ("validate: {models: none, calibrate_on: 1}", "validate.calibrate_on: 1 models say nothing"),
        (
            "measure: {runs: 100, rounds: 21}",
            "x.yaml:6: measure.runs: 100 runs in 21 rounds are less than 5 in each, of which there is no mean; take at "
            "least 105",
        ),
        ("measure: {within_ratio: 0.5}", "x.yaml:6: measure.within_ratio"),
        ("measure: {within_ratio: -0.1}", "x.yaml:6: measure.within_ratio"),
        ("granularity: 3", "x.yaml:6: granularity: unknown key"),
        ("sweep: {bricks.granularity: [1, 0]}", "x.yaml:6: sweep"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(more: str, said: str, tmp_path: Path) -> None:
    """Before anything starts: each value that can't be, and each two that can't be together."""
    assert any(said in line for line in problems(LIST + more, tmp_path)), problems(LIST + more, tmp_path)


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (
            "models: {corpus: paper49}",
            "x.yaml:3: models.corpus: unknown corpus 'paper49'; did you mean 'paper50'?",
        ),
        ("models: []", "x.yaml:3: models"),
        (
            "models: [{model: {kind: zoo, name: digits}, shapes: {picture: [64]}}]",
            "x.yaml:3: models.0.shapes: the model has no input picture; it has input",
        ),
        (
            "models: [{model: {kind: zoo, name: digits}, shapes: {input: [8, 8]}}]",
            "x.yaml:3: models.0.shapes: input takes [64], not [8, 8]",
        ),
        (
            "models: [{model: {kind: zoo, name: all-minilm-l6-v2}}]",
            "x.yaml:3: models.0.shapes: the input input_ids has the open sizes [-1]; fix them by",
        ),
        ("models: [{model: {kind: zoo, name: digit}}]", "unknown zoo model 'digit'; did you mean 'digits'?"),
        (
            "models: [{model: {kind: zoo, name: digits}, copy: 2}]",
            "models[0].copy: unknown key; did you mean 'copies'?",
        ),
        (
            "models: [{model: {kind: zoo, name: digits}}, {model: {kind: zoo, name: digits}}]",
            "the same model as models.0; say copies there",
        ),
        (
            "models: [{model: {kind: zoo, name: lstm}}, {model: {kind: zoo, name: lstm, framework: torch}}]",
            "the same model as models.0; say copies there",
        ),
    ],
)
def test_models_that_are_none_are_named(models: str, said: str, tmp_path: Path) -> None:
    """An unknown corpus or model, an empty list, the same model twice."""
    text = f"kind: bricks\nname: x\n{models}\n"
    assert any(said in line for line in problems(text, tmp_path)), problems(text, tmp_path)


def test_each_model_of_a_list_has_its_own_line(tmp_path: Path) -> None:
    """The line of what is wrong, and not that where the list begins: a list may have a thousand."""
    text = LIST + "  - model: {kind: zoo, name: digit}\n  - model:\n      kind: zoo\n      name: lst\n"
    assert [line.split(" unknown")[0] for line in problems(text, tmp_path)] == [
        "x.yaml:6: models.2.model.name:",
        "x.yaml:9: models.3.model.name:",
    ]
    text = LIST + "  - model: {kind: zoo, name: resnet18}\n    copies: 2\n    shapes: {none: [3]}\n"
    [line] = problems(text, tmp_path)
    assert line.startswith("x.yaml:8: models.2.shapes: the model has no input none")


def test_a_framework_that_a_model_has_not_is_told_once_and_where_it_stands(tmp_path: Path) -> None:
    """It is no problem of the model's shapes."""
    text = LIST + "  - model: {kind: zoo, name: digits, framework: torch}\n"
    [line] = problems(text, tmp_path)
    assert line.startswith(
        "x.yaml:6: models.2.model.framework: the zoo model 'digits' is trained by scikit-learn"
    )


def test_the_plan_is_models_then_their_cutting_then_shards(tmp_path: Path) -> None:
    """Only the measurements are on the device; cutting waits for all conversions, shards wait for the cutting."""
    plan = compile_plan(submission(LIST + "measure: {shard_s: 30}\n", tmp_path))
    chains = [[node.stage for node in plan.of_job(job.index)] for job in plan.jobs]
    assert chains == [["generate", "convert"]] * 2 + [["decompose"]] + [["assign", "measure", "release"]] * 3
    nodes = {node.id: node for node in plan.nodes}
    assert nodes["job-002.decompose"].follows == ("job-000.convert", "job-001.convert")
    assert nodes["job-004.assign"].follows == ("job-002.decompose",)
    assert {node.stage for node in plan.nodes if node.lease} == {"measure", "release"}
    assert [node.stage for node in plan.of_submission()] == ["construct"]
    assert nodes["job-003.measure"].opens and nodes["job-003.release"].cleans_up
    assert {node.stage for node in plan.nodes if node.asks} == {"assign"}


def test_points_of_a_sweep_wait_for_their_own(tmp_path: Path) -> None:
    """Each point has its own models, cutting and shards; none waits for another's."""
    plan = compile_plan(submission(SWEEP, tmp_path))
    waits = {node.id: node.follows for node in plan.nodes if node.stage == "decompose"}
    assert waits == {
        "job-002.decompose": ("job-000.convert", "job-001.convert"),
        "job-006.decompose": ("job-004.convert", "job-005.convert"),
    }


def test_parts_find_each_other_by_their_places(tmp_path: Path) -> None:
    """Also in the second point of a sweep."""
    jobs = expand(submission(SWEEP, tmp_path))
    shard = jobs[7].spec
    assert isinstance(shard, BricksJob) and shard.part is not None and shard.part.role == "shard"
    assert run_of("night-1.007", shard.part, "cut") == "night-1.006"
    assert run_of("night-1.007", shard.part, "model", 1) == "night-1.005"


def test_a_corpus_is_all_of_its_models(tmp_path: Path) -> None:
    """One job for each architecture, whose plan is made in a moment."""
    text = "kind: bricks\nname: x\nmodels: {corpus: distinct50}\n"
    roles = [
        job.spec.part.role
        for job in expand(submission(text, tmp_path))
        if isinstance(job.spec, BricksJob) and job.spec.part
    ]
    assert (
        roles.count("model") == 50
        and roles.count("cut") == 1
        and roles.count("shard") == shards_of(50, BricksSpec(), MeasureSpec(), ValidateSpec())
    )


def test_there_are_as_many_shards_as_the_work_may_fill() -> None:
    """A model is guessed at 11.75 s as a whole and 31.65 s of bricks, so that ten take 434 s, which are eight shards of
    60 s. Without whole models it is six; at two granularities 13; at batch 1 and 8, where one alone may take 300 s, 58;
    in five runs a round, four of 60 s. Never more than 64, never none."""
    plain, measure, every = BricksSpec(), MeasureSpec(), ValidateSpec()
    assert shards_of(10, plain, measure, every) == 8
    assert shards_of(10, plain, measure, ValidateSpec(models="none")) == 6
    assert shards_of(10, BricksSpec(granularity=(1, 3)), measure, every) == 13
    assert shards_of(10, BricksSpec(batch_sizes=(1, 8)), measure, every) == 58
    assert shards_of(10, plain, MeasureSpec(runs=15), every) == 4
    assert shards_of(1, plain, MeasureSpec(shard_s=1800), every) == 1
    assert shards_of(1_000, plain, measure, every) == 64
