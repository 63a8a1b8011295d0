"""Figures 7(c), 8(b), 12 and 13: what all of PerfDB says of them, and the paper's own submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.analysis.devices.costs import offers
from inferbench_tasks.analysis.devices.speedup import speedups
from inferbench_tasks.analysis.paper.claims import CLAIMS, Claim, judged
from inferbench_tasks.analysis.paper.compose import make_page
from inferbench_tasks.analysis.paper.evidence import Evidence
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.catalogue import CONFIG_DIR
from tests.report_page import charts_of
from tests.unit.analysis.builders import named, records, view
from tests.unit.analysis.devices.builders import CPU, T4, run


def _claim(figure: str, words: str = "") -> Claim:
    return next(claim for claim in CLAIMS if claim.figure == figure and words in claim.paper)


def test_a_gpu_is_faster_than_the_cpu_by_its_interval() -> None:
    """Four times is more than once: agrees; a third: differs; just as much: undecided; no GPU: not measured."""
    claim = _claim("7(c)")
    for per_s, kind in ((400.0, "agrees"), (33.0, "differs"), (101.0, "undecided")):
        found = speedups([run("cpu", CPU, 10.0, 100.0), run("gpu", T4, 5.0, per_s)])
        assert judged(claim, {}, Evidence(found)).kind == kind
    text = judged(
        claim, {}, Evidence(speedups([run("cpu", CPU, 10.0, 100.0), run("gpu", T4, 5.0, 400.0)]))
    ).text
    assert "m on Tesla T4, 4 cores: 4 times (3.36 to 4.76)" in text
    other = {**CPU, "cores": 8.0}
    only_cpus = speedups([run("a", CPU, 10.0, 100.0), run("b", other, 5.0, 300.0)], "AMD EPYC 7R32, 2 cores")
    assert judged(claim, {}, Evidence(only_cpus)).kind == "unmeasured"


def test_a_gpu_that_does_not_keep_the_latency_counts() -> None:
    """Beyond it: differs, though another is faster; possibly within: undecided; without rows the notes say why."""
    claim = _claim("7(c)")
    base, late = run("cpu", CPU, 10.0, 100.0), {**T4, "name": "late"}
    quick = run("gpu", T4, 5.0, 400.0)
    for latency_ms, kind in ((12.0, "differs"), (10.01, "undecided")):
        found = judged(claim, {}, Evidence(speedups([base, quick, run("late", late, latency_ms, 400.0)])))
        assert found.kind == kind and "late, 4 cores: " in found.text
    alone = judged(claim, {}, Evidence(speedups([run("cpu", CPU, 10.0, 100.0, users=8), quick])))
    assert alone.kind == "unmeasured" and "no run of one user with one sample" in alone.text


def test_a_gpu_that_was_never_asked_alone_contradicts_nothing() -> None:
    """In batches of 64 it takes 12 of 10 ms: not measured. Eight users within 10 ms get 60/s: what one would get nobody
    asked, undecided.
    """
    claim, base = _claim("7(c)"), run("cpu", CPU, 10.0, 100.0)
    late = judged(claim, {}, Evidence(speedups([base, run("gpu", T4, 12.0, 4000.0, batch=64)])))
    assert late.kind == "unmeasured" and "never asked one sample at a time" in late.text
    slow = judged(claim, {}, Evidence(speedups([base, run("gpu", T4, 5.0, 60.0, users=8)])))
    assert slow.kind == "undecided" and "never asked one sample at a time" in slow.text


def test_sentences_on_unlike_requests_are_told_apart() -> None:
    """One model and GPU over HTTP and gRPC."""
    documents = [run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 400.0)]
    others = [run("c", CPU, 10.0, 100.0), run("d", T4, 5.0, 800.0)]
    for each in others:
        each["load"]["protocol"] = "grpc"
    text = judged(_claim("7(c)"), {}, Evidence(speedups([*documents, *others]))).text
    assert "m, fp32, grpc on Tesla T4, 4 cores: 8 times" in text
    assert "m, fp32, http on Tesla T4, 4 cores: 4 times" in text


def test_providers_rates_are_those_of_a_measured_device() -> None:
    """A T4 has two providers in the catalogue, but nobody looked their rates up: undecided. A CPU has one."""
    claim = _claim("8(b)", "hourly rates")
    found = judged(claim, {}, Evidence(offers=offers([run("gpu", T4, 5.0, 100.0)])))
    assert found.kind == "undecided"
    assert "AWS 0.526 USD/h (unverified), Google Cloud 0.54 USD/h (unverified)" in found.text
    assert judged(claim, {}, Evidence(offers=offers([run("cpu", CPU, 5.0, 9.0)]))).kind == "unmeasured"


@pytest.mark.parametrize(("rate", "kind"), [(2.0, "agrees"), (1.0, "differs")])
def test_each_providers_cheapest_instance_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, kind: str
) -> None:
    """P has the T4 at 1 and at 3 USD/h: 1 counts against Q's; a rate of 0.1 that nobody looked up does not."""
    row = (
        "  - {provider: %s, instance: i%d, region: r, kind: gpu, device: T4, match: T4, usd_per_hour: %s, %s}"
    )
    dated = 'source: s, date: "2025"'
    rates = (
        ("P", 1.0, dated),
        ("P", 3.0, dated),
        ("Q", rate, dated),
        ("Q", 0.1, f"unverified: true, {dated}"),
    )
    lines = [row % (name, at, usd, more) for at, (name, usd, more) in enumerate(rates)]
    (tmp_path / "prices.yaml").write_text("\n".join(["rows:", *lines]))
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    found = judged(_claim("8(b)", "hourly rates"), {}, Evidence(offers=offers([run("gpu", T4, 5.0, 100.0)])))
    assert found.kind == kind and f"P 1 USD/h, Q {rate:g} USD/h" in found.text


