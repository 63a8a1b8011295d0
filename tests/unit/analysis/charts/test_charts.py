"""Charts whose numbers can be checked by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from inferbench_tasks.analysis import ceilings
from inferbench_tasks.analysis.ceilings import (
    Ceilings,
    last_level_cache_bytes,
    measured_ceilings,
    triad_array_bytes,
)
from inferbench_tasks.analysis.charts.density import log_kde
from inferbench_tasks.analysis.charts.grid import axes_of, fold
from inferbench_tasks.analysis.charts.heatmap import heat_maps
from inferbench_tasks.analysis.charts.latency import cdf
from inferbench_tasks.analysis.charts.roofline import not_drawn, rooflines
from inferbench_tasks.analysis.charts.stages import cold_start, pipeline
from inferbench_tasks.analysis.charts.tradeoffs import latency_throughput, pareto_front, pareto_table
from inferbench_tasks.analysis.charts.traffic import traffic
from inferbench_tasks.analysis.intensity import position
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.catalogue import Hardware
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.builders import named, records, view

SPANS = ("preprocess", "queue", "inference", "postprocess")


def grid(*, broken: str = "valid") -> list[RunView]:
    """3 batch sizes x 2 numbers of threads; the last one with another verdict if asked."""
    views = [
        view(
            records(4.0 + batch + threads, batch_size=batch),
            f"r.{index:03d}",
            broken if index == 5 else "valid",
            job={"load__batch_size": batch, "serve": {"threads": threads}},
        )
        for index, (batch, threads) in enumerate((b, t) for b in (1, 2, 4) for t in (1, 2))
    ]
    return named(*views)


def test_a_grid_becomes_a_heat_map_with_each_run_in_its_place() -> None:
    """Rows and columns are the swept values in order; each cell is that run's figure."""
    views = grid()
    assert [axis.title for axis in axes_of(views)] == ["batch_size", "threads"]
    plot = heat_maps(views)[0]
    go.Figure(plot)
    cells = plot["data"][0]
    assert (cells["x"], cells["y"]) == (["1", "2", "4"], ["1", "2"])
    p99 = {
        (v.job["load"]["batch_size"], v.job["serve"]["threads"]): v.figure("e2e_latency_ms.p99")
        for v in views
    }
    assert cells["z"] == [[p99[b, t] for b in (1, 2, 4)] for t in (1, 2)]


def test_a_run_that_is_not_valid_leaves_its_cell_empty_and_says_so() -> None:
    """No figure of an invalid run is in a heat map; its verdict stands there."""
    cells = heat_maps(grid(broken="invalid: the client stalled"))[0]["data"][0]
    assert cells["z"][1][2] is None
    assert cells["text"][1][2] == "invalid"


def test_a_request_that_failed_was_never_answered_within_any_time() -> None:
    """16 of 1,600 requests failed: the curve ends at 99%, below which an objective's p99.5 would lie."""
    curve = cdf(named(view(records(5.0, failed=16))), {})
    assert curve is not None
    assert curve["data"][0]["y"][-1] == pytest.approx(0.99)


def test_a_curve_of_withheld_latencies_says_so() -> None:
    """The distribution of a load whose latencies depend on its length is marked where it is drawn."""
    certificate = {
        "valid": True, "reasons": [], "warnings": [], "checks": [],
        "withheld": {"e2e_latency_ms": {"p99": "the backlog grew"}},
    }  # fmt: skip
    curve = cdf(named(view(records(5.0), certificate=certificate)), {})
    assert curve is not None and curve["data"][0]["name"].endswith("(p99 withheld)")


def test_a_sweep_that_is_no_grid_has_no_heat_map() -> None:
    """Parameters that moved together are not a map of both."""
    pairs = named(
        *(
            view(records(5.0), f"r.{n}", job={"load__batch_size": n, "serve": {"threads": n}})
            for n in (1, 2, 3)
        )
    )
    assert heat_maps(pairs) == []


