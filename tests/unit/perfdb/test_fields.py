"""Fields, rows and comparisons of results."""

from __future__ import annotations

from inferbench_tasks.dotted import set_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.figures_of_quality import QUALITY_FIGURES
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.comparison import compare
from tests.unit.perfdb.builders import latency, result


def test_every_field_is_there_in_a_result() -> None:
    """No field's path has a spelling that the document does not know (open parts aside)."""
    used = {"cpu_cores": {"mean": 1.0}, "rss_bytes": {"max": 1e9}}
    more = {"error_ratio": 0.0, "cold_start_ms": {"total_ms": 1.0}, "resources": {"server": used}}
    more |= {"quiet": {"latency_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0}}}
    quality = [figure.name for figure in QUALITY_FIGURES]
    more |= {"quality": {name: {"value": 0.5} for name in quality}}
    more |= {"max_rate": {"rps": 1.0, "samples_per_s": 1.0}}
    for figure in (*FIGURES.brought().values(), *(f for f in FIGURES.values() if f.streamed)):
        set_at(more, figure.path, 1.0)
    document = result(summary=more).model_dump()
    for field in fields.all_fields():
        at = document
        *parts, last = field.path.split(".")
        for part in parts:
            at = at[part]
        assert last in at or field.name == "concurrency", field.path


def test_a_row_is_flat() -> None:
    """A result becomes one row of plain values."""
    row = fields.row(result().model_dump(), ("run", "p99", "throughput", "batch", "settings.threads"))
    assert row == {
        "run": "run-1",
        "p99_ms": 20.25,
        "throughput_rps": 79.5,
        "batch": 4,
        "settings.threads": 2,
    }


def test_a_result_from_before_figures_of_a_sample_is_shown_without_them() -> None:
    """It loads, and what it lacks is missing, not 0."""
    row = fields.row(result(summary={"throughput_rps": 10.0, "cost_usd_per_1k": 0.5}).model_dump())
    assert row["cost_usd_per_1k"] == 0.5
    assert row["cost_usd_per_1k_samples"] is row["co2_g_per_1k_samples"] is row["joule_per_sample"] is None


def test_figures_are_compared_by_ratio_to_the_first() -> None:
    """A ratio says how many times the first run's figure; none where one is missing."""
    table = {
        row["field"]: row for row in compare([latency("a", 10.0), latency("b", 25.0), latency("c", None)])
    }
    assert table["p99_ms"] == {
        "field": "p99_ms", "a": 10.0, "b": 25.0, "c": None, "b ratio": 2.5, "c ratio": None,
    }  # fmt: skip
    assert table["throughput_rps"]["b ratio"] == 1.0


def test_only_settings_that_differ_are_shown() -> None:
    """Equal settings are left out; a difference inside the backend's settings is found."""
    other = result("b", backend={"kind": "onnxruntime", "settings": {"threads": 4, "label": "fast"}})
    shown = {row["field"] for row in compare([result("a"), other])}
    assert "settings.threads" in shown
    assert not {"settings.label", "model", "backend"} & shown


def test_what_a_start_drew_was_not_asked_differently() -> None:
    """Two starts of one Triton, as an earlier version stored them: the ports are kept, and are no setting."""
    runs = [
        result(name, backend={"kind": "triton", "settings": {"instances": 1, "metrics_port": port}})
        for name, port in (("a", 40001), ("b", 40002))
    ]
    assert [each.backend.drawn for each in runs] == [{"metrics_port": 40001}, {"metrics_port": 40002}]
    assert not [row for row in compare(runs) if row["field"].startswith("settings.")]
    # And read again it is the same.
    assert type(runs[0]).model_validate(runs[0].model_dump()) == runs[0]


def test_attempts_of_one_run_are_told_apart() -> None:
    """Two attempts of one run get columns of their own."""
    [verdict, *_] = compare([result("a"), result("a", attempt=2)])
    assert verdict == {"field": "verdict", "a#1": "valid", "a#2": "valid"}


def test_a_run_of_whole_answers_has_no_field_of_streams() -> None:
    """Neither in its row, nor in a table of such rows; one run with streams gives the table their columns."""
    whole = fields.row(result().model_dump())
    streamed = fields.row(result(summary={"tokens": {"output_tokens_per_s": 5.0}}).model_dump())
    names = {field.name for field in fields.all_fields() if field.streamed}
    assert not names & set(whole) and names <= set(streamed)
    assert streamed["output_tokens_per_s"] == 5.0 and streamed["ttft_p50_ms"] is None
    assert not names & {field.name for field in fields.columns_of([whole])}
    assert names <= {field.name for field in fields.columns_of([whole, streamed])}
    assert fields.row(result().model_dump(), ("ttft_p99_ms",)) == {"ttft_p99_ms": None}
