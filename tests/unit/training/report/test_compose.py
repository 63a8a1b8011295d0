"""The page of a training's runs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.report import charts, diagnosis_tables, tables
from inferbench_tasks.training.report.compose import html
from tests.report_page import charts_of
from tests.unit.training.report.results import view

JADE = {
    "steps": 40, "columns": {"loading": 0.5, "forward": 1.25}, "without_warmup": None, "step_s": 1.75, "epoch_s": 80.0,
    "explained_ratio": 0.875, "reason": None,
}  # fmt: skip


def test_every_run_is_shown_with_its_verdict_and_nothing_runs_as_code() -> None:
    """Labels are escaped, reasons stand at the top, and the charts are drawn."""
    page = html(
        [view("<b>x</b>", jade=JADE), view("bad", wrong="nobody watched")],
        [(view("a"), [{"step": np.arange(2.0), "step_ns": np.array([1e6, 2e6])}])],
        {"name": "n"},
    )
    assert "<b>x</b>" not in page and "&lt;b&gt;x&lt;/b&gt;" in page
    titles = [chart["layout"]["title"]["text"] for chart in charts_of(page).values()]
    assert "invalid: nobody watched" in page and any(
        "Where the time of a step goes" in title for title in titles
    )
    assert "0.5000" in page and "87.5%" in page


def test_a_warning_is_told_once_with_the_runs_that_have_it() -> None:
    """Of nine runs all have the first one, two the second, eight the third and one a fourth."""
    warnings_of = {"r0": ["clock", "steal", "slow", "slow"], "r8": ["clock", "alone"]}
    warnings_of |= {f"r{number}": ["clock", "slow"] for number in range(2, 8)}
    warnings_of["r1"] = ["clock", "steal", "slow"]
    views = []
    for label, warnings in sorted(warnings_of.items()):
        made = view(label)
        made.result.certificate["warnings"] = warnings
        views.append(made)
    page = html(views, [], {"name": "n"})
    assert re.findall('<div class="note">(.*)</div>', page) == [
        "All 9 runs: clock.",
        "8 of 9 runs (r0; r1; r2; r3; r4; r5; and 2 more): slow.",
        "2 of 9 runs (r0; r1): steal.",
        "r8: alone.",
    ]


def test_bars_are_the_phases_and_what_no_phase_explains() -> None:
    """4 + 1 + 5 ms, and 2 ms between them."""
    chart = charts.phases([view("a")])
    assert chart is not None
    assert {bar["name"]: bar["x"] for bar in chart["data"]} == {
        "loading": [4.0], "to device": [1.0], "forward": [5.0], "reading the clocks": [1.0],
        "between the phases": [1.0],
    }  # fmt: skip


def test_a_phase_is_cpu_wait_and_the_rest() -> None:
    """Of 4 ms of loading 1 is CPU, 2 wait for a core; several threads' times are sums and are not drawn."""
    chart = charts.cores(view("a"))
    assert chart is not None
    assert [bar["x"][0] for bar in chart["data"]] == [1.0, 2.0, 1.0]
    assert charts.cores(view("a", threads=2)) is None
    assert charts.ranks(view("a")) is None and charts.ranks(view("a", ranks=2)) is not None


def test_long_courses_are_means_of_neighbours() -> None:
    """1,201 steps become 401 points of three steps each, the last of one."""
    chart = charts.course([(view("a"), [float(step) for step in range(1201)])])
    assert chart is not None
    (line,) = chart["data"]
    assert len(line["x"]) == 401 and line["x"][1] == 3 and line["y"][0] == 1.0 and line["y"][-1] == 1200.0


def test_no_interval_shown_goes_below_nothing() -> None:
    """Three rounds far apart have Student's interval of -5 to 20 samples/s: 0 to 20 is what can be."""
    (row,) = tables.runs([view("a", interval=(-5.0, 20.0))])["rows"]
    assert row[2] == "0 to 20"


def test_jades_columns_stand_beside_the_true_phases() -> None:
    """In seconds; a run without them is left out."""
    (table,) = tables.jade([view("a", jade=JADE), view("b")])
    assert len(table["rows"]) == 1
    row = dict(zip(table["head"], table["rows"][0], strict=True))
    assert row["Loading"] == "0.5000" and row["Processing"] == "–" and row["Forward"] == "1.2500"
    assert row["| loading"] == "0.0040" and row["forward"] == "0.0050"
    assert tables.jade([view("b")]) == []