def test_a_sweep_of_four_axes_is_folded_into_one_map() -> None:
    """2 models x 2 formats with their backends x 3 batch sizes x 2 networks: 24 runs, each in its own cell."""
    models: list[dict[str, Any]] = [{"kind": "zoo", "name": "digits"}, {"kind": "canonical", "family": "mlp"}]
    pairs = [("onnx", "onnxruntime"), ("openvino", "openvino")]
    views = named(
        *(
            view(
                records(1.0 + index, noise=0, rate_rps=20),
                f"r.{index:03}",
                job={"model": model, "convert__format": form, "serve__backend": backend,
                     "load__batch_size": batch, "load__network": network},
            )
            for index, (model, (form, backend), batch, network) in enumerate(
                itertools.product(models, pairs, (1, 4, 16), ("lan", "wifi"))
            )
        )
    )  # fmt: skip
    assert views[0].label == "model digits, backend onnxruntime, batch_size 1, network lan"
    axes = axes_of(views)
    assert {axis.labels for axis in axes} == {
        ("1", "4", "16"),
        ("lan", "wifi"),
        ("onnxruntime", "openvino"),
        ("digits", "mlp"),
    }
    assert {axis.title for axis in axes} == {"model", "backend", "batch_size", "network"}
    across, down = fold(axes)
    assert len(across.labels) * len(down.labels) == 24
    plot = {figure["layout"]["title"]["text"]: figure["data"][0] for figure in heat_maps(views)}
    cells = plot["Median latency"]
    for run, x, y in zip(views, across.place, down.place, strict=True):
        assert cells["z"][y][x] == run.figure("e2e_latency_ms.p50")
        words = f"{across.labels[x]} {down.labels[y]}".split()
        assert str(run.job["load"]["batch_size"]) in words and run.job["load"]["network"] in words
        assert run.job["serve"]["backend"] in words and (run.job["model"].get("name") or "mlp") in words


def test_the_pareto_front_holds_what_nothing_beats_in_everything() -> None:
    """(2, 2) is beaten by (1, 2), the others by none; equal points both stay."""
    assert pareto_front([(1.0, 2.0), (2.0, 1.0), (2.0, 2.0), (1.0, 2.0)]) == {0, 1, 3}
    assert pareto_table(grid()) and latency_throughput(grid(), {"p99": 20.0}) is not None


def test_a_point_whose_rate_was_not_steady_is_a_diamond() -> None:
    """With the reason in its hover text, in the legend what it means, and in the table beside the number; the others
    stay circles.
    """
    why = "not steady: the throughput drifts by -22% over the load"
    moved = {"figures": {"steady_state": why, "throughput_change_ratio": -0.22}}
    runs = named(
        view(records(4.0), "r.0", job={"serve": {"threads": 1}}, certificate=moved),
        view(records(5.0), "r.1", job={"serve": {"threads": 2}}),
        view(records(6.0), "r.2", job={"serve": {"threads": 4}}),
    )
    plot = latency_throughput(runs, {})
    assert plot is not None
    go.Figure(plot)
    by_name = {trace["name"]: trace for trace in plot["data"]}
    unsure, sure = by_name["threads 1 (not steady)"], by_name["threads 2"]
    assert unsure["marker"]["symbol"].startswith("diamond") and sure["marker"]["symbol"].startswith("circle")
    assert f"ms; {why}" in unsure["hovertemplate"] and "not steady" not in sure["hovertemplate"]
    assert any(name.startswith("diamond: not steady") for name in by_name)
    (table,) = pareto_table(runs)
    (row,) = [row for row in table["rows"] if row[0] == "threads 1"]
    marked = [head for head, cell in zip(table["head"], row, strict=True) if cell.endswith(" (not steady)")]
    assert marked == ["throughput, samples/s"]
    steady = latency_throughput(grid(), {})
    assert steady is not None and not any("not steady" in trace["name"] for trace in steady["data"])


def test_the_pareto_table_compares_per_sample() -> None:
    """At one hourly rate, 1,000 requests/s of one sample do less than 500 of eight, which nothing beats."""
    offline = {"load__arrivals": {"kind": "offline", "requests": 1000}}
    views = [batch_run(*case, offline) for case in ((1, 1000.0), (4, 600.0), (8, 500.0))]
    (table,) = pareto_table(views)
    assert table["head"][2:] == ["throughput, samples/s", "energy, J/sample", "cost, USD/1,000 samples"]
    assert [row[0] for row in table["rows"]] == ["run-8"]
    assert table["rows"][0][-1] == f"{1 / 3600 / 4000 * 1000:.4g}"


def test_cost_per_sample_is_shown_of_results_from_before_it_was_stored() -> None:
    """It follows from the cost of a request and the measured samples of one, for ``multi_stream`` too."""
    old = batch_run(8, 500.0, {"load__arrivals": {"kind": "multi_stream"}})
    figure = FIGURES["cost_usd_per_1k_samples"]
    assert old.value(figure) == pytest.approx(1 / 3600 / 4000 * 1000)
    del old.summary["cost_usd_per_1k"]
    assert old.value(figure) is None


