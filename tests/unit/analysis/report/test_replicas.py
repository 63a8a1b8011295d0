"""Replicas in the report: which answered how much, on whose cores the balancer ran, and nothing of one server."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.devices.alike import thing_of
from inferbench_tasks.analysis.report.missing import missing
from inferbench_tasks.analysis.report.replicas import tables, words
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import sections
from tests.unit.analysis.builders import records, view


def two(apart: bool = True) -> RunView:
    resources = {
        "server": {"cpu_cores": {"mean": 1.5, "max": 2.0}, "rss_bytes": {"max": 2.0**28}},
        "balancer": {"cpu_cores": {"mean": 0.25}, "rss_bytes": {"max": 2.0**23}},
    }
    found = view(records(5.0), resources=resources)
    assert found.result is not None
    balancer: dict[str, Any] = {
        "kind": "nginx", "policy": "least_conn", "version": "1.22.1", "workers": 1, "core_numbers": [7], "apart": apart,
    }  # fmt: skip
    servers = [{"number": n, "device_id": f"h.cpu-{n}", "cores": [n], "samples": 100 * n} for n in (1, 2)]
    found.result.extensions["replicas"] = {"servers": servers, "balancer": balancer}
    each = {
        "devices": 2, "throughput_samples_per_s": 100.0, "share_ratio": 0.5,
        "replicas": [
            {"number": n, "device_id": f"h.cpu-{n}", "samples": 100 * n, "samples_ratio": n / 3, "cpu_cores": 0.75,
             "rss_bytes": 2.0**27}
            for n in (1, 2)
        ],
    }  # fmt: skip
    found.result.summary = found.result.summary.model_validate(
        {**found.result.summary.model_dump(), "per_device": each}
    )
    return found


def test_each_replica_and_the_balancer_have_a_row() -> None:
    """With their cores, samples and CPU."""
    (table,) = tables([two()])
    assert [row[1:] for row in table["rows"]] == [
        ["replica 1", "h.cpu-1", "1", "100", "33.3%", "0.75", "128"],
        ["replica 2", "h.cpu-2", "2", "200", "66.7%", "0.75", "128"],
        ["nginx", "of its own", "7", "–", "–", "0.25", "8"],
    ]


def test_a_sentence_says_what_a_device_gave_and_whose_cores_the_balancer_had() -> None:
    """That the load was uneven, too."""
    assert "100 samples/s for each of 2 devices" in words([two()])
    assert "the fewest samples had 50% of what" in words([two()])
    assert "ran on cores of its own" in words([two()])
    assert "the replicas' cores, which it took from them" in words([two(apart=False)])


def test_runs_of_one_server_have_no_such_section() -> None:
    """And those of several have it."""
    assert (tables([view(records(5.0))]), words([view(records(5.0))])) == ([], "")
    titles = [section.title for section in sections([two()])]
    assert "Replicas" in titles
    assert "Replicas" not in [section.title for section in sections([view(records(5.0))])]


def test_devices_side_by_side_are_single_ones() -> None:
    """Speed-ups and costs of a device are of runs on one: two of them are no faster device."""
    closed = {"kind": "closed_loop", "concurrency": 4}
    model = {"name": "digits", "digest": "d" * 64, "precision": "fp32"}
    found = {}
    for devices in (1, 2):
        job = {"load__arrivals": closed, "serve__devices": devices}
        result = view(records(5.0), job=job, model=model).result
        assert result is not None
        found[devices] = thing_of(result.model_dump(mode="json"))
    assert found[1] is not None and found[2] is None


def test_what_each_host_used_is_missing_only_where_it_is() -> None:
    """Of hosts with a replica each there is no machine whose CPU could be told: no note says that it was not measured;
    of a host that nobody watched there is one, with the reason."""
    server = {"cpu_cores": {"mean": 1.5, "max": 2.0}}
    used = {"cpu_busy_s_total": 3.0}
    reasons = {"unavailable": {"replica2_host": "its clock is not known"}}
    both = view(records(5.0), resources={"server": server, "replica1_host": used, "replica2_host": used})
    assert not [text for text in missing(both) if "machine" in text]
    lost = view(
        records(5.0),
        resources={"server": server, "replica1_host": used, "replica2_host": None, "monitor": reasons},
    )
    assert [text for text in missing(lost) if "machine" in text] == [
        "CPU of replica 2's machine: not measured (its clock is not known)."
    ]
    assert "CPU of the machine: not measured" in " ".join(missing(view(records(5.0))))


def noted(run: RunView, **figures: Any) -> list[str]:
    """What the report says is missing of a run with these figures beside its own."""
    assert run.result is not None
    summary = {**run.result.summary.model_dump(), **figures}
    return missing(view(records(5.0), summary=summary, extensions=run.result.extensions))


def test_waits_that_nobody_tells_of_several_hosts_have_their_reason() -> None:
    """As the ledger says it; in results of before it said none. A run on one host lacks nothing by having no hosts."""
    ledger = {
        "findings": [],
        "watched": True,
        "not_watched": [],
        "waits_ms": None,
        "hosts": {"replica 1": {}},
    }
    told = noted(two(), interference={**ledger, "waits_reason": "the reason"})
    assert "what a request waited for a core: not known (the reason)." in told
    (before,) = (text for text in noted(two(), interference=ledger) if "waited" in text)
    assert "on clocks of their own" in before
    alone = {name: value for name, value in ledger.items() if name != "hosts"}
    assert not [text for text in noted(two(), interference=alone) if "waited" in text]
    known = {**ledger, "waits_ms": {"99": 1.0}}
    assert not [text for text in noted(two(), interference=known) if "waited" in text]


def test_sums_that_lack_a_host_s_part_have_their_reason() -> None:
    """Though the parts of the other hosts are there; with the sums there nothing is missing."""
    why = "what the server of replica 2 (b) used is not known, and the others' is not the whole"
    monitor = {"unavailable": {"server": why}}
    parts = {"replica1_cpu_s_total": 3.0}
    lost = view(records(5.0), resources={"server": parts, "monitor": monitor})
    assert f"CPU and memory of the server: not measured ({why})." in missing(lost)
    whole = {**parts, "cpu_s_total": 5.0, "cpu_cores": {"mean": 0.5, "max": 0.6}}
    there = view(records(5.0), resources={"server": whole, "monitor": monitor})
    assert not [text for text in missing(there) if "memory of the server" in text]
