"""Speed-ups by hand: whose latency is the objective, who keeps it, and how far the ratio is known.

One run alone is taken to differ by 5% (``DRIFT_RATIO``) at 3 degrees of freedom. A ratio of two then has the error
sqrt(2) x 0.05 at 6 degrees: its 95% interval is the ratio times exp(+-2.4469 x 0.070711) = exp(+-0.17302).
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.analysis.devices import names
from inferbench_tasks.analysis.devices.alike import Device, in_order, thing_of
from inferbench_tasks.analysis.devices.speedup import Speedups, known_statistic, matching, speedups
from inferbench_tasks.errors import InputError
from tests.unit.analysis.devices.builders import CPU, T4, run

HALF = 2.446912 * math.hypot(0.05, 0.05)


def by_device(found: Speedups) -> dict[str, dict[str, Any]]:
    return {row["device"].split(",")[0]: row for row in found.rows}


def test_the_reference_latency_is_the_objective_of_all() -> None:
    """The CPU alone takes 10 ms for 100/s, with eight users 300/s in 30 ms: 10 ms binds. The T4 gives 400/s in 5 ms
    and 900/s in 20 ms: 400 counts, 4 times as much, from 3.364 to 4.756.
    """
    documents = [
        run("alone", CPU, 10.0, 100.0), run("eight", CPU, 30.0, 300.0, users=8),
        run("gpu-1", T4, 5.0, 400.0, batch=8), run("gpu-2", T4, 20.0, 900.0, batch=64),
    ]  # fmt: skip
    rows = by_device(speedups(documents))
    assert list(rows) == ["AMD EPYC 7R32", "Tesla T4"]
    cpu, gpu = rows["AMD EPYC 7R32"], rows["Tesla T4"]
    assert (cpu["speedup"], cpu["ci95"], cpu["run"]) == (1.0, None, "alone")
    assert gpu["bound_ms"] == cpu["bound_ms"] == 10.0
    assert (gpu["speedup"], gpu["run"], gpu["throughput_samples_per_s"]) == (4.0, "gpu-1", 400.0)
    assert gpu["ci95"] == pytest.approx([4 * math.exp(-HALF), 4 * math.exp(HALF)], rel=1e-5)
    assert gpu["ci95"] == pytest.approx([3.3645, 4.7556], rel=1e-4)


def test_a_configuration_close_to_the_objective_widens_the_interval() -> None:
    """800/s in 9.8 of 10 ms is kept with 61%; 700/s in 5 ms surely. The figure is 8, its interval begins below 7."""
    documents = [
        run("alone", CPU, 10.0, 100.0),
        run("close", T4, 9.8, 800.0, batch=8), run("safe", T4, 5.0, 700.0, batch=4),
    ]  # fmt: skip
    gpu = by_device(speedups(documents))["Tesla T4"]
    assert (gpu["speedup"], gpu["run"]) == (8.0, "close")
    assert gpu["keeps_slo_probability"] == pytest.approx(0.607, abs=0.002)
    assert gpu["ci95"] == pytest.approx([7 * math.exp(-HALF), 8 * math.exp(HALF)], rel=1e-5)


def test_one_just_beyond_the_objective_may_keep_it() -> None:
    """900/s in 10.2 ms is no figure, but the upper end stands on it."""
    documents = [
        run("alone", CPU, 10.0, 100.0),
        run("beyond", T4, 10.2, 900.0, batch=8), run("safe", T4, 5.0, 700.0, batch=4),
    ]  # fmt: skip
    gpu = by_device(speedups(documents))["Tesla T4"]
    assert (gpu["speedup"], gpu["run"]) == (7.0, "safe")
    assert gpu["ci95"] == pytest.approx([7 * math.exp(-HALF), 9 * math.exp(HALF)], rel=1e-5)


def test_a_tie_with_the_objective_keeps_it_and_is_not_sure() -> None:
    """Exactly 10 of 10 ms: within, with 50%; nothing else keeps it, so the interval begins at 0."""
    gpu = by_device(speedups([run("alone", CPU, 10.0, 100.0), run("tie", T4, 10.0, 800.0, batch=8)]))[
        "Tesla T4"
    ]
    assert (gpu["speedup"], gpu["keeps_slo_probability"]) == (8.0, 0.5)
    assert gpu["ci95"][0] == 0.0 and gpu["ci95"][1] == pytest.approx(8 * math.exp(HALF), rel=1e-5)


def test_of_equal_throughputs_the_quicker_counts() -> None:
    """Both give 400/s: the one in 4 ms, not that in 5 ms."""
    documents = [
        run("alone", CPU, 10.0, 100.0),
        run("slow", T4, 5.0, 400.0, batch=8), run("quick", T4, 4.0, 400.0, batch=4),
    ]  # fmt: skip
    assert by_device(speedups(documents))["Tesla T4"]["run"] == "quick"


def test_one_that_possibly_keeps_the_objective_has_no_figure_but_an_interval() -> None:
    """4,000/s in 10.01 of 10 ms is kept with 49%: no speed-up, and at most 40 times exp(0.173) = 47.556."""
    gpu = by_device(speedups([run("alone", CPU, 10.0, 100.0), run("late", T4, 10.01, 4000.0, batch=8)]))[
        "Tesla T4"
    ]
    assert gpu["speedup"] is None and gpu["run"] is None
    assert gpu["ci95"] == [0.0, pytest.approx(47.556, rel=1e-4)]
    assert gpu["keeps_slo_probability"] == pytest.approx(0.495, abs=0.001)
    assert gpu["reason"] == "possibly: 10.01 ms keep the bound of 10 ms with a probability of 49%"


def test_the_best_of_many_has_a_wider_interval() -> None:
    """Three that surely keep 10 ms with 110/s each: t(1 - 0.025/3, 6) = 3.287456, so 1.1 x exp(-0.232458) = 0.8718.
    One alone has 1.1 x exp(-0.173024) = 0.9252.
    """
    many = [run(f"g{batch}", T4, 5.0, 110.0, batch=batch) for batch in (2, 4, 8)]
    for own, low in ((many, 0.8718), (many[:1], 0.9252)):
        gpu = by_device(speedups([run("alone", CPU, 10.0, 100.0), *own]))["Tesla T4"]
        assert gpu["ci95"][0] == pytest.approx(low, abs=1e-4)
        assert gpu["ci95"][1] == pytest.approx(1.1 * math.exp(HALF), rel=1e-5)


def test_cores_of_a_reference_are_matched_exactly_and_each_part_by_itself() -> None:
    """``EPYC, 2 cores`` is the one with 2, not with 12 or with as many as nobody knows."""
    devices = [Device("cpu", "AMD EPYC 7R32", cores) for cores in (2.0, 12.0, None)]
    assert matching(devices, "EPYC, 2 cores") == [devices[0]]
    assert matching(devices, "12 cores") == [devices[1]]
    assert matching(devices, "epyc") == devices and matching(devices, " , ") == []


def test_devices_without_cores_and_with_are_in_order() -> None:
    """Of one name: unknown first, then 2 before 10."""
    devices = [Device("cpu", "c", 10.0), Device("cpu", "c", 2.0), Device("cpu", "c", None)]
    assert [one.cores for one in in_order(devices)] == [None, 2.0, 10.0]


def test_a_device_that_keeps_no_bound_says_so() -> None:
    """Its quickest takes 12 of 10 ms: no speed-up, and why."""
    gpu = by_device(speedups([run("alone", CPU, 10.0, 100.0), run("late", T4, 12.0, 800.0, batch=8)]))[
        "Tesla T4"
    ]
    assert gpu["speedup"] is None and gpu["ci95"] is None
    assert "none of its 1 configuration(s)" in gpu["reason"] and "12 ms" in gpu["reason"]


def test_any_device_can_be_the_reference() -> None:
    """By the T4's 4 ms the CPU, at 10 ms, keeps nothing; by its own name or kind it is the same."""
    documents = [
        run("alone", CPU, 10.0, 100.0), run("gpu", T4, 4.0, 250.0), run("many", T4, 3.9, 500.0, batch=8)
    ]  # fmt: skip
    for name in ("Tesla T4", "t4", "gpu", "tesla t4, 4 cores"):
        rows = by_device(speedups(documents, name))
        assert rows["Tesla T4"]["bound_ms"] == 4.0 and rows["Tesla T4"]["speedup"] == 1.0
        assert rows["AMD EPYC 7R32"]["speedup"] is None


