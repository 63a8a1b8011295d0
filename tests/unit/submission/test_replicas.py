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