def batch_run(batch: int, rate_rps: float, job: dict[str, Any] | None = None) -> RunView:
    """So many requests/s of that size, equally fast, at 1 USD/h and 10 W; a result without stored costs per sample."""
    run = view(records(5.0, noise=0), f"run-{batch}", job=job or {"load__batch_size": batch})
    per_s = {"throughput_rps": rate_rps, "throughput_samples_per_s": rate_rps * batch}
    run.summary.update(per_s, cost_usd_per_1k=1 / 3600 / rate_rps * 1000)
    run.summary["energy"] = {"joule_per_request": 10 / rate_rps, "joule_per_sample": 10 / rate_rps / batch}
    run.summary["resources"] = {}
    return run


def test_the_density_is_one_and_peaks_where_the_latencies_are() -> None:
    """It integrates to 1 over ln(latency) and shows both modes of a mixture."""
    rng = np.random.default_rng(1)
    values = np.sort(np.concatenate([rng.lognormal(0, 0.1, 4000), rng.lognormal(3, 0.1, 4000)]))
    x, y = log_kde(values)
    assert np.trapezoid(y, np.log(x)) == pytest.approx(1, abs=0.01)
    middle = (np.log(x) > 1) & (np.log(x) < 2)
    assert y[middle].max() < 0.05 * y.max()


def roofline_run(job: dict[str, Any] | None = None) -> RunView:
    """1 MFLOP and 8,000 bytes (4,000 of weights) per sample, batch 4, inference 2 ms."""
    run = view(
        records(5.0, noise=0, batch_size=4), job=job or {"load__batch_size": 4},
        model={"name": "m", "flops": 1_000_000, "bytes": 8_000, "parameters": 1_000},
    )  # fmt: skip
    run.summary["stages_ms"] = {
        **{part: {"mean": 0.1, "p50": None, "p99": None} for part in SPANS},
        "inference": {"mean": 2.0, "p50": None, "p99": None},
        "method": "per_request",
    }
    return run


def test_a_runs_place_in_the_roofline() -> None:
    """Weights are read once per batch: 4 MFLOP over 20 kB in 2 ms are 200 FLOP/byte and 2 GFLOP/s."""
    assert position(roofline_run()) == pytest.approx((200.0, 2.0))


def test_an_mlperf_query_counts_with_all_its_samples_in_the_roofline() -> None:
    """Four samples per query of ``multi_stream`` are the place of batch 4, though the load's batch size is 1."""
    query = {"load__arrivals": {"kind": "multi_stream", "samples_per_query": 4}}
    assert position(roofline_run(query)) == position(roofline_run())


def test_item_15_a_dynamic_batch_counts_with_all_its_samples_in_the_roofline() -> None:
    """15.15: requests of four, merged to sixteen on average: 16 MFLOP in the same 2 ms, not a quarter."""
    run = roofline_run({"load__batch_size": 4, "serve__batching": {"max_batch_size": 16}})
    run.summary["stages_ms"]["batch_samples_mean"] = 16.0
    assert position(run) == pytest.approx((16e6 / (4_000 + 16 * 4_000), 8.0))


def test_item_15_a_dynamic_batch_that_nobody_counted_has_no_place_in_the_roofline() -> None:
    """15.15: without the measured batch the place would be too low by an unknown factor."""
    assert position(roofline_run({"load__batch_size": 4, "serve__batching": {"max_batch_size": 16}})) is None


def test_item_17_the_triad_is_larger_than_all_last_level_caches(tmp_path: Path) -> None:
    """15.17: two L3 caches of 384 MB, each shared by two CPUs, make arrays of 3 GB; without room for them, none."""
    for cpu in range(4):
        for index, (level, size, sharers) in enumerate(
            ((1, "32K", f"{cpu}"), (3, "393216K", f"{cpu // 2 * 2}-"))
        ):
            place = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            place.mkdir(parents=True)
            for name, text in (("level", level), ("size", size), ("shared_cpu_list", sharers)):
                (place / name).write_text(f"{text}\n")
    cache = last_level_cache_bytes(tmp_path)
    assert cache == 2 * 384 * 2**20
    array_bytes = triad_array_bytes(cache, 256 * 2**30)
    assert array_bytes is not None and array_bytes >= 4 * cache
    assert triad_array_bytes(cache, 8 * 2**30) is None
    assert triad_array_bytes(None, 8 * 2**30) == 32_000_000
    assert last_level_cache_bytes(tmp_path / "nothing") is None