def test_jades_columns_are_explained_by_what_their_benchmark_has() -> None:
    """Inference has neither loss nor optimiser, and no column of losses beside the runs; of several benchmarks each has
    its own words.
    """
    one, other = view("a", jade=JADE), view("b", jade=JADE)
    (table,) = tables.jade([one])
    assert "the last among them; loading holds the transfer to the device. After" in table["note"]
    assert "loss first" not in tables.runs([one])["head"]
    other.result.benchmark = "train"
    (table,) = tables.jade([one, other])
    assert "; of inference: loading holds the transfer to the device; of train: loading" in table["note"]
    both = tables.runs([one, other])
    assert both["head"][-3:] == ["loss first", "loss last", "verdict"]
    assert all(len(row) == len(both["head"]) for row in both["rows"])


def test_money_and_emission_say_what_they_are_by() -> None:
    """The word that a rate has which nobody looked up, its instance and date, and whose electricity it was."""
    run = view("a")
    assert run.summary is not None
    rate = {
        "provider": "AWS", "instance": "c7a.large", "region": "us-east-1", "approximate": True, "unverified": True,
        "source": "a page", "date": "2024",
    }  # fmt: skip
    known = {"per_epoch": 2.0, "per_million_samples": 3000.0, "reason": None}
    run.summary.spending = {
        "energy": {**known, "method": "rapl", "uncertainty_ratio": 0.03},
        "co2": {**known, "region": "world", "g_per_kwh": 473.0, "date": "2024"},
        "cost": {**known, "cheapest": rate},
    }
    (table,) = tables.spending([run])
    assert table["rows"] == [
        ["a", "2", "2", "2 (unverified)", "3,000", "3,000", "3,000 (unverified)", "rapl (±3%)"]
    ]
    assert "CO2e by the electricity of world, 473 g/kWh (2024)." in table["note"]
    assert "USD by AWS c7a.large in us-east-1, an instance of its family" in table["note"]
    run.summary.spending["energy"] |= {
        "scope": "all packages: the run had 1 of the 2 cores", "machine": {"cores": 1.0, "of_cores": 2},
        "left_out": {"codecarbon_estimate": {"per_epoch": 9.0, "reason": "it counts the whole machine"}},
    }  # fmt: skip
    (table,) = tables.spending([run])
    assert "energy by rapl: all packages: the run had 1 of the 2 cores." in table["note"]
    assert "codecarbon_estimate: 9 J of an epoch are not the run's, it counts the whole" in table["note"]
    run.summary.spending["cost"] = {"per_epoch": None, "per_million_samples": None, "reason": "no rate"}
    (table,) = tables.spending([run])
    assert table["rows"][0][3] == "–" and "USD by" not in table["note"]


def test_a_page_says_what_holds_each_run_up() -> None:
    """A cause with its cost and its remedy; a run without one has the sentence that says so."""
    cause = Cause(
        rule="fetch", kind="cause", sentence="Reading holds it up.", evidence=["18 of 20 ms"],
        remedy="Keep it in memory.", cost_s=0.018, gain_s=0.0195,
    )  # fmt: skip
    pairs = [
        (view("a"), Diagnosis(run_id="a", sentence="Reading holds it up.", causes=[cause])),
        (view("b"), Diagnosis(run_id="b", sentence="Nothing holds it up.")),
    ]
    (table,) = diagnosis_tables.diagnoses(pairs)
    assert table["rows"][0] == [
        "a", "fetch", "Reading holds it up. 18 of 20 ms.", "Keep it in memory.", "18", "19.5", "–",
    ]  # fmt: skip
    assert table["rows"][1][2] == "Nothing holds it up."
    bound = Diagnosis(run_id="a", sentence="s", causes=[cause.model_copy(update={"at_most": True})])
    assert diagnosis_tables.diagnoses([(view("a"), bound)])[0]["rows"][0][4] == "at most 18"
    page = html([view("a")], [], {"name": "n"}, pairs)
    assert "What holds it up" in page and "Keep it in memory." in page


