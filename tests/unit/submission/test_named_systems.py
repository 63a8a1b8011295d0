"""``systems``: what is chosen of hand-made devices, what each misses, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED, InstalledAbilities
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import Job, expand
from inferbench_tasks.submission.systems import Framework, System

HEAD = "name: x\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 5}}\n"
HERE = (Framework("onnxruntime", "1.23.2", "here"), Framework("torch", "2.9.0", "here"))
SMALL = System("a.cpu-0-1", DeviceSpec("cpu"), "Intel Xeon", "x86_64", 2, 17, HERE)
TWIN = replace(SMALL, id="b.cpu-0-1")
LARGE = System("c.cpu-0-15", DeviceSpec("cpu"), "Neoverse-N1", "aarch64", 16, 64, HERE)
GPU = System("d.gpu-0", DeviceSpec("gpu:h100"), "NVIDIA H100 80GB HBM3", "x86_64", 16, 86, HERE)
OLD = System("e.cpu-0", DeviceSpec("cpu"), "Intel Xeon", "x86_64", 1, 4)
ALL = (SMALL, TWIN, LARGE, GPU, OLD)


@dataclass(frozen=True)
class Known(InstalledAbilities):
    """An installation that knows these devices."""

    known: Sequence[System] = field(default=ALL)

    def systems(self) -> Sequence[System] | None:
        return self.known


def read(systems: str, abilities: Abilities | None = None, rest: str = "") -> Submission:
    text = f"{HEAD}systems: {systems}\n{rest}"
    submission = read_submission_text(text, "x.yaml", abilities or Known())
    assert isinstance(submission, Submission)
    return submission


def jobs(systems: str, rest: str = "") -> list[Job[Any]]:
    return expand(read(systems, rest=rest))


def devices(systems: str, rest: str = "") -> list[tuple[str, ...]]:
    return [job.spec.only_on() for job in jobs(systems, rest)]


def refused(systems: str, abilities: Abilities | None = None, rest: str = "") -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read(systems, abilities, rest)
    return [str(problem) for problem in caught.value.problems]


def test_the_jobs_go_to_devices_that_are_alike_and_fit() -> None:
    """The issue's own example: two of five devices, which differ in nothing but their ids."""
    asked = '{arch: x86_64, device: cpu, cores: ">=2", memory_gb: ">=16", framework: "onnxruntime>=1.20"}'
    (job,) = jobs(asked)
    assert job.spec.only_on() == ("a.cpu-0-1", "b.cpu-0-1")
    assert job.spec.system is not None and job.spec.serve.device == "cpu"
    assert (job.spec.system.name, job.spec.system.arch, job.spec.system.cores) == ("Intel Xeon", "x86_64", 2)


@pytest.mark.parametrize(
    ("systems", "ids"),
    [
        ("{device: gpu}", ["d.gpu-0"]),
        ("{device: h100}", ["d.gpu-0"]),
        ("{device: xeon, all: true}", ["a.cpu-0-1", "b.cpu-0-1", "e.cpu-0"]),
        ("{cores: 16, all: true}", ["c.cpu-0-15", "d.gpu-0"]),
        ('{cores: "> 2", device: cpu}', ["c.cpu-0-15"]),
        ('{memory_gb: "<17"}', ["e.cpu-0"]),
        ('{memory_gb: "<= 17", all: true}', ["a.cpu-0-1", "b.cpu-0-1", "e.cpu-0"]),
        ('{memory_gb: "==86"}', ["d.gpu-0"]),
        ('{framework: "torch@^2.8", arch: aarch64}', ["c.cpu-0-15"]),
        ("{all: true}", [system.id for system in ALL]),
    ],
)
def test_each_requirement_by_hand(systems: str, ids: list[str]) -> None:
    """Which of the five devices, as one counts them."""
    assert [device for chosen in devices(systems) for device in chosen] == ids