def test_item_17_a_bandwidth_of_smaller_arrays_is_measured_again(tmp_path: Path) -> None:
    """15.17: what an earlier version kept may be a cache's; the legend says how large the arrays were."""
    (tmp_path / "ceilings.json").write_text('{"processor": "cpu A", "sgemm_gflops": 1e9, "triad_gb_s": 1e9}')
    rates = measured_ceilings(tmp_path, "cpu A")
    assert rates.gb_s < 1e6
    assert rates.array_bytes >= 4 * (last_level_cache_bytes() or 0)
    (plot,) = rooflines([roofline_run()], rates, None)
    assert "MB (last-level caches:" in plot["data"][0]["name"]


def test_the_roofline_has_measured_and_datasheet_ceilings() -> None:
    """The ceiling is the lower of compute and bandwidth; without any ceiling there is no chart."""
    sheet = Hardware(
        source="s", date="2020", name="X", match="X", kind="cpu", fp32_tflops=1.0, bandwidth_gb_s=50.0
    )
    (plot,) = rooflines([roofline_run()], Ceilings(100.0, 10.0), sheet)
    go.Figure(plot)
    measured = plot["data"][0]
    for x, y in zip(measured["x"], measured["y"], strict=True):
        assert y == pytest.approx(min(100.0, 10.0 * x))
    assert rooflines([roofline_run()], None, None) == [] and not_drawn([roofline_run()], None, None) == ""


def test_runs_with_more_threads_raise_nobody_elses_roof() -> None:
    """One core has 100 GFLOP/s and 10 GB/s: beside two runs with four threads, whose roof is of 400 and 40, that of
    one with a thread is drawn as it is alone. By the roof of four it would attain a quarter of what it does."""
    runs = [roofline_run() for _ in range(3)]
    for run, threads in zip(runs, (1, 4, 4), strict=True):
        run.job["serve"] = {"threads": threads}
    (plot,) = rooflines(runs, Ceilings(100.0, 10.0), None)
    lines = [trace for trace in plot["data"] if trace["mode"] == "lines"]
    assert [line["name"] for line in lines] == [
        "measured, 1 core(s): 100 GFLOP/s, 10 GB/s",
        "measured, 4 core(s): 400 GFLOP/s, 40 GB/s",
    ]
    for line, times in zip(lines, (1, 4), strict=True):
        assert line["y"] == pytest.approx([times * min(100.0, 10.0 * x) for x in line["x"]])


def test_a_run_stands_below_the_roof_of_its_precision() -> None:
    """The measured ceilings are of fp32. The datasheet's fp16 has its own chart, eight times as high; of int8 it has no
    peak, and two runs are said not to be drawn.
    """
    runs = [roofline_run() for _ in range(5)]
    for run, precision in zip(runs, ("fp32", None, "fp16", "int8", "int8"), strict=True):
        assert run.result is not None
        run.result.model.precision = precision
        run.job["convert"] = {"precision": precision}
        run.result.device.kind = "gpu"
    sheet = Hardware(
        source="s", date="2020", name="X", match="X", kind="gpu", architecture="Ampere", fp32_tflops=1.0,
        fp16_tflops=8.0, bandwidth_gb_s=50.0,
    )  # fmt: skip
    single, half = rooflines(runs, Ceilings(100.0, 10.0), sheet)
    assert [plot["layout"]["title"]["text"] for plot in (single, half)] == [
        "Roofline (fp32)",
        "Roofline (fp16)",
    ]
    marks = [[trace for trace in plot["data"] if trace["mode"] == "markers"] for plot in (single, half)]
    assert [sum(len(trace["x"]) for trace in of) for of in marks] == [2, 1]
    assert [len(plot["data"]) - len(of) for plot, of in zip((single, half), marks, strict=True)] == [2, 1]
    assert max(half["data"][0]["y"]) == pytest.approx(min(8e3, 50.0 * max(half["data"][0]["x"])))
    words = "Not drawn: 2 run(s) in int8; what the device reaches in that precision is not known here."
    assert not_drawn(runs, Ceilings(100.0, 10.0), sheet) == words
    assert rooflines(runs[3:], Ceilings(100.0, 10.0), None) == []
    assert not_drawn(runs[3:], Ceilings(100.0, 10.0), None) == words
    assert not_drawn(runs[:3], Ceilings(100.0, 10.0), sheet) == ""


