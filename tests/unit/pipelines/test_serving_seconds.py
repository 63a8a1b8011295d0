"""How long a job of serving is foretold to take."""

from __future__ import annotations

import pytest

from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.networks.links.measure import QUESTIONS_S, STREAM_S
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.pipelines.serving_seconds import ALONE_S, SERVER_S, TASK_S
from inferbench_tasks.stages.senders import listener
from inferbench_tasks.stages.spread import balance
from inferbench_tasks.submission.schema import READY_TIMEOUT_S, JobSpec

JOB = {
    "name": "x",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}, "duration_s": 5},
}


@pytest.mark.parametrize(
    ("deepest", "levels"), [("model", 2), ("framework", 3), ("layer", 4), ("library", 5), (None, 4)]
)
def test_a_trace_takes_a_server_for_each_level_that_it_has(deepest: str | None, levels: int) -> None:
    """Application comes first; of two rounds and ten requests, each asked once to warm up."""
    trace = {"rounds": 2, "requests": 10, **({"deepest": deepest} if deepest else {})}
    spec, plain = JobSpec.model_validate(JOB | {"trace": trace}), JobSpec.model_validate(JOB)
    more_s = SERVING.expected_s(spec) - SERVING.expected_s(plain)
    assert more_s == pytest.approx(2 * levels * (SERVER_S + 2 * 10 * ALONE_S))


@pytest.mark.parametrize(("devices", "further"), [(2, 1), (8, 7)])
def test_a_replica_on_a_host_of_its_own_takes_what_happens_there(devices: int, further: int) -> None:
    """A task with a server's start, and the link twice: at most 5 s of questions and a second of stream each way. One
    task more starts what stands before them all; on one host it is the servers' starts alone.
    """
    serve = {"devices": devices, "spread": "own_hosts"}
    spec, plain = JobSpec.model_validate(JOB | {"serve": serve}), JobSpec.model_validate(JOB)
    link_s = QUESTIONS_S + 2 * STREAM_S
    more_s = SERVING.expected_s(spec) - SERVING.expected_s(plain)
    assert more_s == pytest.approx(TASK_S + further * (TASK_S + SERVER_S + 2 * link_s))
    together = JobSpec.model_validate(JOB | {"serve": {"devices": devices}})
    assert SERVING.expected_s(together) - SERVING.expected_s(plain) == pytest.approx(further * SERVER_S)


@pytest.mark.parametrize(("given", "server_s"), [({}, READY_TIMEOUT_S), ({"ready_timeout_s": 300}, 300.0)])
def test_starts_on_several_hosts_may_take_what_each_has_for_itself(
    given: dict[str, float], server_s: float
) -> None:
    """Of three hosts a server's start on each, what listens and is reached on two, and nginx; of three devices of one
    host the servers and nginx.
    """
    apart = {"devices": 3, "spread": "own_hosts", **given}
    spec = JobSpec.model_validate(JOB | {"serve": apart})
    each_s = listener.START_S + balance.REACHED_S
    servers_s = 3 * server_s + nginx_balancer.READY_S
    assert SERVING.starts_s(spec) == pytest.approx(servers_s + 2 * each_s)
    assert SERVING.starts_s(JobSpec.model_validate(JOB | {"serve": {"devices": 3, **given}})) == servers_s


@pytest.mark.parametrize(
    ("blocks", "seconds"),
    [
        ({}, READY_TIMEOUT_S),
        ({"serve": {"backend": "vllm"}}, 600.0),
        ({"serve": {"backend": "vllm", "ready_timeout_s": 900}}, 900.0),
        ({"serve": {"backend": "of-another-package"}}, READY_TIMEOUT_S),
        ({"trace": {"rounds": 3, "deepest": "framework"}}, (1 + 3 * 3) * READY_TIMEOUT_S),
        ({"trace": {"rounds": 3, "one_in": 10}}, (1 + 3 * 2) * READY_TIMEOUT_S),
        (
            {
                "share": {
                    "beside": [
                        {"model": JOB["model"]},
                        {"model": JOB["model"], "serve": {"ready_timeout_s": 300}},
                    ]
                }
            },
            2 * READY_TIMEOUT_S + 300,
        ),
    ],
)
def test_each_server_of_a_host_may_take_what_its_backend_has_or_the_job_says(
    blocks: dict[str, object], seconds: float
) -> None:
    """Those of traces and of neighbours as well; of a backend that only workers know the usual time."""
    assert SERVING.starts_s(JobSpec.model_validate(JOB | blocks)) == pytest.approx(seconds)