def test_all_makes_a_job_for_each_device_at_each_point() -> None:
    """Three devices, two numbers of threads: six jobs, each with its device in its point, digest and name."""
    made = jobs("{all: true, device: cpu, cores: '>=2'}", "sweep: {serve.threads: [1, 2]}\n")
    assert [(job.point["serve.threads"], job.point["system.id"]) for job in made] == [
        (threads, device) for threads in (1, 2) for device in ("a.cpu-0-1", "b.cpu-0-1", "c.cpu-0-15")
    ]
    assert len({job.digest for job in made}) == len({job.job_id for job in made}) == 6
    assert "system.device" not in made[0].point, "all are CPUs: that is no part of a label"
    kinds = {job.spec.only_on()[0]: str(job.spec.serve.device) for job in jobs("{all: true}")}
    assert kinds["d.gpu-0"] == "gpu:h100" and kinds["c.cpu-0-15"] == "cpu"


def test_all_goes_beside_other_groups_and_blocks() -> None:
    """A zip of the user's stays; an interleaved sweep has the devices in turns."""
    rest = "sweep:\n  zip: {serve.threads: [1, 2], load.batch_size: [1, 4]}\n"
    assert len(jobs("{all: true, device: xeon}", rest)) == 6
    rest = "sweep: {order: interleaved, blocks: 4}\n"
    order = [job.spec.only_on()[0] for job in jobs("{all: true, device: xeon, cores: 2}", rest)]
    assert order[:4] == ["a.cpu-0-1", "b.cpu-0-1", "b.cpu-0-1", "a.cpu-0-1"] and len(order) == 8


def test_the_digest_tells_the_system_and_not_how_many_are_alike() -> None:
    """A twin that leaves changes no digest; another system, or none, is another job."""
    (one,), (two,) = (expand(read("{cores: 2}", Known(known=known))) for known in ((SMALL,), (SMALL, TWIN)))
    assert one.digest == two.digest
    (large,) = expand(read("{cores: 16, device: cpu}"))
    plain = expand(read_submission_text(HEAD, "x.yaml", Known()))[0]
    assert len({one.digest, large.digest, plain.digest}) == 3
    assert expand(read("{cores: '>=2', device: xeon}", Known()))[0].digest == one.digest, (
        "however it was asked"
    )


@pytest.mark.parametrize("systems", ["{cores: 2}", "{all: true}", "{device: gpu}"])
def test_what_was_chosen_is_read_again_as_it_is(systems: str) -> None:
    """Also where nobody knows the devices: what the form, REST and the shelf pass on."""
    first = read(systems, rest="sweep: {serve.threads: [1, 2]}\n")
    for abilities in (Known(), INSTALLED):
        again = read_submission_data(first.model_dump(mode="json"), "again", abilities)
        assert again == first and expand(again) == expand(first)


def test_no_fit_lists_every_device_with_what_it_misses_first() -> None:
    """At the line of each requirement, in the order in which it is asked; nothing twice."""
    asked = '\n  arch: x86_64\n  cores: ">=4"\n  memory_gb: "<40"\n  framework: onnxruntime>=1.20'
    assert refused(asked) == [
        "x.yaml:4: systems: fits none of the devices (5) that are here; ask for less",
        "x.yaml:5: systems.arch: x86_64 is missed by c.cpu-0-15 (aarch64)",
        "x.yaml:6: systems.cores: >=4 is missed by a.cpu-0-1 (2), b.cpu-0-1 (2), e.cpu-0 (1)",
        "x.yaml:7: systems.memory_gb: <40 is missed by d.gpu-0 (86)",
    ]