def test_several_runs_are_one_configuration_and_narrow_it() -> None:
    """Three runs of 95, 100 and 105/s count as their mean, and the newest names them."""
    documents = [run("c", CPU, 10.0, 95.0), run("b", CPU, 11.0, 100.0), run("a", CPU, 9.0, 105.0),
                 run("gpu", T4, 5.0, 400.0, batch=8)]  # fmt: skip
    rows = by_device(speedups(documents))
    cpu, gpu = rows["AMD EPYC 7R32"], rows["Tesla T4"]
    assert (cpu["bound_ms"], cpu["throughput_samples_per_s"], cpu["runs"], cpu["run"]) == (
        10.0,
        100.0,
        3,
        "c",
    )
    assert gpu["speedup"] == pytest.approx(4.0)
    assert gpu["ci95"][1] - gpu["ci95"][0] < 4.7556 - 3.3645


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "invalid: late"},
        {"verdict": "disturbed: the hypervisor took 30%"},
        {"model": {"source_digest": "77" * 32}},
        {"model": {"precision": "int8"}},
        {"model": {"source_digest": None, "digest": None}},
        {"arrivals": {"kind": "poisson", "rate_rps": 50.0}},
        {"arrivals": {"kind": "closed_loop", "concurrency": 8, "think_time_ms": 5.0}},
        {"provenance": {"job": {"share": {"beside": ["x"]}}}},
        {"provenance": {"job": {"requests": {"sizes": [1]}}}},
    ],
)
def test_unlike_things_never_stand_beside_each_other(change: dict[str, Any]) -> None:
    """Not valid, another content, precision, load or request, a shared device: it lends the T4 nothing."""
    documents = [run("alone", CPU, 10.0, 100.0), run("gpu", T4, 5.0, 400.0, batch=8),
                 run("other", T4, 1.0, 9999.0, **change)]  # fmt: skip
    assert by_device(speedups(documents))["Tesla T4"]["speedup"] == 4.0


