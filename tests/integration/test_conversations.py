"""Conversations over real sockets with the stand-in, whose log says how many words each request carried.

An answer of the stand-in has as many words as tokens, so that what a turn carries can be counted beforehand.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.certificate import Certificate
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.records import codes, column, read_samples
from inferbench_tasks.loadgen.token_load import TokenOptions, token_figures
from inferbench_tasks.loadgen.token_records import STREAMS_WRITTEN, read_table
from inferbench_tasks.loadgen.token_summary import Each
from inferbench_tasks.requests.prompts import TraceFile
from tests.llm_stand_in import StandIn, stand_in

pytestmark = pytest.mark.integration
#: Checks that only say what the machine was busy with.
BY_THE_MACHINE = {
    "client_stall", "client_stalled", "client_cpu", "client_share", "client_share_p50", "lateness_p50", "lateness_p99",
    "lateness_max", "gaps", "rate", "in_flight", "littles_law", "stamp_delay_p99", "clock_step",
}  # fmt: skip
TALKS = [
    [("system", "be short"), ("user", "one two"), ("assistant", "left out"), ("user", "three"), ("user", "four")],
    [("user", "five six seven")],
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """Answers in 9 ms, or with a fault that a model's name asks for."""
    with stand_in(tmp_path_factory.mktemp("stand-in"), "--pace", "ttft_ms=5,gap_ms=1") as running:
        yield running