def test_what_was_not_told_is_missed() -> None:
    """A worker from before it told of frameworks, or one that tells neither memory nor architecture."""
    blank = System("z.cpu", DeviceSpec("cpu"), "c")
    for systems, field_ in (
        ("{arch: x86_64}", "arch: x86_64"),
        ('{cores: ">=1"}', "cores: >=1"),
        ('{memory_gb: ">=1"}', "memory_gb: >=1"),
        ("{framework: onnxruntime}", "framework: onnxruntime"),
    ):
        _, problem = refused(systems, Known(known=(blank,)))
        assert problem == f"x.yaml:4: systems.{field_} is missed by z.cpu (its worker did not tell)"


def test_a_version_that_a_job_names_is_judged_and_not_what_is_installed() -> None:
    """It is made on the device: that needs nothing there, and has to be what ``systems`` asks for."""
    named = "serve: {framework: onnxruntime@~1.27}\n"
    assert devices("{framework: onnxruntime@~1.27, cores: '<2'}", named) == [
        ("e.cpu-0",)
    ]  # tells of no framework
    asked = "{framework: onnxruntime>=1.30}"
    assert refused(asked, rest=named) == [
        "x.yaml:4: systems.framework: serve.framework names onnxruntime 1.27.0, which is not onnxruntime>=1.30; leave "
        "one of both out"
    ]
    both = "sweep: {serve.framework: [null, onnxruntime@~1.27]}\n"
    assert "names onnxruntime 1.27.0" in refused("{framework: onnxruntime>=1.30}", rest=both)[0]
    _, problem = refused(
        "{framework: 'onnxruntime>=1.27'}", rest=both
    )  # 1.23.2 is installed, where it is told
    assert "a.cpu-0-1 (1.23.2)" in problem and "e.cpu-0 (its worker did not tell)" in problem
    other = "{framework: 'torch@^2.8', arch: aarch64}"
    assert devices(other, named) == [("c.cpu-0-15",)]


def test_a_framework_must_be_where_the_backend_runs() -> None:
    """A version in another environment does not count; none at all is said."""
    elsewhere = replace(SMALL, frameworks=(Framework("onnxruntime", "1.23.2", "vllm"),))
    _, problem = refused("{framework: onnxruntime>=1.20}", Known(known=(elsewhere,)))
    assert problem.endswith("onnxruntime>=1.20 is missed by a.cpu-0-1 (none)")
    _, problem = refused("{framework: 'onnxruntime>=2'}", Known(known=(SMALL,)))
    assert problem.endswith("onnxruntime>=2 is missed by a.cpu-0-1 (1.23.2)")


def test_the_backend_and_named_devices_count_too() -> None:
    """A device that the backend does not run on, one that `on_devices` leaves out, one that takes no job."""
    serve = "serve: {backend: openvino}\n"
    _, problem = refused("{device: gpu}", Known(known=(GPU,)), serve)
    assert problem == "x.yaml:4: systems: a device that openvino runs on (cpu) is missed by d.gpu-0 (a gpu)"
    swept = "sweep: {serve.backend: [onnxruntime, openvino]}\n"
    assert "that openvino runs on" in refused("{device: gpu}", Known(known=(GPU,)), swept)[1]
    assert devices("{cores: 2}", "on_devices: [b.cpu-0-1]\n") == [("b.cpu-0-1",)]
    sick = replace(SMALL, unfit="quarantined: no memory")
    assert (
        "a device that takes jobs is missed by a.cpu-0-1 (quarantined: no memory)"
        in refused("{cores: 2}", Known(known=(sick,)))[1]
    )


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        ("serve: {device: cpu}\n", "x.yaml:5: serve.device"),
        ("sweep: {serve.device: [cpu, gpu]}\n", "x.yaml:5: sweep.serve.device"),
        ("sweep: {zip: {serve.device: [cpu, gpu]}}\n", "x.yaml:5: sweep.zip.serve.device"),
        ("sweep: {serve: [{device: cpu}, {threads: 2}]}\n", "x.yaml:5: sweep.serve"),
    ],
)
def test_a_device_that_is_given_too_is_refused(rest: str, line: str) -> None:
    """With the line of the device, also of a sweep's sections."""
    assert refused("{cores: 2}", rest=rest) == [
        f"{line}: systems stands in place of serve.device; leave one of both out"
    ]


