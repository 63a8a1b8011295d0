"""``serve.devices``: what several replicas can't go with is refused before anything starts; one changes no digest."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec, serving_only
from inferbench_tasks.submission.sweep import Job, expand
from tests.unit.submission.test_check import CHAT, TFS, spec

TWO = {"devices": 2}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (
        {},
        {"serve": {"backend": "mlserver"}},
        "serve.backend",
        "mlserver tells beside its answers is of one server",
    ),
    ({"protocol": "grpc"}, TFS, "serve.backend", "tfs_protocol tells beside"),
    ({}, {"serve": {"device": "gpu"}}, "serve.device", "only one GPU is watched"),
    ({}, {"serve": {"launcher": "container"}}, "serve.launcher", "use launcher: process"),
    ({"from": "other_host"}, {}, "load.from", "use from: server_host"),
    ({"transport": "shared_memory"}, {}, "load.transport", "hands on requests, no memory"),
    ({}, {"evaluate": {}}, "evaluate", "asks one server"),
    ({}, {"trace": {}}, "trace", "asks one server"),
    ({"protocol": "openai"}, CHAT, "load.protocol", "streams of tokens"),
]
TEXT = (
    "name: a\nmodel: {kind: zoo, name: digits}\nserve:\n  devices: 2\n"
    "load:\n  arrivals: {kind: poisson, rate_rps: 50}\n"
)


def asked(load: dict[str, Any], more: dict[str, Any], serve: dict[str, Any]) -> Any:
    return spec(load, **{**more, "serve": {**more.get("serve", {}), **serve}})


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_our_own_servers_can_be_several(backend: str, protocol: str) -> None:
    """Over both protocols of KServe, by either policy."""
    formats = {"onnxruntime": "onnx", "openvino": "openvino"}
    for policy in ("least_conn", "round_robin"):
        serve = {"backend": backend, **TWO, "balancer": {"policy": policy}}
        job = spec({"protocol": protocol}, serve=serve, convert={"format": formats[backend]})
        assert not INSTALLED.findings(job)


@pytest.mark.parametrize(("load", "more", "field", "words"), REFUSED)
def test_what_they_cannot_go_with_is_refused(
    load: dict[str, Any], more: dict[str, Any], field: str, words: str
) -> None:
    """With the other field and a remedy; of one device the same is not refused for this."""
    of_devices = [f for f in INSTALLED.findings(asked(load, more, TWO)) if f.fields[0] == "serve.devices"]
    assert [(f.fields[1], words in f.message, "devices: 1" in f.message) for f in of_devices] == [
        (field, True, True)
    ]
    assert all(f.fields[0] != "serve.devices" for f in INSTALLED.findings(spec(load, **more)))


def test_a_balancer_needs_several() -> None:
    """Before one server there is none, whatever is asked of it."""
    (finding,) = INSTALLED.findings(spec(serve={"balancer": {"policy": "round_robin"}}))
    assert finding.fields == ("serve.balancer", "serve.devices") and "devices: 2" in finding.message


def swept(devices: str, *more: str) -> str:
    balancer = "serve:\n  balancer: {policy: round_robin}\n"
    return "\n".join(
        [TEXT.replace("serve:\n  devices: 2\n", balancer) + f"sweep:\n  serve.devices: {devices}", *more]
    )


def jobs(text: str) -> list[Job[JobSpec]]:
    return expand(serving_only(read_submission_text(text, "x.yaml", INSTALLED), "a test"))


def test_of_a_sweep_the_point_of_one_device_has_no_balancer() -> None:
    """It is the job that a submission of one device asks for; the others have what the block says."""
    one, *several = jobs(swept("[1, 2, 3]"))
    (plain,) = jobs(TEXT.replace("devices: 2", "devices: 1"))
    assert one.digest == plain.digest and one.spec.serve.balancer is None
    assert [each.spec.serve.balancer and each.spec.serve.balancer.policy for each in several] == [
        "round_robin"
    ] * 2
    assert len({each.digest for each in (one, *several)}) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            TEXT.replace("devices: 2", "devices: 1\n  balancer: {policy: round_robin}"),
            "one server has no balancer",
        ),
        # What is swept is to differ, and policies before one server do not.
        (
            swept("[1, 2]", "  serve.balancer.policy: [least_conn, round_robin]"),
            "jobs 1 and 2 of the sweep are the same",
        ),
    ],
)
def test_a_block_that_nothing_has_is_refused(text: str, words: str) -> None:
    """Where no sweep makes several devices of one, and where its values would be of one server."""
    with pytest.raises(SubmissionError, match=words):
        read_submission_text(text, "x.yaml", INSTALLED)


def test_a_refusal_names_the_line() -> None:
    """Of the submission's text; so do too many."""
    with pytest.raises(SubmissionError, match=r"x\.yaml:4.*serve\.devices|serve\.devices.*x\.yaml:4"):
        read_submission_text(TEXT + "  transport: shared_memory\n", "x.yaml", INSTALLED)
    with pytest.raises(SubmissionError, match=r"serve\.devices.*from 1 to 8; got 9"):
        read_submission_text(TEXT.replace("devices: 2", "devices: 9"), "x.yaml", INSTALLED)