def written(folder: Path) -> Path:
    """Two conversations, of three turns and of one."""
    path = folder / "talks.jsonl"
    lines = [{"messages": [{"role": role, "content": text} for role, text in talk]} for talk in TALKS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def talk(
    server: StandIn, folder: Path, arrivals: str, *, model: str = "stand-in", shards: int = 1, client: str = "fast",
    **tokens: Any,
) -> tuple[dict[str, Any], Certificate, dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """A load of conversations: its records with turn and session, certificate, figures, and the server's log of it."""
    before = len(server.log())
    asked = standalone.Asked(
        url=server.url, arrivals=arrivals, protocol="openai", model=model,
        options={"duration_s": 1.2, "warmup_s": 0.3, "timeout_ms": 30_000.0, "shards": shards, "client": client},
        tokens=TokenOptions(output_tokens={"kind": "fixed", "value": 5}, **tokens),
    )  # fmt: skip
    plan = standalone.plan(asked, folder)
    outcome = apply_load(plan, folder / "samples.parquet")
    assert outcome.applied.problem is None and outcome.streams is not None
    table = read_samples(outcome.samples_path)
    names = ("request_id", "intended_ns", "sent_ns", "done_ns", "sample_index", "shard")
    records: dict[str, Any] = {name: column(table, name) for name in names}
    status, kinds = codes(table, "status")
    records |= {"status": np.array(kinds)[status]}
    records |= {
        "session": records["request_id"] % plan.turn_step,
        "turn": records["request_id"] // plan.turn_step,
    }
    streams, _ = read_table(outcome.streams.streams_path, STREAMS_WRITTEN)
    records["streams"] = streams
    certificate = outcome.certificate(plan)
    return records, certificate, token_figures(plan, outcome, Each(), certificate), server.log()[before:]


def held_against(certificate: Certificate) -> set[str]:
    """What does not come from a busy machine."""
    return {check.name for check in certificate.checks if not check.ok} - BY_THE_MACHINE


@pytest.mark.parametrize(
    ("arrivals", "shards", "client"),
    [("poisson:30", 1, "fast"), ("poisson:30", 2, "reference"), ("closed_loop:4", 2, "fast")],
)
def test_every_turn_carries_what_was_said_and_is_due_after_the_answer(
    server: StandIn, tmp_path: Path, arrivals: str, shards: int, client: str
) -> None:
    """By the server's own count of words; each turn is meant for the nanosecond at which its user had thought."""
    think_ms = 20
    records, certificate, tokens, log = talk(
        server, tmp_path, arrivals, shards=shards, client=client, salt=False, conversations=written(tmp_path),
        think_time_ms={"kind": "fixed", "value": think_ms},
    )  # fmt: skip
    # be short + one two; + 5 words of the answer + three; + 5 + four. The other conversation has three words.
    expected = {(0, 0): 4, (0, 1): 10, (0, 2): 16, (1, 0): 3}
    place = {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (1, 0)}
    streams = records["streams"]
    row = {
        int(number): int(index)
        for number, index in zip(records["request_id"], records["sample_index"], strict=True)
    }
    carried = [
        (expected[place[row[int(number)]]], int(words), int(turn))
        for number, words, turn in zip(
            streams["request_id"], streams["prompt_tokens"], streams["turn"], strict=True
        )
    ]
    assert len(carried) > 10 and all(wanted == words for wanted, words, _ in carried)
    assert {turn for _, _, turn in carried} == {0, 1, 2}
    assert Counter(int(words) for words in streams["prompt_tokens"]) == Counter(
        entry["prompt_tokens"] for entry in log
    )
    by_number = {int(number): at for at, number in enumerate(records["request_id"])}
    step = int(records["request_id"].max()) // max(int(records["turn"].max()), 1)
    later = np.flatnonzero(records["turn"] > 0)
    assert len(later)
    for at in later.tolist():
        (before,) = [
            i for i in by_number.values()
            if records["session"][i] == records["session"][at] and records["turn"][i] == records["turn"][at] - 1
        ]  # fmt: skip
        assert records["intended_ns"][at] == records["done_ns"][before] + think_ms * 1_000_000
    assert step > 0 and (records["sent_ns"] >= records["intended_ns"]).all()
    assert held_against(certificate) == set()
    assert [turn["turn"] for turn in tokens["by_turn"]] == [1, 2, 3]
    assert sum(turn["requests"] for turn in tokens["by_turn"]) == tokens["requests"]
    assert tokens["mlperf_endpoints"] is None


def test_a_session_ends_with_an_answer_that_is_none(server: StandIn, tmp_path: Path) -> None:
    """HTTP says that all is well; what the stream says, the next turn can't go on from, and users begin anew."""
    records, certificate, tokens, _ = talk(
        server, tmp_path, "closed_loop:2", model="stand-in:ttft_ms=5,gap_ms=1,fault=error_event",
        conversations=written(tmp_path),
    )  # fmt: skip
    assert set(records["status"]) == {"stream_error"} and set(records["turn"].tolist()) == {0}
    assert tokens["good"] == 0 and held_against(certificate) == {"errors"}


def test_records_without_a_turn_that_was_due_are_noticed(server: StandIn, tmp_path: Path) -> None:
    """A certificate that knew the first turns alone would take half a load for a whole one."""
    import pyarrow.parquet as pq

    asked = standalone.Asked(
        url=server.url, arrivals="poisson:30", protocol="openai", model="stand-in",
        options={"duration_s": 1.2, "warmup_s": 0.3, "timeout_ms": 30_000.0, "shards": 1},
        tokens=TokenOptions(output_tokens={"kind": "fixed", "value": 5}, turns={"kind": "fixed", "value": 3}),
    )  # fmt: skip
    plan = standalone.plan(asked, tmp_path)
    outcome = apply_load(plan, tmp_path / "samples.parquet")
    assert held_against(outcome.certificate(plan)) == set()
    table = read_samples(outcome.samples_path)
    # The last turns: nothing follows them.
    due = np.flatnonzero(column(table, "request_id") >= 2 * plan.turn_step)
    inside = column(table, "intended_ns")[due] >= outcome.measure_start_ns
    lost = int(due[inside][len(due[inside]) // 2])
    pq.write_table(table.take([at for at in range(table.num_rows) if at != lost]), outcome.samples_path)
    assert {"schedule", "unrecorded"} <= held_against(outcome.certificate(plan))


@pytest.mark.parametrize(
    ("tokens", "arrivals", "words"),
    [
        ({"api": "completions"}, "poisson:5", "use chat"),
        ({}, "offline:100", "no beginnings of conversations"),
        ({"turns": {"kind": "fixed", "value": 900}}, "poisson:2000", "more than 400,000 requests"),
    ],
)
def test_what_no_conversation_can_be_is_refused(
    tmp_path: Path, tokens: dict[str, Any], arrivals: str, words: str
) -> None:
    """Before anything is sent."""
    fields = {"turns": {"kind": "fixed", "value": 2}, **tokens}
    asked = standalone.Asked(
        url="http://127.0.0.1:9", arrivals=arrivals, protocol="openai", model="m", options={},
        tokens=TokenOptions(**fields),
    )  # fmt: skip
    with pytest.raises(InputError, match=words):
        standalone.plan(asked, tmp_path)


def test_a_trace_is_replayed_row_by_row(server: StandIn, tmp_path: Path) -> None:
    """Each moment with its own tokens, by the server's count, whoever sends it and whatever the warm-up sent."""
    rows = 24
    (tmp_path / "t.jsonl").write_text(
        "".join(
            json.dumps({"timestamp": 40 * row, "input_length": 13 * (row + 1), "output_length": 1 + row % 7})
            + "\n"
            for row in range(rows)
        )
    )
    arrivals = json.dumps({"kind": "trace", "path": "t.jsonl"})
    asked = standalone.Asked(
        url=server.url, arrivals=arrivals, protocol="openai", model="stand-in",
        options={"duration_s": 1.5, "warmup_s": 0.4, "timeout_ms": 30_000.0, "shards": 2},
        tokens=TokenOptions(trace=TraceFile(tmp_path, "t.jsonl"), salt=False),
    )  # fmt: skip
    here = os.getcwd()
    os.chdir(tmp_path)  # as a user's: the command line takes files from where it stands
    try:
        plan = standalone.plan(asked, tmp_path)
    finally:
        os.chdir(here)
    outcome = apply_load(plan, tmp_path / "samples.parquet")
    table = read_samples(outcome.samples_path)
    assert outcome.streams is not None
    streams, _ = read_table(outcome.streams.streams_path, STREAMS_WRITTEN)
    tokens = {
        int(number): (int(words), int(made))
        for number, words, made in zip(
            streams["request_id"], streams["prompt_tokens"], streams["output_tokens"], strict=True
        )
    }
    measured = column(table, "intended_ns") >= outcome.measure_start_ns
    offsets_ns = column(table, "intended_ns")[measured] - outcome.applied.start_ns - plan.measure_start_ns
    assert offsets_ns.tolist() == [40_000_000 * row for row in range(rows)]
    sent = [tokens[number] for number in column(table, "request_id")[measured].tolist()]
    assert sent == [(10 * (row + 1), 1 + row % 7) for row in range(rows)]
    assert held_against(outcome.certificate(plan)) == set()


@pytest.mark.parametrize(("cached", "against"), [(100, set()), (150, {"cached_though_salted"})])
def test_a_salted_prompt_is_in_no_cache(
    server: StandIn, tmp_path: Path, cached: int, against: set[str]
) -> None:
    """What a chat template shares may be; a server that finds more takes other prompts for these."""
    _, certificate, _, _ = talk(
        server, tmp_path, "poisson:30", model=f"stand-in:ttft_ms=2,gap_ms=0.5,cached_tokens={cached}",
        turns={"kind": "fixed", "value": 2},
    )  # fmt: skip
    assert held_against(certificate) == against
