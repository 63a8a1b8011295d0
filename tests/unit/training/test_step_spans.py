"""Steps of ranks as traces: what lies within what, and when."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from inferbench_tasks.tracing.spans import SCHEMA, spans_of, table_of
from inferbench_tasks.training import steps
from inferbench_tasks.training.step_spans import spans
from tests.unit.training.epochs import MS, PHASES_MS, STEP_MS, answer


def test_a_step_is_a_trace_of_all_ranks_with_their_phases(tmp_path: Path) -> None:
    """Each lies within its parent by number, ids are the same whenever they are made, and times are moved alike."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0), answer(1)], path)
    rows = pq.read_table(path).to_pylist()
    made = list(spans("x-1.000", rows, offset_ns=1000))
    assert made == list(spans("x-1.000", rows, offset_ns=1000))
    traces = {span.trace_id for span in made}
    instrumented = {(row["round"], row["step"]) for row in rows if row["timing"] == "synchronised"}
    assert len(traces) == len(instrumented) == 3 * (2 + 20 + 1)
    one = [span for span in made if span.trace_id == made[0].trace_id]
    names = [span.name for span in one]
    assert names == ["step 0", "rank 0", *PHASES_MS, "rank 1", *PHASES_MS]
    assert [span.number for span in one] == list(range(len(one)))
    by_number = {span.number: span for span in one}
    assert one[0].parent == -1 and {by_number[span.parent].level for span in one[1:]} == {
        "application",
        "model",
    }
    assert one[0].start_ns == 1000 and one[0].duration_ns == STEP_MS * MS
    forward = next(span for span in one if span.name == "forward")
    wall, cpu, wait = PHASES_MS["forward"]
    assert (forward.level, forward.duration_ns) == ("framework", wall * MS)
    assert (forward.attributes["cpu_ms"], forward.attributes["wait_ms"]) == (cpu, wait)
    assert one[0].attributes["part"] == "warmup" and made[-1].trace_id != one[0].trace_id
    table = table_of(made)
    assert table.schema == SCHEMA and list(spans_of(table)) == made


def test_the_samples_of_the_whole_step_are_those_of_all_ranks(tmp_path: Path) -> None:
    """8 of each of two ranks are 16; of the last, smaller step 3 of each are 6."""
    path = tmp_path / "steps.parquet"
    steps.write([answer(0), answer(1)], path)
    whole = [span for span in spans("x-1.000", pq.read_table(path).to_pylist()) if span.parent == -1]
    assert {span.attributes["samples"] for span in whole} == {16, 6}
