"""What a training submission may say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.plan import draw
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.training.hosts.on_host import rank_cores
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.rank_main import epochs

HEAD = "kind: training\nname: x\n"


def problems(text: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(text, "x.yaml", INSTALLED)
    return [str(problem) for problem in caught.value.problems]


def job(text: str) -> TrainingJob:
    read = read_submission_text(HEAD + text, "x.yaml", INSTALLED)
    return TrainingJob.model_validate_json(read.model_dump_json(exclude={"sweep"}))


def test_what_a_run_does_not_do_is_an_unknown_key() -> None:
    """Neither steps between exchanges nor a server can be chosen: each is refused with its line."""
    text = f"{HEAD}data: {{kind: dummy}}\ntrain:\n  accumulate: 2\nserve: {{}}\n"
    first, second = problems(text)
    assert first.startswith("x.yaml:5: train.accumulate: unknown key")
    assert second.startswith("x.yaml:6: serve: unknown key")


def test_values_have_bounds_and_choices() -> None:
    """With line, what is allowed and what was written."""
    text = f"{HEAD}data: {{kind: imagenet}}\nloader: {{workers: 99}}\ntrain: {{rounds: 2, batch_size: 0}}\n"
    found = problems(text)
    assert any(
        p.startswith("x.yaml:3: data.kind: must be one of: digits, fashion-mnist, dummy") for p in found
    )
    assert any(p.startswith("x.yaml:4: loader.workers: must be") and "16" in p for p in found)
    assert any(p.startswith("x.yaml:5: train.rounds: must be") for p in found)
    assert problems(HEAD)[0].startswith("x.yaml:")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("devices: {processes: 2}\n", 4, "devices.processes: 2 processes need strategy: ddp"),
        ("devices: {count: 2}\n", 4, "devices.count: 2 processes need strategy: ddp"),
        (
            "devices: {count: 9, processes: 8, strategy: ddp}\ntrain: {batch_size: 8}\n",
            4,
            "devices.processes: 72 processes on 9 devices; at most 64",
        ),
        ("timing: [jade]\n", 4, "timing: timing names each timing once, and synchronised"),
        ("timing: [jade, synchronised, jade, jade]\n", 4, "timing: must"),
        ("train: {passes: 2}\n", 4, "train.passes: passes are of smooth_inference"),
        (
            "train: {benchmark: smooth_inference}\nloader: {workers: 2}\n",
            5,
            "loader.workers: smooth_inference goes through the data itself",
        ),
        ("loader: {prefetch: 4}\n", 4, "loader.prefetch: prefetch is of loader processes"),
        ("train: {batch_size: 2000}\n", 4, "train.batch_size: a batch of 2,000 in each of 1 process(es)"),
        ("model: {name: resnet-18}\ntrain: {batch_size: 2000}\n", 5, "train.batch_size"),
        (
            "devices: {backend: nccl, strategy: ddp}\n",
            4,
            "devices.backend: nccl exchanges between GPUs: give devices.kind: gpu",
        ),
        ("devices: {backend: gloo}\n", 4, "devices.backend: one process exchanges nothing"),
        (
            "devices: {kind: gpu, processes: 2, backend: nccl, strategy: ddp}\n",
            4,
            "devices.processes: nccl has one process on each GPU",
        ),
        ("devices: {cores: 1, threads: 2}\n", 4, "devices.cores: 2 threads on 1 core(s) take turns"),
        ("devices: {kind: 'cpu:0'}\n", 4, "devices.kind: must be cpu, gpu or gpu:<type>"),
        ("train: {precision: fp16}\n", 4, "train.precision: fp16 is of GPUs"),
        ("train: {precision: tf32}\n", 4, "train.precision: tf32 is of GPUs"),
        (
            "model: {name: lstm}\ntrain: {channels_last: true}\n",
            5,
            "train.channels_last: channels_last is of images",
        ),
        (
            "train: {compile: true, warmup_steps: 0}\n",
            4,
            "train.warmup_steps: torch.compile compiles in the first",
        ),
        ("train: {optimiser: adam, momentum: 0.5}\n", 4, "train.momentum: momentum is of sgd"),
        (
            "train: {benchmark: inference, optimiser: adam}\n",
            4,
            "train.optimiser: inference goes forward only: optimiser",
        ),
        ("loader: {persistent: true}\n", 4, "loader.persistent: persistent is of loader processes"),
        ("loader: {context: spawn}\n", 4, "loader.context: context is of loader processes"),
        ("devices: {hosts: 3}\n", 4, "devices.hosts: a training runs on one host or on 2; got 3"),
        (
            "devices: {hosts: 2}\n",
            4,
            "devices.count: 2 hosts have one device each: give count: 2; got 1",
        ),
        (
            "devices: {hosts: 2, count: 4, strategy: ddp}\n",
            4,
            "devices.count: 2 hosts have one device each: give count: 2; got 4",
        ),
        (
            "devices: {hosts: 2, count: 2, strategy: ddp, kind: gpu}\n",
            4,
            "devices.kind: devices of two hosts are CPUs, which exchange by gloo; got gpu",
        ),
        (
            "loader: {pin_memory: true}\n",
            4,
            "loader.pin_memory: pin_memory is of batches that a loader makes",
        ),
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


def test_a_factor_of_a_device_that_nobody_knows_is_warned_of() -> None:
    """``V1OO`` is no V100: it will lead nowhere. What hardware.yaml has, of a cluster too, is no slip."""
    text = (
        "data: {kind: digits}\n"
        "expected: {factors: [{device: new/V100, of: A40, speed: 0.9, source: s, date: '2024'}]}\n"
    )
    message = TRAINING.warnings(job(text.replace("V100", "V1OO")))["factors"]
    assert message.startswith("expected.factors name V1OO, which configs/hardware.yaml does not know")
    assert TRAINING.warnings(job(text)) == {}


def test_several_devices_have_processes_each() -> None:
    """The plan holds as many at once; a submission of before the field keeps its digest, one with it has its own."""
    text = "data: {kind: dummy}\ndevices: {count: 2, processes: 3, strategy: ddp}\n"
    spec = job(text)
    assert (spec.needed_devices(), spec.devices.ranks) == (2, 6)
    plan = compile_plan(read_submission_text(HEAD + text, "x.yaml", INSTALLED))
    assert {node.devices for node in plan.nodes if node.lease} == {2}
    assert "[cpu x 2: train" in draw(plan)
    one, same, two = (
        job_digest(job(f"data: {{kind: dummy}}\ndevices: {{{devices}}}\n"))
        for devices in (
            "processes: 2, strategy: ddp",
            "count: 1, processes: 2, strategy: ddp",
            "count: 2, strategy: ddp",
        )
    )
    assert one == same != two


def test_ranks_are_pinned_to_the_cores_of_their_own_devices() -> None:
    """Those of the first device first; on one device, or on none that was leased, the worker's own cores are enough."""
    spec = job("data: {kind: dummy}\ndevices: {count: 2, processes: 2, strategy: ddp}\n")
    first, second = (
        HeldDevice(device_id=name, device_type="cpu", host="h", cores=cores)
        for name, cores in (("a", (0, 1)), ("b", (2, 3)))
    )
    assert rank_cores(spec, [first, second]) == ((0, 1), (0, 1), (2, 3), (2, 3))
    assert rank_cores(spec, [first]) == rank_cores(spec, []) == ()


