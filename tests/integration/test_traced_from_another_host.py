"""A traced load that its client's host sends again, by the process that waits there.

Both hosts are data directories of one machine, whose clock is one, so that where each request truly was is known. Of
hosts with clocks of their own: ``test_load_from_other_host``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts import own_requests
from inferbench_tasks.contracts.handles import BackendInfo, ColdStart, Endpoint, ServerHandle
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.networks.reached_address import ADDRESS
from inferbench_tasks.stages import load_order, one_load, serve, trace
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.sampled_load import Sent
from inferbench_tasks.stages.senders import led_trace, trace_sender
from inferbench_tasks.stages.senders.handles import TraceSender
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.tracing.share import share_in_words
from inferbench_tasks.tracing.spans import Span, spans_of
from tests.away_clocks import misplaced
from tests.integration.test_serving import leftovers
from tests.integration.test_traced_requests import order
from tests.serving_cases import dense_case

#: What waits outlives who started it, which is the stage's process elsewhere and the test's here.
OUTLIVES = "ignore:subprocess .* is still running:ResourceWarning"
UNSEEN = "ignore:Exception ignored in. <function Popen.__del__:pytest.PytestUnraisableExceptionWarning"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(OUTLIVES),
    pytest.mark.filterwarnings(UNSEEN),
]
LOAD = {
    "arrivals": {"kind": "constant", "rate_rps": 100.0}, "duration_s": 2.0, "warmup_s": 0.2, "from": "other_host",
}  # fmt: skip


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Context, Context]:
    """The server's host and the load's."""
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
    monkeypatch.setenv(ADDRESS, "127.0.0.1")
    server, client = (Context(data_dir=tmp_path / name, base_dir=tmp_path) for name in ("server", "client"))
    return server, client


def waiting(inp: Input, client: Context) -> TraceSender:
    """As ``load`` starts it at its end; of the server that it sent to nothing is asked any more."""
    nobody = serve.Output(
        endpoint=Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="dense"),
        server=ServerHandle(launcher="process", pid=1, started_ns=1, log_path="", config_path=""),
        backend=BackendInfo(kind="onnxruntime", version="1", launcher="process", label="x", settings={}),
        cold_start=ColdStart(process_ms=1, model_load_ms=1, first_answer_ms=1, total_ms=3),
        difference_ratio=0.0,
    )
    about: dict[str, Any] = {"run_id": inp.run_id, "job_id": inp.job_id, "job": inp.job}
    return trace_sender.waiting(load_order.Input(**about, generate=inp.generate, serve=nobody), client)


def loaded(sender: TraceSender) -> one_load.Output:
    return one_load.Output(
        samples_path="x", monitors_path=None, measure_start_ns=0, measure_end_ns=1, epoch_offset_ns=0,
        requests=1, certificate={}, accuracy_ratio=None, trace_sender=sender,
    )  # fmt: skip


def ended(inp: Input, client: Context) -> bool:
    """Whether nothing waits there any more, once it had the time to see that the connection has ended."""
    until_s = time.monotonic() + 20
    while leftovers(inp.run_id) and time.monotonic() < until_s:
        time.sleep(0.05)
    return leftovers(inp.run_id) == [] and not [*settings.servers_dir(client.data_dir).glob("*.json")]


def test_its_requests_lie_where_they_were(
    homes: tuple[Context, Context], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the error that each states, by what its client recorded and a clock that both hosts share. The client's parts
    and the server's are one trace; the result names both hosts, the error, and the way between them. The traced servers
    answer nobody without their secret, and nothing is left on either host."""
    server, client = homes
    refused: list[int] = []
    really = led_trace.LedTrace.send

    def send(there: led_trace.LedTrace, endpoint: Endpoint, seed: str | None, one_in: int) -> Sent:
        with pytest.raises(HTTPError) as answer:
            urlopen(f"http://{endpoint.url}/v2/health/ready", timeout=10)
        refused.append(answer.value.code)
        return really(there, endpoint, seed, one_in)

    monkeypatch.setattr(led_trace.LedTrace, "send", send)
    inp = order(dense_case(tmp_path), tmp_path, load=LOAD, requests=30, one_in=3)
    inp = inp.model_copy(update={"load": loaded(waiting(inp, client))})
    output = trace.run(inp, server)
    document = output.document
    assert "problem" not in document, document
    assert (document["of"], document["failed"], document["unanswered"], document["defects"]) == (200, 0, 0, 0)
    assert output.spans_path is not None and refused == [401, 401]
    spans = list(spans_of(pq.read_table(output.spans_path)))
    roots = [span for span in spans if span.parent < 0]
    assert len(roots) == document["requests"] > 30
    for name in ("wait to send", "to first byte", "to last byte", "server", "queue", "inference"):
        assert sum(span.name == name for span in spans) == len(roots), name
    records = read_samples(client.run_dir(inp.run_id) / own_requests.TRACE / "samples.parquet")
    assert records.num_rows == 220 and misplaced(roots, records, 0) == []
    assert each_within(spans, roots)
    assert not (server.run_dir(inp.run_id) / own_requests.TRACE).exists(), "it was sent here"
    hosts = document["hosts"]
    assert hosts["error_ms"] == max(root.attributes["clock_error_ns"] for root in roots) / 1e6 < 50
    assert document["clock"]["hosts_error_ns"] == hosts["error_ms"] * 1e6
    (clock,) = hosts["clocks"]
    assert abs(clock["ahead_ms"]) <= clock["round_trip"]["max_ms"]
    assert hosts["ways"]["requests"] == len(roots) and hosts["ways"]["both_ms"] > 0
    assert f"to within {hosts['error_ms']:.2g} ms" in (share_in_words(document) or "")
    assert ended(inp, client)


def each_within(spans: list[Span], roots: list[Span]) -> bool:
    """Whether each server's span lies within the part in which it was asked, to its request's error."""
    error_ns = {root.trace_id: root.attributes["clock_error_ns"] for root in roots}
    asking = {span.trace_id: span for span in spans if span.name == "to first byte"}
    return all(
        asking[span.trace_id].start_ns - error_ns[span.trace_id] <= span.start_ns
        and span.end_ns <= asking[span.trace_id].end_ns + error_ns[span.trace_id]
        for span in spans
        if span.name == "server"
    )


def test_a_load_s_host_that_is_gone_leaves_a_run_without_a_trace(
    homes: tuple[Context, Context], tmp_path: Path
) -> None:
    """With the reason and whom it missed; the stage does not fail."""
    server, _ = homes
    inp = order(dense_case(tmp_path), tmp_path, load=LOAD, requests=30, one_in=3)
    gone = TraceSender(host="loader", problem="no address")
    output = trace.run(inp.model_copy(update={"load": loaded(gone)}), server)
    assert output.document == {"problem": "Nothing waits on loader to send the load again: no address"}
    assert output.spans_path is None and leftovers(inp.run_id) == []