def test_results_from_before_cores_were_stored_are_of_a_device_of_their_own() -> None:
    """Without cores and with 2 they are two devices that can be told apart, by the whole name."""
    older = {**CPU, "cores": None}
    documents = [run("a", CPU, 10.0, 100.0), run("b", older, 5.0, 300.0)]
    assert "more than one device" in speedups(documents).notes[0]
    rows = speedups(documents, "AMD EPYC 7R32, 2 cores").rows
    assert [(row["device"], row["speedup"]) for row in rows] == [
        ("AMD EPYC 7R32, 2 cores", 1.0),
        ("AMD EPYC 7R32", 3.0),
    ]


def test_files_of_one_source_are_one_model() -> None:
    """The GPU's file has another digest: it was made of the same model."""
    documents = [run("alone", CPU, 10.0, 100.0), run("gpu", T4, 5.0, 400.0, model={"digest": "bb" * 32})]
    assert by_device(speedups(documents))["Tesla T4"]["speedup"] == 4.0


def test_what_cannot_be_compared_says_why() -> None:
    """No device alike at all is an error with what there is; two that match, one alone, no single user are notes."""
    other = {**CPU, "cores": 8.0}
    with pytest.raises(InputError, match="there are: AMD EPYC 7R32, 2 cores"):
        speedups([run("alone", CPU, 10.0, 100.0)], "v100")
    two = speedups([run("a", CPU, 10.0, 100.0), run("b", other, 10.0, 100.0)])
    assert two.rows == [] and "more than one device" in two.notes[0]
    named = speedups([run("a", CPU, 10.0, 100.0), run("b", other, 5.0, 300.0)], "AMD EPYC 7R32, 2 cores")
    assert [row["speedup"] for row in named.rows] == [1.0, 3.0]
    alone = speedups([run("a", CPU, 10.0, 100.0)])
    assert alone.rows == [] and "alone" in alone.notes[0]
    crowd = speedups([run("a", CPU, 10.0, 100.0, users=8), run("b", T4, 5.0, 100.0)])
    assert crowd.rows == [] and "no run of one user with one sample" in crowd.notes[0]
    without = speedups([run("a", CPU, None, 100.0), run("b", T4, 5.0, 100.0)])
    assert without.rows == [] and "has a p99" in without.notes[0]
    model = {"name": "n", "source_digest": "99" * 32}
    both = [run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 300.0)]
    elsewhere = speedups([*both, run("c", T4, 5.0, 9.0, model=model)])
    assert len(elsewhere.rows) == 2 and "no run on a device that matches 'cpu'" in elsewhere.notes[0]
    assert speedups([]) == Speedups([])