def test_its_plan_holds_one_device_from_the_training_to_the_release() -> None:
    """Data is made before; the result is written while the device is held, and what still runs is ended last."""
    plan = compile_plan(read_submission_text(f"{HEAD}data: {{kind: dummy}}\n", "x.yaml", INSTALLED))
    assert [node.stage for node in plan.nodes] == ["generate", "train", "collect", "release", "analyze"]
    generate, train, collect, release, analyze = plan.nodes
    assert generate.lease is None and train.opens and release.closes and release.cleans_up
    assert train.lease == collect.lease == release.lease
    assert train.resource == "cpu" and analyze.lease is None


def test_plans_and_stages_need_no_torch() -> None:
    """A worker has all stages in memory before it forks, which torch's threads would not survive."""
    code = (
        "import sys\nfrom inferbench_tasks.pipelines.base import PIPELINES\n"
        "PIPELINES.load('training').entries\n"
        "import inferbench_tasks.training.rank_main, inferbench_tasks.training.launch\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_smooth_inference_makes_a_batch_of_each_sample() -> None:
    """5 samples in each of 2 processes, 3 passes of 8: five steps of 24 samples, no smaller one at the end."""
    text = "data: {kind: dummy, samples: 5}\ndevices: {processes: 2, strategy: ddp}\n"
    spec = job(text + "train: {benchmark: smooth_inference, batch_size: 8, passes: 3, warmup_steps: 1}\n")
    assert (spec.samples_per_step, spec.samples_per_process, spec.steps) == (24, 5 * 24, 5)
    assert spec.measured_steps == 4 * 3


def test_a_round_has_an_epoch_of_each_timing_and_a_bare_one() -> None:
    """Each of them first in turns."""
    spec = job("data: {kind: dummy}\ntiming: [synchronised, jade]\n")
    assert [kind for kind, _ in epochs(spec)] == [
        "synchronised", "jade", "bare", "jade", "bare", "synchronised", "bare", "synchronised", "jade",
    ]  # fmt: skip
    assert [number for _, number in epochs(spec)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: {kind: jpeg}\n", "jpeg files have three channels; fashion-cnn takes 1"),
        ("data: {kind: digits, read: cold}\n", "cold reads are of files"),
        (
            "data: {kind: jpeg, where: memory, read: cold}\nmodel: {name: resnet-18}\n",
            "cold reads are of files",
        ),
        (
            "data: {kind: folder, path: images}\nmodel: {name: resnet-18}\n",
            "folder needs path, whose folders",
        ),
        ("data: {kind: dummy, path: images}\n", "dummy is made here and has no path"),
        ("data: {kind: dummy, augment: true}\n", "augment changes decoded files"),
        (
            "data: {kind: dummy, where: device}\ntrain: {benchmark: smooth_inference}\n",
            "smooth_inference loads each sample",
        ),
    ],
)
def test_where_data_lies_must_fit_what_it_is(text: str, message: str) -> None:
    """Each before anything is made."""
    assert any(message in problem for problem in problems(HEAD + text))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "model: {name: resnet-19}\n",
            4,
            "model.name: unknown network 'resnet-19'; did you mean 'resnet-18'?",
        ),
        (
            "model: {name: lstm, arguments: {layers: 3}}\n",
            4,
            "model.arguments.layers: lstm: layers is no argument",
        ),
        (
            "model:\n  name: bert-base\n  arguments:\n    heads: 7\n",
            7,
            "model.arguments.heads: bert-base: heads 768 is no multiple",
        ),
        ("model: {name: lstm}\ntrain: {benchmark: smooth_inference}\n", 0, ""),
        (
            "train:\n  benchmark: smooth_inference\n  learning_rate: 0.1\n",
            6,
            "train.learning_rate: smooth_inference goes forward only",
        ),
        (
            "model: {name: lstm, module: net.py}\n",
            4,
            "model.module: module is of your own module: give kind: file",
        ),
        ("model: {kind: file, name: net}\n", 4, "model.module: kind: file needs module"),
        ("model: {kind: file, module: net.py}\n", 4, "model.name: fashion-cnn is a network of ours"),
        (
            "model: {name: bert-base}\ntrain: {benchmark: smooth_inference}\n",
            5,
            "train.benchmark: smooth_inference puts noise on its samples; bert-base takes tokens",
        ),
        (
            "model: {name: resnet-18}\ntrain: {batch_size: 673}\n",
            5,
            "train.batch_size: the last batch, of 1,347",
        ),
    ],
)
def test_networks_take_what_is_theirs(text: str, line: int, message: str) -> None:
    """Names, sizes and inputs are held against the network before anything is made."""
    text = f"{HEAD}data: {{kind: digits}}\n{text}"
    if not message:
        read_submission_text(text, "x.yaml", INSTALLED)
        return
    (problem,) = problems(text)
    assert problem.startswith(f"x.yaml:{line}: {message}")