def test_both_servers_of_figure_12_are_asked_each_its_own_sentence() -> None:
    """One user gets half with batching from our server; 8 users twice as much from Triton."""

    def batched(users: int, plain: float, merged: float, backend: str) -> list[RunView]:
        batching = {"max_batch_size": 16, "max_delay_ms": 1.0}
        job = {"load__arrivals": {"kind": "closed_loop", "concurrency": users}, "serve__backend": backend}
        return named(
            view(records(5.0, rate_rps=plain), "plain", job=job),
            view(records(5.0, rate_rps=merged), "merged", job={**job, "serve__batching": batching}),
        )

    ours = {"fig12-dynamic-batching": batched(1, 400.0, 200.0, "onnxruntime")}
    assert judged(_claim("12(a)"), ours).kind == "agrees"
    triton = {"fig12-triton": batched(8, 200.0, 400.0, "triton")}
    assert judged(_claim("12(b)", "8 users"), triton).kind == "agrees"
    assert judged(_claim("12(b)", "32 users"), triton).kind == "unmeasured"
    missing = judged(_claim("12(b)", "8 users"), {}, unavailable={"fig12-triton": "triton does not run here"})
    assert (missing.kind, missing.text) == ("unmeasured", "triton does not run here")


@pytest.mark.parametrize("server", ["TF-Serving", "Triton"])
def test_a_service_leaves_its_device_idle(server: str) -> None:
    """Of each server: 0.4 of two cores are 20%: agrees; 1.6 are 80%: differs; not run: not measured."""
    (claim,) = (one for one in CLAIMS if one.figure == "13(a)" and server in one.paper)
    model = {"kind": "canonical", "family": "transformer", "layers": 4, "hidden_size": 64}

    def service(cores: float) -> dict[str, list[RunView]]:
        run = view(records(5.0), "run", cpu_cores=cores, device=CPU, job={"model": model})
        return {claim.submissions[0]: named(run)}

    found = judged(claim, service(0.4))
    assert found.kind == "agrees" and "20% of the device is used" in found.text
    assert judged(claim, service(1.6)).kind == "differs"
    assert judged(claim, {}).kind == "unmeasured"


def test_the_page_draws_speed_ups_and_costs(tmp_path: Path) -> None:
    """Figure 7 has the bar of 4 times, Figure 8 the T4's instances."""
    documents = [run("cpu", CPU, 10.0, 100.0), run("gpu", T4, 5.0, 400.0)]
    path = tmp_path / "paper.html"
    words = make_page(path, {}, {}, Evidence(speedups(documents), offers(documents)))
    assert "1 agrees, 1 undecided" in words
    drawn = charts_of(path.read_text())
    assert any(trace["x"] == [4.0] for chart in drawn.values() for trace in chart["data"])
    assert any("g4dn.xlarge" in str(trace["y"]) for chart in drawn.values() for trace in chart["data"])
