"""Servers of streams that are not there yet, die amid the load, or answer what nobody can use: what is said of them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends.probes.openai import OpenAIProbe
from inferbench_tasks.clients.base import OK
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.records import codes
from inferbench_tasks.loadgen.token_load import TokenOptions, token_figures, words
from inferbench_tasks.loadgen.token_summary import Each
from tests.llm_stand_in import StandIn, stand_in

pytestmark = pytest.mark.integration
CLIENTS = pytest.mark.parametrize("client", ["fast", pytest.param("reference", marks=pytest.mark.long)])
KEY = "sk-test-0123456789"
EACH = Each(ttft_ms=60_000)
#: What the client's own failure would be called; none of these is the server's.
ENDS = {OK, "reset", "connection"}


def plan_of(url: str, folder: Path, arrivals: str = "constant:40", **options: Any) -> Any:
    """Of a load without the client's ceiling, which goes on whatever fails."""
    fields = {"duration_s": 1.5, "warmup_s": 0.0, "timeout_ms": 10_000.0, "max_error_ratio": 1.0, "shards": 1}
    tokens = TokenOptions(output_tokens={"kind": "fixed", "value": 12}, each=EACH)
    asked = standalone.Asked(
        url=url, arrivals=arrivals, options={**fields, **options}, model="stand-in", protocol="openai",
        tokens=tokens,
    )  # fmt: skip
    return standalone.plan(asked, folder)


def loaded(plan: Any, folder: Path) -> tuple[Outcome, dict[str, Any], Counter[str]]:
    """Outcome, figures of tokens and how many requests ended in which way."""
    outcome = apply_load(plan, folder / "samples.parquet")
    status, names = codes(outcome.table(), "status")
    return outcome, token_figures(plan, outcome, EACH), Counter(names[code] for code in status)


Answer = Callable[[str, str], tuple[int, bytes]]


@contextmanager
def answering(answer: Answer, *, once: bool = False, closed: list[str] | None = None) -> Iterator[str]:
    """A server that answers each path, and the key it was sent, with a status and a body; ``once``: on each connection,
    which it closes at the next request. What was closed so is put into ``closed``."""
    dropped = [] if closed is None else closed

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        used = False

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if once and self.used:
                self.close_connection = True
                dropped.append(self.path)
                return
            self.used = True
            status, body = answer(self.path, self.headers.get("Authorization", "").removeprefix("Bearer "))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 307:
                self.send_header("Location", f"http://127.0.0.1:9/{body.decode()}")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def stream(*, usage: bool = True) -> bytes:
    """Six chunks with a token each."""
    chunks = [{"choices": [{"index": 0, "delta": {"content": " a"}}]}] * 6
    end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if usage:
        end["usage"] = {"prompt_tokens": 3, "completion_tokens": 6}
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in [*chunks, end])


@CLIENTS
def test_a_server_that_closes_a_kept_connection_at_the_next_request(tmp_path: Path, client: str) -> None:
    """Requests that it gave no answer are sent again, that is told, and from then on each has a connection of its own:
    no failure, and none but the first waited for a dead one, whatever the client."""
    closed: list[str] = []
    with answering(lambda path, key: (200, stream()), once=True, closed=closed) as url:
        plan = plan_of(url, tmp_path, arrivals="closed_loop:1", max_requests=20, client=client)
        outcome, _, ends = loaded(plan, tmp_path)
    assert ends.keys() == {OK} and ends.total() >= 8
    assert set(outcome.applied.explanations) == {"kept_connection"}
    assert 1 <= len(closed) <= 2