def test_images_are_of_networks_that_take_some() -> None:
    """A side that counts for nothing is refused, and an array that is too large for any machine."""
    assert (
        "takes no images"
        in problems(f"{HEAD}data: {{kind: digits, image_size: 32}}\nmodel: {{name: lstm}}\n")[0]
    )
    text = f"{HEAD}data: {{kind: fashion-mnist, image_size: 224}}\nmodel: {{name: resnet-18}}\n"
    assert "60,000 samples of 3 x 224 x 224 have 36,126,720,000 bytes" in problems(text)[0]


FACTOR = "{{device: {0}, of: {1}, speed: 2, source: s, date: '2024'}}"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("expected: {samples_per_s: 5}\n", 4, "expected.samples_per_s: give source too"),
        ("expected: {source: x}\n", 4, "expected.source: source is of samples_per_s or step_ms"),
        ("expected: {}\n", 4, "expected: expects nothing"),
        ("expected: {samples_per_s: -5, source: x}\n", 4, "expected.samples_per_s: must"),
        ("expected: {speed: 5}\n", 4, "expected.speed: unknown key"),
        (
            f"expected: {{factors: [{FACTOR.format('a', 'b')}, {FACTOR.format('b', 'a')}]}}\n",
            4,
            "expected.factors: the factors given: expected speeds lead in a circle",
        ),
        (
            f"expected: {{factors: [{FACTOR.format('JADE2/V100', 'A40')}]}}\n",
            4,
            "expected.factors: the factors given, beside configs/expected_speed.yaml: expected speeds lead in a circle",
        ),
    ],
)
def test_expectations_are_whole_and_lead_in_no_circle(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    """With line and remedy, before anything starts; those that go in a circle with the shipped table as well."""
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(f"{HEAD}data: {{kind: digits}}\n{text}", "x.yaml", INSTALLED, base_dir=tmp_path)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"x.yaml:{line}: {message}")


def test_what_is_expected_changes_no_digest() -> None:
    """It measures nothing."""
    plain = job("data: {kind: digits}\n")
    expecting = job("data: {kind: digits}\nexpected: {samples_per_s: 5, source: x}\n")
    assert job_digest(plain) == job_digest(expecting)
    assert expecting.expected is not None and expecting.expected.samples_per_s == 5