@pytest.mark.parametrize(
    ("systems", "rest", "words"),
    [
        ("{}", "", "systems: says nothing: give arch, device, cores, memory_gb, framework, or all: true"),
        ("{arch: arm}", "", "systems.arch: must be one of: x86_64, aarch64; got 'arm'"),
        ("{cores: two}", "", "systems.cores: must be a number above 0 and at most 1,000,000 or a comparison"),
        ("{cores: '>=-1'}", "", "systems.cores: must be a number above 0"),
        ("{cores: true}", "", "systems.cores: must be a number above 0"),
        (
            "{framework: a b c}",
            "",
            "systems.framework: 'a b c' is no name with a constraint; allowed are NAME",
        ),
        ("{all: 1}", "", "systems.all: must be true or false; got 1"),
        ("{core: 1}", "", "systems.core: unknown key; did you mean 'cores'?"),
        ("{cores: 2}", "share: {beside: [{}]}\n", "systems: the servers of share have devices of their own"),
        ("[1]", "", "systems: must be a mapping with the keys arch, device, cores"),
        ("{all: true}", "sweep: {systems.cores: [1, 2]}\n", "sweep.systems.cores: can't be swept"),
        ("{all: true}", "sweep: {system.id: [a, b]}\n", "sweep.system.id: can't be swept"),
        ("{all: true}", "sweep: {zip: 5}\n", "must be a mapping of dotted paths to lists of values"),
        (
            "{framework: onnxruntime}",
            "serve: {backend: triton, launcher: container}\n",
            "systems.framework: of a container its image says it",
        ),
    ],
)
def test_a_form_that_is_wrong_is_refused(systems: str, rest: str, words: str) -> None:
    """What, where and what is allowed, whatever devices there are."""
    assert any(words in problem for problem in refused(systems, rest=rest)), refused(systems, rest=rest)


def test_nobody_to_choose_from() -> None:
    """No worker: the remedy. An installation that knows no devices: who does; nothing is started by a guess."""
    (problem,) = refused("{cores: 2}", Known(known=()))
    assert "no worker has registered a device here; start one (`inferbench up`" in problem
    (problem,) = refused("{cores: 2}", INSTALLED)
    assert problem.startswith("x.yaml:4: systems: is decided by the devices of a system")


def test_the_form_alone_leaves_it_undecided() -> None:
    """For who only checks: no system is chosen, and a backend of GPUs is not refused for it."""
    form = InstalledAbilities(form_alone=True)
    submission = read("{cores: 2}", form)
    assert submission.systems is not None and submission.system is None
    assert (
        read("{cores: 2}", form, "serve: {backend: tensorrt}\nconvert: {format: tensorrt}\n").system is None
    )
    with pytest.raises(SubmissionError, match="must be one of: x86_64, aarch64"):
        read("{arch: arm}", form)


def test_only_what_was_chosen_has_a_place() -> None:
    """A system that is given without the ids of its devices says nothing of where it is."""
    text = HEAD + "system: {device: cpu, name: c}\n"
    with pytest.raises(
        SubmissionError, match="needs the id of one device, or the ids of those that are alike"
    ):
        read_submission_text(text, "x.yaml", Known())


@pytest.mark.parametrize("rest", ["serve: {device: gpu}\n", "sweep: {serve.device: [cpu, gpu]}\n"])
def test_another_device_beside_what_was_chosen_is_refused(rest: str) -> None:
    """The device of a system follows from it, and is never taken from elsewhere in silence."""
    text = f"{HEAD}system: {{device: cpu, name: Intel Xeon, alike: [a.cpu-0-1]}}\n{rest}"
    with pytest.raises(SubmissionError, match=r"x\.yaml:5: .*serve\.device: is not the device of system"):
        read_submission_text(text, "x.yaml", Known())