@CLIENTS
def test_a_server_that_is_killed_amid_streams(tmp_path: Path, client: str) -> None:
    """By SIGKILL in the middle of the load: every request has a record, each failure a name, each is bad, what
    failures may belong to has no percentile, and no process of the load is left."""
    before = children()
    with stand_in(tmp_path, "--pace", "ttft_ms=50,gap_ms=20") as server:
        plan = plan_of(server.url, tmp_path, client=client)
        killer = threading.Thread(target=kill_amid, args=(server,))
        killer.start()
        outcome, tokens, ends = loaded(plan, tmp_path)
        killer.join()
    assert ends.keys() <= ENDS
    assert (
        ends[OK] > 0 and ends["reset"] > 0 and ends["reset"] + ends["connection"] == ends.total() - ends[OK]
    )
    assert tokens["good"] == ends[OK] and tokens["good_ratio"] == ends[OK] / ends.total() < 1
    for name in ("ttft_ms", "latency_ms", "tpot_ms"):
        assert tokens[name]["p99"] is None, name
    certificate = outcome.certificate(plan)
    assert certificate.figures["errors"] == {name: count for name, count in ends.items() if name != OK}
    assert {"errors"} <= {check.name for check in certificate.checks if not check.ok}
    assert children() == before


def kill_amid(server: StandIn) -> None:
    """Once it has answered fifteen requests: some ten are in the midst of their streams then."""
    deadline_s = time.monotonic() + 60
    while len(server.log()) < 15 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    os.kill(server.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ('{"dies_after_answers": 21}', None),
        ('{"answers": {"kind": "error_event", "every": 4}}', {OK: 45, "stream_error": 15}),
        ('{"answers": {"kind": "cut", "every": 4}}', {OK: 45, "reset": 15}),
        ('{"answers": {"kind": "stall", "every": 4, "stall_ms": 3000}}', {OK: 60}),
    ],
)
def test_faults_that_a_submission_can_ask_for(
    tmp_path: Path, faults: str, expected: dict[str, int] | None
) -> None:
    """Of 60 requests so many end so as the fault says, by the stand-in's own word; what is good follows of it."""
    each = Each(ttft_ms=60_000, latency_ms=2_900)
    with stand_in(tmp_path, "--pace", "ttft_ms=50,gap_ms=20", "--faults", faults) as server:
        plan = plan_of(server.url, tmp_path)
        outcome = apply_load(plan, tmp_path / "samples.parquet")
        log = server.log()
    tokens = token_figures(plan, outcome, each)
    status, names = codes(outcome.table(), "status")
    ends = Counter(names[code] for code in status)
    if expected is None:
        assert len(log) == ends[OK] == tokens["good"] == 21
        assert ends.keys() == {OK, "reset", "connection"} and ends.total() == 60
        return
    wrong = [entry for entry in log if entry["fault"] != "none" or entry["stall_ms"]]
    assert ends == expected and (len(log), len(wrong)) == (60, 15)
    assert (tokens["good"], tokens["good_ratio"]) == (45, 0.75)


def test_a_server_that_loads_again_amid_the_load(tmp_path: Path) -> None:
    """503 from its start, and again after twenty answers: those that came then are failures, each by the stand-in's own
    word, and the others are good.
    """
    faults = json.dumps({"loading_s": 0.5, "reloads_after_answers": 20})
    with stand_in(tmp_path, "--pace", "ttft_ms=50,gap_ms=20", "--faults", faults) as server:
        probe = OpenAIProbe(
            Endpoint(protocol="openai", host="127.0.0.1", port=server.port, model_name="stand-in"), 5
        )
        try:
            assert probe.live() and not probe.ready()
            while not probe.ready():
                time.sleep(0.01)
        finally:
            probe.close()
        outcome, tokens, ends = loaded(plan_of(server.url, tmp_path), tmp_path)
        refused = sum(entry["fault"] == "loading" for entry in server.log())
    assert refused >= 10 and ends == {OK: 60 - refused, "http_5xx": refused}
    assert "Loading model" in outcome.applied.explanations["http_5xx"]
    assert tokens["good"] == 60 - refused and tokens["good_ratio"] == (60 - refused) / 60


def children() -> set[str]:
    """Processes that this one started and that are there."""
    return set(Path("/proc/self/task").joinpath(str(os.getpid()), "children").read_text().split())