def test_one_device_is_the_default_and_no_part_of_a_digest() -> None:
    """Jobs of before keep theirs; each number of devices and each policy is another job."""
    assert job_digest(spec()) == job_digest(spec(serve={"devices": 1, "balancer": None}))
    several = [
        spec(), *(spec(serve={"devices": n}) for n in (2, 3)),
        spec(serve={**TWO, "balancer": {"policy": "round_robin"}}),
    ]  # fmt: skip
    assert len({job_digest(job) for job in several}) == 4


def test_the_job_asks_for_its_devices() -> None:
    """Of the scheduler, by the field that messages name; its length has a start for each."""
    job = spec(serve=TWO)
    assert (job.needed_devices(), job.devices_field, spec().needed_devices()) == (2, "serve.devices", 1)
    assert pipeline_of(job).expected_s(job) > pipeline_of(job).expected_s(spec())


def test_nights_run_on_one_device() -> None:
    """Said by the command, with the field."""
    submission = read_submission_text(TEXT, "x.yaml", INSTALLED)
    with pytest.raises(InputError, match="a night runs on one device; use devices: 1") as raised:
        SERVING.for_nights(submission, "a night")  # type: ignore[arg-type]
    assert raised.value.field == "serve.devices"


OWN = {"devices": 2, "spread": "own_hosts"}
#: What only replicas on hosts of their own can't go with.
NOT_APART: list[tuple[dict[str, Any], str, str]] = [
    ({"client": "reference"}, "load.client", "sends the server's secret"),
    ({"engine": "mlperf_loadgen"}, "load.engine", "without the server's secret"),
    ({"network": "wifi"}, "load.network", "is a real one"),
    ({"arrivals": {"kind": "max_rate"}}, "load.arrivals", "does not search over several hosts"),
]


def test_on_hosts_of_their_own_each_replica_is_a_stage_of_another_host() -> None:
    """The job's own device is one; it holds one of each other host, and of those that it names alone."""
    job = spec(serve={"devices": 3, "spread": "own_hosts"}, on_devices=["a.0", "b.0", "c.0"])
    assert not INSTALLED.findings(job)
    assert (job.needed_devices(), job.n_elsewhere(), job.stages_elsewhere()) == (
        1,
        2,
        ("replica", "replica_2"),
    )
    assert job.hosts_elsewhere() == {"replica": 1, "replica_2": 2}
    assert (job.elsewhere_by(), job.chosen_elsewhere()) == ("serve.spread", True)
    assert job.needed_ability() == "nginx over http"
    together = spec(serve={"devices": 3})
    assert together.stages_elsewhere() == () and not together.chosen_elsewhere()
    away = spec({"from": "other_host"})
    assert (away.elsewhere_by(), away.chosen_elsewhere()) == ("load.from", False)


@pytest.mark.parametrize(("load", "field", "words"), NOT_APART)
def test_what_hosts_of_their_own_cannot_go_with_is_refused(
    load: dict[str, Any], field: str, words: str
) -> None:
    """With the other field and the remedy; on one host the same is not refused for this."""
    found = [f for f in INSTALLED.findings(spec(load, serve=OWN)) if f.fields[0] == "serve.spread"]
    assert [(f.fields[1], words in f.message, "or spread: one_host" in f.message) for f in found] == [
        (field, True, True)
    ]
    assert all(f.fields[0] != "serve.spread" for f in INSTALLED.findings(spec(load, serve=TWO)))


@pytest.mark.parametrize(("load", "more", "field", "words"), REFUSED)
def test_what_replicas_cannot_go_with_they_cannot_on_any_hosts(
    load: dict[str, Any], more: dict[str, Any], field: str, words: str
) -> None:
    """A load from a third host, containers, GPUs, language models and so on are refused as on one host."""
    found = [f for f in INSTALLED.findings(asked(load, more, OWN)) if f.fields == ("serve.devices", field)]
    assert len(found) == 1 and words in found[0].message


def test_one_server_has_no_hosts_of_its_own() -> None:
    """Said with both fields; where devices are swept, their point of one is the job that it is without."""
    (finding,) = INSTALLED.findings(spec(serve={"spread": "own_hosts"}))
    assert finding.fields == ("serve.spread", "serve.devices") and "devices: 2" in finding.message
    text = TEXT.replace("devices: 2", "spread: own_hosts") + "sweep:\n  serve.devices: [1, 2]\n"
    one, two = jobs(text)
    (plain,) = jobs(TEXT.replace("devices: 2", "devices: 1"))
    assert one.digest == plain.digest and two.spec.serve.apart


def test_where_they_stand_is_part_of_what_is_measured() -> None:
    """Swept, they are two jobs; one host is no part of a digest, so that jobs of before keep theirs."""
    here, apart = jobs(TEXT + "sweep:\n  serve.spread: [one_host, own_hosts]\n")
    assert here.digest == job_digest(spec(serve=TWO)) == job_digest(spec(serve={**TWO, "spread": "one_host"}))
    assert apart.digest == job_digest(spec(serve=OWN)) != here.digest


def test_nights_run_on_one_device_of_any_host() -> None:
    """Said by the devices, not by a load that comes from nowhere else."""
    submission = read_submission_text(TEXT + "  # of\nuser: x\n", "x.yaml", INSTALLED)
    apart = read_submission_text(
        TEXT.replace("devices: 2", "devices: 2\n  spread: own_hosts"), "x.yaml", INSTALLED
    )
    for each in (submission, apart):
        with pytest.raises(InputError, match="a night runs on one device; use devices: 1"):
            SERVING.for_nights(each, "a night")  # type: ignore[arg-type]