def test_a_file_stands_below_the_roof_of_what_it_computes_in() -> None:
    """Half-precision weights that OpenVINO computes with in fp32, as asked; of what came quantised, and of ONNX in half
    precision on a CPU, nobody knows it, and it is not drawn, nor is what was stored before it was called that moved.
    """
    runs = [roofline_run() for _ in range(5)]
    stored = (("fp16", "openvino"), ("int8", "onnx"), ("int4", "onnx"), ("fp32", "onnx"), ("fp16", "onnx"))
    for run, (precision, form) in zip(runs, stored, strict=True):
        assert run.result is not None
        run.result.model.precision, run.result.format = precision, form
        run.job["convert"] = {"format": form, "precision": "fp32"}
    (plot,) = rooflines(runs, Ceilings(100.0, 10.0), None)
    marks = [trace for trace in plot["data"] if trace["mode"] == "markers"]
    assert (
        plot["layout"]["title"]["text"] == "Roofline (fp32)" and sum(len(trace["x"]) for trace in marks) == 2
    )
    assert not_drawn(runs, Ceilings(100.0, 10.0), None) == (
        "Not drawn: 3 run(s) of models that came quantised, or of ONNX in half precision on a CPU; in which precision "
        "they compute is not known."
    )
    # 4,000 bytes of weights of fp32 are 500 of int4, and read once of four samples.
    assert position(runs[3]) == pytest.approx((200.0, 2.0))
    assert position(runs[2]) == pytest.approx((4e6 / (4 * 7_500 + 500), 2.0))


def test_ceilings_are_measured_once(tmp_path: Path) -> None:
    """A matrix product and a triad give plausible figures, kept for that processor."""
    rates = measured_ceilings(tmp_path, "cpu A")
    assert rates.gflops > rates.gb_s > 0.1
    assert measured_ceilings(tmp_path, "cpu A") == rates
    assert "cpu A" in (tmp_path / "ceilings.json").read_text()


def test_a_ceiling_that_takes_longer_than_its_time_is_measured_all_the_same() -> None:
    """Large caches want large arrays, one pass over which takes all of the time: 0 GB/s stood in the roofline."""
    space: dict[str, Any] = {}
    exec(ceilings._PROGRAM.partition("n = 1024")[0], space)
    calls: list[int] = []
    assert space["best"](lambda: calls.append(1), 1.0, 0.0, 2) > 0
    assert len(calls) == 2


def test_stages_and_cold_start_are_stacked_bars() -> None:
    """Each part is a bar on top of the others; runs without figures are left out."""
    run = roofline_run()
    run.summary["cold_start_ms"] = {
        "process_ms": 1.0,
        "model_load_ms": 2.0,
        "first_answer_ms": 3.0,
        "total_ms": 6.0,
    }
    stages, cold = pipeline([run]), cold_start([run])
    assert stages is not None and cold is not None
    assert [bar["x"] for bar in cold["data"]] == [[1.0], [2.0], [3.0]]
    assert {bar["name"]: bar["x"] for bar in stages["data"]}["inference"] == [2.0]
    assert pipeline([view(None, verdict="cancelled: load")]) is None


def test_traffic_ends_with_the_last_second_for_which_requests_were_meant() -> None:
    """What is answered after that is no rate: the line does not fall at the end of every run."""
    run = view(records(5.0, rate_rps=100, noise=0), "r.000")
    run.summary["timeseries"] = {
        "t_s": [0.0, 1.0, 2.0], "requests": [100, 100, 0], "ok": [99, 100, 1], "errors": [0, 0, 0]
    }  # fmt: skip
    plot = traffic([run])
    assert plot is not None
    assert [trace["y"] for trace in plot["data"]] == [[99, 100], [100, 100]]
    assert plot["data"][0]["x"] == [0.5, 1.5]


def test_traffic_leaves_out_a_last_part_of_a_second() -> None:
    """Of a window of 2.5 s with 100 requests a second the last half has 50: the rate is 100 to the end, and not 50."""
    run = view(records(5.0, rate_rps=100, noise=0, seconds=3), "r.000", seconds=2.5)
    run.summary["timeseries"] = {
        "t_s": [-1.0, 0.0, 1.0, 2.0], "requests": [100, 100, 100, 50], "ok": [99, 100, 100, 51], "errors": [0] * 4
    }  # fmt: skip
    plot = traffic([run])
    assert plot is not None
    assert [trace["y"] for trace in plot["data"]] == [[99, 100, 100], [100, 100, 100]]
