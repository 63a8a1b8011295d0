"""``load.from: other_host``: what it can't go with, and that nothing changes where it does not stand."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.cluster_abilities import ClusterAbilities
from inferbench_tasks.stages import load
from inferbench_tasks.submission.away import away_findings
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import expand

TEXT = """\
name: x
model: {kind: zoo, name: digits}
serve: {backend: %(backend)s, launcher: %(launcher)s}
load:
  arrivals: %(arrivals)s
  from: %(from)s
%(more)s"""


def text(**more: str) -> str:
    values = {
        "backend": "onnxruntime", "launcher": "process", "arrivals": "{kind: poisson, rate_rps: 10}",
        "from": "other_host", "more": "", **more,
    }  # fmt: skip
    return TEXT % values


def said(**more: str) -> str:
    with pytest.raises(SubmissionError) as refused:
        read_submission_text(text(**more), "x.yaml", INSTALLED)
    return str(refused.value)


def is_away(spec: JobBase) -> bool:
    assert isinstance(spec, JobSpec)
    return spec.traffic.away


def test_the_load_runs_on_the_other_host() -> None:
    """And nothing else of it."""
    nodes = compile_plan(read_submission_text(text(), "x.yaml", INSTALLED)).nodes
    assert [node.stage for node in nodes if node.elsewhere] == ["load"]
    assert [node.stage for node in nodes if node.apart and node.lease] == [
        "serve",
        "load",
        "collect",
        "release",
    ]


def test_it_goes_over_grpc_too() -> None:
    """The secret is in the metadata; streams of tokens have no place for it."""
    (one,) = expand(read_submission_text(text(more="  protocol: grpc\n"), "x.yaml", INSTALLED))
    assert is_away(one.spec)
    assert isinstance(one.spec, JobSpec) and one.spec.load is not None
    streams = one.spec.load.model_copy(update={"protocol": "openai"})
    findings = list(
        away_findings(one.spec.model_copy(update={"load": streams}), BACKENDS.load("onnxruntime"))
    )
    assert len(findings) == 1 and "goes with http and grpc so far" in findings[0].message


def test_a_load_of_the_server_s_own_host_is_what_it_was() -> None:
    """Named or not: the same digest and no stage elsewhere; from another host it is another job."""
    (plain,) = expand(read_submission_text(text().replace("  from: other_host\n", ""), "x.yaml", INSTALLED))
    (named,) = expand(read_submission_text(text(**{"from": "server_host"}), "x.yaml", INSTALLED))
    (away,) = expand(read_submission_text(text(), "x.yaml", INSTALLED))
    assert job_digest(plain.spec) == job_digest(named.spec) != job_digest(away.spec)
    assert plain.spec.stages_elsewhere() == () and not is_away(plain.spec)
    assert away.spec.model_dump(mode="json")["load"]["from"] == "other_host"


def test_it_is_swept() -> None:
    """Both places beside each other."""
    jobs = expand(
        read_submission_text(
            text(more="sweep: {load.from: [server_host, other_host]}\n"), "x.yaml", INSTALLED
        )
    )
    assert [is_away(job.spec) for job in jobs] == [False, True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backend": "torchserve"}, "would answer whoever reaches its port"),
        ({"launcher": "container"}, "use launcher: process"),
        ({"more": "  client: reference\n"}, "use fast"),
        ({"more": "  network: wifi\n"}, "use lan"),
        ({"more": "  transport: shared_memory\n"}, "two hosts share no memory"),
        ({"arrivals": "{kind: max_rate}", "more": "slo: {p99_ms: 20}\n"}, "max_rate does not search"),
        ({"more": "trace: {}\n"}, "trace requests of the load with trace.one_in, leave trace out"),
    ],
)  # fmt: skip
def test_what_it_can_not_go_with_is_named_with_what_to_do(change: dict[str, Any], words: str) -> None:
    """At its line, with the way out."""
    message = said(**change)
    assert "load.from" in message and words in message and "or from: server_host" in message


TWO, THREE = "  client_hosts: 2\n", "  client_hosts: 3\n"


def test_two_hosts_share_a_load() -> None:
    """One waits, the other leads; the job holds a device of each, and is another than one of a single sender."""
    shared = read_submission_text(text(more=TWO), "x.yaml", INSTALLED)
    nodes = compile_plan(shared).nodes
    assert [(node.stage, node.elsewhere) for node in nodes if node.elsewhere] == [("standby", 2), ("load", 1)]
    (one,), (alone,) = (
        expand(read_submission_text(text(more=more), "x.yaml", INSTALLED)) for more in (TWO, "")
    )
    (said_so,) = expand(read_submission_text(text(more="  client_hosts: 1\n"), "x.yaml", INSTALLED))
    assert (one.spec.n_elsewhere(), alone.spec.n_elsewhere()) == (2, 1)
    assert job_digest(one.spec) != job_digest(alone.spec) == job_digest(said_so.spec)
    by_one = compile_plan(read_submission_text(text(), "x.yaml", INSTALLED))
    assert "standby" not in [node.stage for node in by_one.nodes]


def test_as_many_wait_as_share_the_load_with_the_first_host() -> None:
    """Each on a host of its own, told its number, one after the other; the load has all that they hand on."""
    for hosts in (3, 8):
        shared = read_submission_text(text(more=f"  client_hosts: {hosts}\n"), "x.yaml", INSTALLED)
        nodes = {node.stage: node for node in compile_plan(shared).nodes}
        names = ["standby", *(f"standby_{number}" for number in range(2, hosts))]
        assert [name for name in nodes if name.startswith("standby")] == names
        assert [nodes[name].elsewhere for name in (*names, "load")] == [*range(2, hosts + 1), 1]
        assert [nodes[name].input["number"] for name in names] == [*range(1, hosts)]
        assert "number" not in nodes["load"].input
        assert nodes["load"].needs == {
            name: f"job-000.{name}" for name in ("generate", "serve", *names)
        } and nodes["standby_2"].needs == {
            name: f"job-000.{name}" for name in ("generate", "serve", "standby")
        }
        assert {*names} <= {*load.Input.model_fields}
        (job,) = expand(shared)
        assert job.spec.n_elsewhere() == hosts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"from": "server_host"}, "share a load that comes from other hosts than the server's; use from: other_host"),
        ({"more": TWO + "  shards: 3\n"}, "3 senders can't be shared evenly by 2 hosts; use shards: 4, auto"),
        ({"arrivals": "{kind: closed_loop, concurrency: 1}"}, "1 user can't ask from 2 hosts; have 2 at least"),
        ({"arrivals": "{kind: offline, requests: 100}"}, "hands all requests over at one instant"),
        ({"more": TWO + "  connections: 1\n"}, "2 hosts need a connection each; allow 2 or more"),
        ({"more": TWO + "trace: {one_in: 20}\n"}, "requests that 2 hosts share are not traced yet"),
        ({"more": THREE + "  shards: 4\n"}, "4 senders can't be shared evenly by 3 hosts; use shards: 6, auto"),
        (
            {"more": THREE, "arrivals": "{kind: closed_loop, concurrency: 2}"},
            "2 users can't ask from 3 hosts; have 3 at least",
        ),
    ],
)  # fmt: skip
def test_what_can_not_be_shared_is_named_with_what_to_do(change: dict[str, Any], words: str) -> None:
    """At its line; the way out is one host."""
    message = said(**{"more": TWO, **change})
    assert "load.client_hosts" in message and words in message and "client_hosts: 1" in message


def test_more_hosts_than_eight_are_no_number_of_hosts() -> None:
    """Nor none; the bound is named."""
    for number in (0, 9):
        message = said(more=f"  client_hosts: {number}\n")
        assert "load.client_hosts" in message and "from 1 to 8" in message, message


def test_too_few_hosts_for_it_are_named() -> None:
    """With those there are, and how to have more."""
    devices = [
        Device.model_validate(
            {"device_id": name, "device_type": "cpu", "name": "c", "host": name, "home": name * 32}
        )
        for name in "ab"
    ]
    cluster = ClusterAbilities(lambda: devices)
    with pytest.raises(SubmissionError) as refused:
        read_submission_text(text(more=TWO), "x.yaml", cluster)
    assert "one of type cpu of each of 2 other hosts; hosts with a worker: a, b. Have one join" in str(
        refused.value
    )
    assert read_submission_text(text(), "x.yaml", cluster).name == "x"


def test_nights_run_on_one_host() -> None:
    """Of a sweep as soon as one of its jobs would not; said before anything starts."""
    for more in ("", "sweep: {load.from: [server_host, other_host]}\n"):
        asked = read_submission_text(text(more=more), "x.yaml", INSTALLED)
        with pytest.raises(InputError, match="a night runs on one host; use from: server_host"):
            SERVING.for_nights(asked, "a night")  # type: ignore[arg-type]


def test_a_host_is_named() -> None:
    """Of another host as any; the name is part of the job, for another link is another load. What is no name is refused
    with what there is."""
    (one,) = expand(read_submission_text(text(**{"from": "loader-2"}), "x.yaml", INSTALLED))
    (any_,) = expand(read_submission_text(text(), "x.yaml", INSTALLED))
    assert is_away(one.spec) and one.spec.stages_elsewhere() == ("load",)
    assert one.spec.named_elsewhere() == "loader-2" and any_.spec.named_elsewhere() == ""
    assert job_digest(one.spec) != job_digest(any_.spec)
    (here,) = expand(read_submission_text(text(**{"from": "server_host"}), "x.yaml", INSTALLED))
    assert here.spec.named_elsewhere() == "" and not is_away(here.spec)
    message = said(**{"from": "a host"})
    assert "load.from" in message and "server_host" in message and "other_host" in message
