"""Stage ``trace`` with several samples in each request, with a real server."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from inferbench_tasks.stages import trace
from inferbench_tasks.stages.base import Context
from inferbench_tasks.tracing.spans import spans_of
from tests.integration.test_serving import leftovers
from tests.integration.test_traced_requests import REQUESTS, order
from tests.serving_cases import CLASSES, dense_case

pytestmark = pytest.mark.integration


def test_a_batch_is_traced_down_to_its_layers(tmp_path: Path) -> None:
    """Beside a load of one sample a request each traced one has twelve of the 32 there are, so that some are asked
    again: each is a trace of its own, its server and its layers are of twelve, and their bytes are, too."""
    inp = order(dense_case(tmp_path), tmp_path, batch_size=12)
    assert inp.job.traffic.samples_per_request == 1
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    document = output.document
    assert "problem" not in document, document
    assert (document["batch_size"], document["requests"]) == (12, REQUESTS)
    assert document["unanswered"] == document["lost"] == document["checks"]["negative"] == 0
    assert output.spans_path is not None
    spans = list(spans_of(pq.read_table(output.spans_path)))
    assert len({span.trace_id for span in spans}) == REQUESTS
    assert [span.attributes["rows"] for span in spans if span.name == "server"] == [12] * REQUESTS
    assert sum(span.name == "session.run" for span in spans) == REQUESTS
    last = [layer["output_bytes"] for layer in document["layers"]["layers"]][-1]
    assert last == 12 * CLASSES * 4
    assert leftovers(inp.run_id) == []
