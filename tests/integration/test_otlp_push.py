"""Spans sent to a collector of OpenTelemetry's own definitions, over HTTP and gRPC: none lost, none twice."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from inferbench_tasks.cli.main import main
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.sent_traces import COLLECTOR, send_traces
from inferbench_tasks.tracing.push.send import MOST_BYTES, MOST_SPANS, Pushed, send_table
from inferbench_tasks.tracing.push.target import HEADERS, target_of
from inferbench_tasks.tracing.spans import Span, spans_of, table_of
from tests.integration.test_traces_stored import seed
from tests.otlp_collector import Over, Reply, collecting, cutting

pytestmark = pytest.mark.integration
BOTH = pytest.mark.parametrize("over", ["http", "grpc"])
#: Enough for three requests.
SOME = 2 * MOST_SPANS + 10


def spans(count: int, a_trace: int = 1000) -> Iterator[Span]:
    """Requests of so many spans, each span within the one before it, and each with a name of its own."""
    for at in range(count):
        number = at % a_trace
        level: Any = "application" if number == 0 else "layer"
        shape = {"shape": [1, 64, 56, 56], "bytes": 802_816} if number else {"span_id": f"{at + 1:016x}"}
        trace = f"{at // a_trace + 1:032x}"
        yield Span(trace, number, number - 1, level, f"span {at}", 10**18 + at, 500, "Conv", shape)


def some(count: int = SOME) -> pa.Table:
    """The same as they are stored."""
    return table_of(spans(count))


def send(table: pa.Table, address: str, give_up_after_s: float = 20.0) -> Pushed:
    return send_table(table, {"inferbench.run": "r"}, target_of(address), give_up_after_s=give_up_after_s)


@pytest.mark.parametrize("over", ["http", pytest.param("grpc", marks=pytest.mark.long)])
def test_100_000_spans_arrive_once(over: Over) -> None:
    """Each span with its ids, its parent and its times, in requests of bounded size. 20 s."""
    table = some(100_000)
    with collecting(over) as collector:
        pushed = send(table, collector.address)
    assert pushed.complete and pushed.accepted == 100_000
    assert (pushed.rejected, pushed.unknown, pushed.not_sent, pushed.repeated) == (0, 0, 0, 0)
    ids = {(span.trace_id, span.number): span.span_id for span in spans_of(table)}
    expected = Counter(
        (s.trace_id, s.span_id, ids.get((s.trace_id, s.parent), ""), s.name, s.start_ns, s.end_ns)
        for s in spans_of(table)
    )
    assert Counter(collector.spans) == expected and set(expected.values()) == {1}
    assert collector.services == {"inferbench"}
    assert collector.most_spans <= MOST_SPANS and collector.largest_bytes < MOST_BYTES + 1000
    assert collector.requests == pushed.batches == pushed.tries >= 50


@BOTH
def test_a_collector_that_is_busy_is_asked_again(over: Over) -> None:
    """The second request is put off twice, once with the moment to come back: nothing is lost, nothing there twice."""
    code = "503" if over == "http" else "UNAVAILABLE"
    busy = Reply(code, "full", retry_after_s=1, taken=False)
    plain = Reply("429" if over == "http" else "UNAVAILABLE", "still", taken=False)
    with collecting(over, Reply(), busy, plain) as collector:
        pushed = send(some(), collector.address)
    assert pushed.complete and (pushed.batches, pushed.tries) == (3, 5)
    assert pushed.repeated == 0
    assert len(collector.spans) == len(set(collector.spans)) == SOME
    assert any("full" in words for words in pushed.words)


@BOTH
def test_what_a_collector_rejects_is_counted(over: Over) -> None:
    """Three spans of the first request, with its reason; the rest is there. A warning alone rejects nothing."""
    with collecting(over, Reply(words="too old", rejected=3), Reply(words="careful")) as collector:
        pushed = send(some(), collector.address)
    assert (pushed.accepted, pushed.rejected, pushed.complete) == (SOME - 3, 3, False)
    assert dict(pushed.words) == {"too old": 1, "careful": 1}
    assert len(collector.spans) == SOME - 3
    assert f"{SOME - 3:,} of {SOME:,} spans taken by" in str(pushed) and "3 rejected" in str(pushed)


@BOTH
def test_one_bad_request_does_not_stop_the_others(over: Over) -> None:
    """400 or INVALID_ARGUMENT is of its request alone; a wrong login is of all."""
    bad = Reply("400" if over == "http" else "INVALID_ARGUMENT", "no such thing", taken=False)
    with collecting(over, bad) as collector:
        pushed = send(some(), collector.address)
    assert (pushed.rejected, pushed.accepted, pushed.tries) == (MOST_SPANS, SOME - MOST_SPANS, 3)
    closed = Reply("401" if over == "http" else "UNAUTHENTICATED", "who are you?", taken=False)
    with collecting(over, *[closed] * 9) as collector:
        pushed = send(some(), collector.address)
    assert (pushed.rejected, pushed.not_sent, pushed.tries) == (MOST_SPANS, SOME - MOST_SPANS, 1)
    assert "who are you?" in str(pushed)


@BOTH
def test_nobody_there(over: Over) -> None:
    """All spans are told as not sent, with the reason, and nothing is raised."""
    with socket.socket() as taken:  # bound, and does not listen
        taken.bind(("127.0.0.1", 0))
        pushed = send(some(), f"{over}://127.0.0.1:{taken.getsockname()[1]}", give_up_after_s=0.4)
    assert (pushed.accepted, pushed.unknown, pushed.not_sent) == (0, 0, SOME)
    assert "can't be reached" in str(pushed) and "given up after 0.4 s" in str(pushed)


def test_an_answer_that_is_lost_is_not_passed_over() -> None:
    """Taken, and the connection ends before its answer: sent again, and told as perhaps there twice, as it is here."""
    with collecting("http", Reply(silent=True)) as collector:
        pushed = send(some(), collector.address)
    assert pushed.complete and pushed.repeated == MOST_SPANS
    assert len(collector.spans) == SOME + MOST_SPANS and len(set(collector.spans)) == SOME
    assert "perhaps there twice" in str(pushed)


def test_an_answer_that_is_lost_over_grpc() -> None:
    """The same where a connection ends: grpcio has one code for it and for a collector that is busy."""
    with collecting("grpc", Reply(silent=True)) as collector:
        port = int(collector.address.rpartition(":")[2])
        with cutting(port, 10_000) as between:
            pushed = send(some(), f"grpc://127.0.0.1:{between}")
    assert pushed.complete and pushed.repeated == MOST_SPANS, pushed
    assert len(collector.spans) == SOME + MOST_SPANS and len(set(collector.spans)) == SOME


def test_what_never_gets_an_answer_is_unknown() -> None:
    """Not counted as there, nor as not sent."""
    with collecting("http", *[Reply(silent=True)] * 50) as collector:
        pushed = send(some(), collector.address, give_up_after_s=0.1)
    assert (pushed.accepted, pushed.unknown, pushed.not_sent) == (0, MOST_SPANS, SOME - MOST_SPANS)


@BOTH
def test_a_login_is_sent_along(over: Over, monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenTelemetry's setting has it; it stands in no message."""
    monkeypatch.setenv(HEADERS[1], "Authorization=Bearer%20s3cret,x-team=vision")
    with collecting(over) as collector:
        pushed = send(some(10), collector.address)
    assert pushed.complete and "s3cret" not in str(pushed)
    assert collector.headers["authorization"] == "Bearer s3cret" and collector.headers["x-team"] == "vision"