def test_one_statistic_is_used_for_all() -> None:
    """By the median (half of p99 here) the objective is 5 ms; what is no latency is refused with what is allowed."""
    documents = [run("alone", CPU, 10.0, 100.0), run("gpu", T4, 8.0, 400.0)]
    assert speedups(documents, statistic="p50_ms").rows[0]["bound_ms"] == 5.0
    assert known_statistic("p99") == "p99_ms"
    with pytest.raises(InputError, match="allowed: mean_ms, p50_ms"):
        known_statistic("throughput_rps")


def test_each_model_has_a_reference_of_its_own_where_none_is_named() -> None:
    """One was measured on the EPYC and the T4, another on two GPUs: each over its own first device that was asked one
    sample at a time, 4 and 2 times.
    """
    other, v100 = {"name": "n", "source_digest": "99" * 32}, {**T4, "name": "Tesla V100"}
    documents = [
        run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 400.0),
        run("c", T4, 5.0, 50.0, model=other), run("d", v100, 4.0, 100.0, model=other),
    ]  # fmt: skip
    found = speedups(documents, None)
    assert found.notes == []
    assert [(row["reference"], row["device"], row["speedup"]) for row in found.rows] == [
        ("AMD EPYC 7R32, 2 cores", "AMD EPYC 7R32, 2 cores", 1.0),
        ("AMD EPYC 7R32, 2 cores", "Tesla T4, 4 cores", 4.0),
        ("Tesla T4, 4 cores", "Tesla T4, 4 cores", 1.0),
        ("Tesla T4, 4 cores", "Tesla V100, 4 cores", 2.0),
    ]
    crowd = [run("a", CPU, 10.0, 100.0, users=8), run("b", T4, 5.0, 400.0, users=8)]
    assert "no run of one user with one sample at a time on any of" in speedups(crowd, None).notes[0]


def test_a_device_that_was_never_asked_alone_is_not_measured_within_the_bound() -> None:
    """In batches of 64 the T4 takes 12 of 10 ms: what one sample would take nobody knows. Asked alone, and too
    slow as well, it keeps nothing.
    """
    base, crowd = run("alone", CPU, 10.0, 100.0), run("crowd", T4, 12.0, 4000.0, batch=64)
    row = by_device(speedups([base, crowd]))["Tesla T4"]
    assert not row["asked_alone"] and row["speedup"] is None
    assert row["reason"].startswith("never asked one sample at a time, so not measured within the bound; ")
    row = by_device(speedups([base, crowd, run("one", T4, 12.0, 90.0)]))["Tesla T4"]
    assert row["asked_alone"] and row["reason"].startswith("none of its 2 configuration(s) keeps the bound")