def test_a_remedy_that_was_run_stands_beside_its_prediction() -> None:
    """Its gain in the cause's row, both steps in a table of its own; one that was not valid has its verdict."""
    changes = {"data.where": "memory"}
    cause = Cause(
        rule="fetch", kind="cause", sentence="s", evidence=[], cost_s=0.018, gain_s=0.018, changes=changes
    )
    one = Verified(
        run="a", attempt=1, rule="fetch", remedied="b-1.000", changes=changes, step_ms=30.0, predicted_ms=12.0,
        measured_ms=14.0, predicted_by_measured=12 / 14, predicted_gain_ms=18.0, measured_gain_ms=16.0,
        verdict="valid",
    )  # fmt: skip
    bad = one.model_copy(
        update={"measured_ms": None, "measured_gain_ms": None, "verdict": "disturbed: stolen"}
    )
    elsewhere = bad.model_copy(update={"reason": "cores 8 instead of 2", "verdict": "valid"})
    for newest, said, gain in (
        (one, "14", "16"),
        (bad, "the run is disturbed: stolen", "the run is disturbed: stolen"),
        (elsewhere, "cores 8 instead of 2", "cores 8 instead of 2"),
    ):
        diagnosis = Diagnosis(run_id="a", sentence="s", causes=[cause], verified=[newest])
        causes, verified = diagnosis_tables.diagnoses([(view("a"), diagnosis)])
        assert causes["rows"][0][-1] == gain
        assert verified["rows"][0][:7] == ["a", "fetch", "data.where: memory", "b-1.000", "30", "12", said]


def test_another_remedy_of_the_same_rule_is_no_measured_gain() -> None:
    """9 ms by seven loader processes say nothing of the two that are advised now."""
    cause = Cause(
        rule="preparation", kind="cause", sentence="s", evidence=[], cost_s=0.002, gain_s=0.002,
        changes={"loader.workers": 2},
    )  # fmt: skip
    seven = Verified(
        run="a", attempt=1, rule="preparation", remedied="b-1.000", changes={"loader.workers": 7}, step_ms=12.0,
        predicted_ms=8.0, measured_ms=3.0, predicted_by_measured=8 / 3, predicted_gain_ms=4.0, measured_gain_ms=9.0,
        verdict="valid",
    )  # fmt: skip
    two = seven.model_copy(update={"changes": {"loader.workers": 2}, "measured_gain_ms": 1.5})
    for verified, gain in (([seven], "–"), ([seven, two], "1.5")):
        diagnosis = Diagnosis(run_id="a", sentence="s", causes=[cause], verified=verified)
        assert diagnosis_tables.diagnoses([(view("a"), diagnosis)])[0]["rows"][0][-1] == gain


def test_an_impossible_forward_is_marked_in_jades_table() -> None:
    """128 samples of 8.178 GFLOP in 8.2 ms on a V100."""
    columns = {"loading": 0.1, "forward": 0.0082}
    run = view("a", jade={**JADE, "columns": columns, "without_warmup": columns})
    train = {"benchmark": "inference", "batch_size": 128, "precision": "fp32"}
    job = {"kind": "training", "name": "x", "data": {"kind": "digits"}, "train": train}
    run.result.provenance = Provenance.model_validate({"job": job})
    run.result.device = DeviceInfo(kind="gpu", name="Tesla V100-SXM2-32GB")
    assert run.summary is not None
    run.summary.probes = {"forward_flop": 8.178e9}
    (table,) = tables.jade([run])
    row = dict(zip(table["head"], table["rows"][0], strict=True))
    assert row["Forward"] == "0.0082 (impossible)" and row["Loading"] == "0.1000"
    assert run.summary.jade is not None
    run.summary.jade["without_warmup"] = {"loading": 0.1, "forward": 0.109}
    (table,) = tables.jade([run])
    assert "0.0082" in table["rows"][0], "a mean that a smaller batch is in says nothing of whole ones"


def test_batches_of_results_from_before_their_way_was_told_are_shown_without_it() -> None:
    """The whole of it stands there as it did; what was never measured is a dash."""
    old = {
        "read_ms": 1.0,
        "decode_ms": 2.0,
        "transform_ms": 0.5,
        "collate_ms": 0.25,
        "queued_ms": 6.0,
        "making_ms": 3.75,
    }
    new = {**old, "queue_wait_ms": 4.0, "serialise_ms": 1.5, "deserialise_ms": 0.5, "transfer_ms": 2.0}
    views = []
    for label, parts in (("old", old), ("new", new)):
        of = view(label)
        assert of.result.summary is not None
        summary = of.result.summary.model_copy(update={"loader": {"parts": parts}})
        views.append(replace(of, result=of.result.model_copy(update={"summary": summary})))
    (table,) = tables.loader(views)
    assert len(table["head"]) == 1 + len(table["numbers"]) == 9
    assert table["rows"][0] == ["old", "1", "2", "0.5", "0.25", "3.75", "6", "–", "–"]
    assert table["rows"][1][-3:] == ["6", "4", "2"]
    assert tables.loader([view("none")]) == []