@pytest.mark.parametrize("over", ["http", pytest.param("grpc", marks=pytest.mark.long)])
def test_by_the_command(
    over: Over,
    perfdb: PerfDB,
    perfdb_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 when all spans of a run are there, 1 with what is missing where not, 2 for what is no address."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    seed(perfdb, tmp_path)

    def exported(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["trace", "export", "quick", *arguments])
        return int(end.value.code or 0), capsys.readouterr().err

    with collecting(over, Reply(), Reply(words="full up", rejected=2)) as collector:
        code, said = exported("--to", collector.address)
        assert code == 0 and "12 of 12 spans taken by" in said
        assert len(set(collector.spans)) == 12
        code, said = exported("--to", collector.address)
        assert code == 1 and "10 of 12 spans taken by" in said and "2 rejected" in said and "full up" in said
        assert f"inferbench trace export quick --to {collector.address}" in said
    code, said = exported("--to", collector.address, "--give-up-after", "0")
    assert code == 1 and "12 not sent" in said and "can't be reached" in said
    for wrong in (["--to", "ftp://x"], [], ["x.json", "--to", "http://x"], ["--to", "http://a:b@x"]):
        code, said = exported(*wrong)
        assert code == 2, (wrong, said)
    with pytest.raises(SystemExit):
        main(["trace", "list", "-o", "json"])
    rows = {row["run"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["quick"]["spans"] == 12 and rows["quick"]["problem"] == ""


def test_after_a_run_to_the_operators_collector(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trace goes there once, and its result says what became of it; runs without a trace are left alone."""
    seed(perfdb, tmp_path)
    runs, ctx = ["quick", "slow", "failed", "plain"], Context(data_dir=tmp_path)

    def sent(run: str) -> dict[str, Any]:
        trace = perfdb.get_result(run).extensions.get("trace", {})
        return dict(trace.get("sent", {}))

    send_traces(perfdb, runs, ctx)
    assert sent("quick") == {}  # nobody said where to
    with collecting("grpc", Reply(words="too old", rejected=3)) as collector:
        monkeypatch.setenv(COLLECTOR, collector.address)
        send_traces(perfdb, runs, ctx)
        assert len(collector.spans) == 21
        send_traces(perfdb, runs, ctx)
        assert collector.requests == 2
    counts = {"unknown": 0, "not_sent": 0, "repeated": 0}
    told = {
        "to": collector.address,
        "spans": 12,
        "accepted": 9,
        "rejected": 3,
        **counts,
        "problem": "too old",
    }
    fine = {"to": collector.address, "spans": 12, "accepted": 12, "rejected": 0, **counts}
    both = [sent("quick"), sent("slow")]
    assert sorted(both, key=lambda each: each["accepted"]) == [told, fine]
    assert sent("failed") == sent("plain") == {}


def test_a_report_that_was_killed_amid_sending_sends_the_same_ids_again(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says what the collector has by then: the whole trace goes there, and each span is the one it was, with
    its ids, parent and times."""
    seed(perfdb, tmp_path)
    monkeypatch.setattr("inferbench_tasks.tracing.push.send.MOST_SPANS", 5)

    class Killed(BaseException):
        pass

    def killed(done: float, total: float | None, text: str) -> None:
        raise Killed

    with collecting("http") as collector:
        monkeypatch.setenv(COLLECTOR, collector.address)
        with pytest.raises(Killed):
            send_traces(perfdb, ["quick"], Context(data_dir=tmp_path, progress=killed))
        first = list(collector.spans)
        assert len(first) == 5 and "sent" not in perfdb.get_result("quick").extensions["trace"]
        send_traces(perfdb, ["quick"], Context(data_dir=tmp_path))
        assert collector.spans[5:10] == first
        assert len(collector.spans) == 17 and len(set(collector.spans)) == 12
        assert len({(trace, span) for trace, span, *_ in collector.spans}) == 12
    assert perfdb.get_result("quick").extensions["trace"]["sent"]["accepted"] == 12


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9", pytest.param("grpc://127.0.0.1:9", marks=pytest.mark.long), "ftp://x"]
)
def test_a_collector_that_is_away_leaves_runs_alone(
    address: str, perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is raised, verdict and spans stay, and each result says that its spans were not sent, and why."""
    seed(perfdb, tmp_path)
    before = perfdb.get_result("quick")
    monkeypatch.setenv(COLLECTOR, address)
    send_traces(perfdb, ["quick", "slow"], Context(data_dir=tmp_path), give_up_after_s=0.2)
    for run in ("quick", "slow"):
        sent = perfdb.get_result(run).extensions["trace"]["sent"]
        assert (sent["accepted"], sent["not_sent"], sent["spans"]) == (0, 12, 12)
        assert "can't be reached" in sent["problem"] or COLLECTOR in sent["problem"]
    after = perfdb.get_result("quick")
    assert after.verdict == before.verdict and after.summary == before.summary
    assert after.extensions["trace"]["file"] == before.extensions["trace"]["file"]