def test_rows_say_how_their_devices_were_asked() -> None:
    """Over HTTP and gRPC: two groups of rows, never one, and each with its words."""
    documents = [run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 400.0)]
    others = [run("c", CPU, 8.0, 120.0), run("d", T4, 4.0, 600.0)]
    for each in others:
        each["load"]["protocol"] = "grpc"
    rows = speedups([*documents, *others]).rows
    assert [(row["protocol"], row["speedup"]) for row in rows] == [
        ("grpc", 1.0), ("grpc", 5.0), ("http", 1.0), ("http", 4.0),
    ]  # fmt: skip
    assert {row["asked"] for row in rows} == {"requests not recorded"}
    assert names.of_rows(rows[1::2]) == ["m, fp32, grpc", "m, fp32, http"]


def test_settings_as_usual_are_no_difference() -> None:
    """What a job dumps with every default, and what one names alone, are the same requests; another number is not."""

    def asked(**requests: Any) -> str:
        job: Any = {"provenance": {"job": {"requests": requests, "processors": None}}}
        thing = thing_of(run("x", CPU, 1.0, 1.0, **job))
        assert thing is not None
        return thing.asked

    assert asked(kind="dataset", samples=256, sizes=None) == asked(kind="dataset") == "dataset requests"
    assert asked(kind="random", samples=256, sizes=[{"name": "n", "size": 4}]) == (
        "random requests (sizes [{name: n, size: 4}])"
    )


def test_a_reference_of_its_own_has_the_latency_that_is_asked_for() -> None:
    """The CPU's run of one user has no p99 (too few requests), the first GPU's has: that GPU is the reference."""
    documents = [
        run("cpu", CPU, None, 100.0), run("gpu", T4, 4.0, 250.0),
        run("cpu-many", CPU, 30.0, 300.0, users=8),
    ]  # fmt: skip
    found = by_device(speedups(documents, reference=None))
    assert found["Tesla T4"]["reference"].startswith("Tesla T4") and found["Tesla T4"]["bound_ms"] == 4.0
    # Nor was the CPU measured one sample at a time: that run has no latency.
    assert found["AMD EPYC 7R32"]["asked_alone"] is False
    assert "never asked one sample at a time" in found["AMD EPYC 7R32"]["reason"]


def test_what_is_no_model_is_known_by_what_served_it() -> None:
    """A stand-in's words say so; a model whose own task reads like that is a model."""
    own = thing_of(run("a", CPU, 1.0, 1.0, model={"task": "chat (no model of mine)"}))
    stand_in = {**run("b", CPU, 1.0, 1.0), "backend": {"kind": "llm_stand_in"}}
    other = thing_of(stand_in)
    assert own is not None and other is not None
    assert own.no_model == "" and "chat" not in own.words
    assert own.columns["task"] == "chat (no model of mine)"
    assert other.no_model == "no model: a stand-in" and other.words.endswith(
        ", images (no model: a stand-in)"
    )
    assert other.columns["task"] == "images (no model: a stand-in)"


def test_another_version_of_the_server_is_said_beside_the_speed_up() -> None:
    """Twice as fast on another device by another version: nobody knows whose the factor is. The same version, or
    another server, which the configuration names, says nothing.
    """
    reference = run("c", CPU, 10.0, 100.0)
    for kind, version, words in (
        (
            "onnxruntime",
            "2",
            "onnxruntime 2, on the reference 1: what lies between the two may be the version's",
        ),
        ("onnxruntime", "1", None),
        ("openvino", "2", None),
    ):
        other = run("g", T4, 5.0, 200.0)
        other["backend"] |= {"kind": kind, "version": version}
        base, gpu = speedups([reference, other]).rows
        assert (
            gpu["speedup"] == pytest.approx(2)
            and gpu["other_version"] == words
            and base["other_version"] is None
        )