def test_a_server_that_loads_its_model_is_not_ready(tmp_path: Path) -> None:
    """503 and words until it is: it is there, and not ready; before that no load begins."""
    state = {"status": 503}

    def answer(path: str, key: str) -> tuple[int, bytes]:
        if state["status"] != 200:
            return state["status"], b"Loading model"
        return 200, b'{"data": [{"id": "stand-in"}]}' if path.endswith("models") else stream()

    with answering(answer) as url:
        where = Endpoint(
            protocol="openai", host="127.0.0.1", port=int(url.rpartition(":")[2]), model_name="stand-in"
        )
        probe = OpenAIProbe(where, 5)
        try:
            plan = plan_of(url, tmp_path)
            assert probe.live() and not probe.ready()
            with pytest.raises(InputError, match=r"http_5xx: HTTP 503: Loading model"):
                standalone.check_target(plan)
            state["status"] = 200
            assert probe.live() and probe.ready()
            standalone.check_target(plan)
        finally:
            probe.close()


@CLIENTS
def test_refusals_in_a_load_are_failures_and_no_answers(tmp_path: Path, client: str) -> None:
    """The first twenty requests meet 503: so many failures of that name, with the words, none of them good."""
    asked: list[str] = []

    def answer(path: str, key: str) -> tuple[int, bytes]:
        asked.append(path)
        return (503, b"Loading model") if len(asked) <= 20 else (200, stream())

    with answering(answer) as url:
        outcome, tokens, ends = loaded(plan_of(url, tmp_path, client=client, duration_s=1.0), tmp_path)
    assert ends == {"http_5xx": 20, OK: 20}
    assert outcome.applied.explanations["http_5xx"] == "HTTP 503: Loading model"
    assert (tokens["good"], tokens["good_ratio"]) == (20, 0.5)
    assert tokens["ttft_ms"]["count"] == 20 and tokens["ttft_ms"]["p99"] is None


def test_tokens_that_nobody_counted_are_null_and_that_is_said(tmp_path: Path) -> None:
    """Without usage and tokenizer: no tokens, no tokens/s and no time per token, each with its reason."""
    with answering(lambda path, key: (200, stream(usage=False))) as url:
        plan = plan_of(url, tmp_path, duration_s=0.5)
        _, tokens, _ = loaded(plan, tmp_path)
    assert (tokens["output_tokens_mean"], tokens["output_tokens_per_s"]) == (None, None)
    assert tokens["tokens_per_chunk"] is None and tokens["tpot_ms"]["count"] == 0
    said = words(plan, tokens)
    for name in ("tpot_ms", "output_tokens_per_s", "input_tokens_per_s"):
        assert any(word.startswith(f"{name}: ") and "usage" in word for word in said), name


def test_a_key_in_a_redirect_or_in_a_models_name_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect is followed nowhere and is a failure; names of models are shown without the key, or not at all."""
    monkeypatch.setenv("A_KEY", KEY)

    def answer(path: str, key: str) -> tuple[int, bytes]:
        named = json.dumps({"data": [{"id": f"m-{key}"}, {"id": "n"}]}).encode()
        return (200, named) if path.endswith("models") else (307, key.encode())

    with answering(answer) as url:
        asked: dict[str, Any] = {
            "url": url, "arrivals": "constant:40", "protocol": "openai", "tokens": TokenOptions(api_key_env="A_KEY"),
            "options": {"duration_s": 0.5, "max_error_ratio": 1.0},
        }  # fmt: skip
        with pytest.raises(InputError, match="the API key in their names") as raised:
            standalone.plan(standalone.Asked(**asked), tmp_path / "names")
        assert KEY not in str(raised.value)
        plan = standalone.plan(standalone.Asked(**asked, model="m"), tmp_path / "load")
        with pytest.raises(InputError, match=r"http_3xx: HTTP 307: \*\*\*"):
            standalone.check_target(plan)
        outcome, _, ends = loaded(plan, tmp_path)
    assert ends.keys() == {"http_3xx"} and outcome.applied.explanations == {"http_3xx": "HTTP 307: ***"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
