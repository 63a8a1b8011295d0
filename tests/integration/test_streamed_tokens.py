"""Streams of tokens over real sockets from a real process, whose own log is what the client is held to.

No moment is compared with a limit in ms: a chunk can't arrive before it was written, and everything else is counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.clients.base import OK
from inferbench_tasks.clients.openai_form import NONE
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.records import codes, read_samples
from inferbench_tasks.loadgen.server_side import SERVER_STREAMS
from inferbench_tasks.loadgen.token_load import words
from inferbench_tasks.loadgen.token_records import CHUNKS, SERVER_TIMES, STREAMS, STREAMS_WRITTEN, read_table
from tests.llm_stand_in import StandIn, stand_in
from tests.streamed_load import loaded

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """One that every test of the module asks for a pace of its own, by the model's name."""
    with stand_in(tmp_path_factory.mktemp("stand-in"), "--pace", "ttft_ms=20,gap_ms=4") as running:
        yield running


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_a_loads_records_are_what_the_server_did(server: StandIn, tmp_path: Path, client: str) -> None:
    """Request by request: as many chunks and tokens, none before it was written, all between send and end."""
    before = len(server.log())
    model = "stand-in:ttft_ms=10,gap_ms=3,tokens_per_chunk=4,cached_tokens=5"
    plan, outcome, tokens = loaded(server, tmp_path, model, client=client)
    samples = read_samples(outcome.samples_path)
    status, names = codes(samples, "status")
    assert {names[code] for code in status} == {OK}
    # What the server got first was sent first; only requests that overlap by microseconds could change places.
    log = sorted(server.log()[before:], key=lambda entry: entry["chunks"][0][0])
    streams, metadata = read_table(tmp_path / "streams.parquet", STREAMS)
    chunks, _ = read_table(tmp_path / "chunks.parquet", CHUNKS)
    assert metadata["stamp"] == tokens["stamp"]["by"] == ("kernel" if client == "fast" else "read")
    assert len(log) == len(streams["request_id"]) == samples.num_rows
    token = chunks["kind"] != NONE
    assert (np.bincount(chunks["request_id"][token]) == 3).all()
    assert set(streams["output_tokens"]) == {12} and set(streams["cached_tokens"]) == {5}
    assert set(streams["prompt_tokens"]) == {entry["prompt_tokens"] for entry in log} == {20}
    assert set(streams["first_chunk_tokens"]) == {4}
    written = np.array([[moment for moment, _ in entry["chunks"]] for entry in log])
    arrived = chunks["arrival_ns"][token].reshape(-1, 3)
    arrived = arrived[np.argsort(arrived[:, 0])]
    assert (np.sort(arrived, axis=0) >= np.sort(written, axis=0)).all()
    by_id = {row["request_id"]: row for row in samples.to_pylist()}
    for row, last_ns in zip(streams["request_id"].tolist(), streams["last_token_ns"].tolist(), strict=True):
        record = by_id[row]
        assert (
            record["intended_ns"]
            <= record["sent_ns"]
            <= record["first_byte_ns"]
            <= last_ns
            <= record["done_ns"]
        )
    # The server's word went out in the last chunk and stands in its log: the same of each, in its own column.
    told, _ = read_table(tmp_path / "streams.parquet", SERVER_STREAMS)
    columns = {name: told[f"server_{name}"] for name in SERVER_TIMES}
    said = sorted(zip(*(columns[name].tolist() for name in SERVER_TIMES), strict=True))
    assert said == sorted(
        (*(round(entry["timings"][f"{name}_ms"] * 1000) for name in ("queue", "prompt")), 15, 5,
         round(entry["timings"]["predicted_ms"] * 1000), 12, 8)
        for entry in log
    )  # fmt: skip
    assert [entry["timings"]["predicted_ms"] * 1e6 for entry in log] == pytest.approx(
        [entry["chunks"][-1][0] - entry["chunks"][0][0] for entry in log]
    )
    assert tokens["tokens_per_chunk"] == 4.0
    assert tokens["ttft_ms"]["min"] >= 10 and tokens["latency_ms"]["min"] >= 16
    assert any("no model" in word for word in words(plan, tokens))
    assert not list((tmp_path / "load").glob("*.streams"))


def test_a_tokenizer_counts_what_the_server_does_not(server: StandIn, tmp_path: Path) -> None:
    """Words are tokens here, as the stand-in's are: without usage the same figures; with it both are compared."""
    file = tmp_path / "tokenizer.json"
    words_tokenizer(file)
    chosen: dict[str, Any] = {"tokens": {"tokenizer": file}, "arrivals": "closed_loop:2", "max_requests": 20}
    model = "stand-in:ttft_ms=5,gap_ms=1,tokens_per_chunk=4"
    plan, outcome, tokens = loaded(server, tmp_path / "none", f"{model},fault=no_usage", **chosen)
    assert tokens["output_tokens_by"] == {"usage": 0, "tokenizer": tokens["requests"], "nobody": 0}
    assert (tokens["tokens_per_chunk"], tokens["output_tokens_mean"]) == (4.0, 12.0)
    assert tokens["tpot_ms"]["count"] > 0 and tokens["output_tokens_per_s"] > 0
    assert tokens["input_tokens_per_s"] is None and "usage" in tokens["reasons"]["input_tokens_per_s"]
    assert any("told no `usage`" in word for word in words(plan, tokens))
    assert outcome.certificate(plan).figures["answer_tokens_error_ratio"] is None
    streams, _ = read_table(tmp_path / "none" / "streams.parquet", STREAMS_WRITTEN)
    assert set(streams["output_tokens"]) == {-1} and set(streams["text_tokens"]) == {12}
    plan, outcome, tokens = loaded(server, tmp_path / "told", model, **chosen)
    assert tokens["output_tokens_by"] == {"usage": tokens["requests"], "tokenizer": 0, "nobody": 0}
    figures = outcome.certificate(plan).figures
    assert (figures["prompt_tokens_error_ratio"], figures["answer_tokens_error_ratio"]) == (0.0, 0.0)
    assert set(read_inputs(plan.inputs_path)["text_tokens"]) == {26}
    _, _, tokens = loaded(server, tmp_path / "both", f"{model},fault=no_usage", **{**chosen, "tokens": {}})
    assert tokens["output_tokens_per_s"] is None and tokens["tpot_ms"]["count"] == 0
    with pytest.raises(InputError, match="--tokenizer: .*missing.json can't be read"):
        loaded(server, tmp_path / "no", model, tokens={"tokenizer": tmp_path / "missing.json"})


def words_tokenizer(path: Path) -> None:
    """A ``tokenizer.json`` for which what stands between blanks is a token."""
    from tokenizers import Tokenizer as Made
    from tokenizers import models, pre_tokenizers

    tokenizer: Any = Made(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))


def test_bad_streams_are_failures_of_the_load(server: StandIn, tmp_path: Path) -> None:
    """In the records, by name, with the first words; none of them gives a figure."""
    _, outcome, tokens = loaded(server, tmp_path, "stand-in:ttft_ms=1,gap_ms=0.1,fault=bad_json")
    status, names = codes(outcome.table(), "status")
    assert Counter(names[code] for code in status) == {"stream_json": len(status)}
    assert outcome.applied.explanations["stream_json"].startswith("an event is not JSON")
    assert tokens["ttft_ms"]["count"] == 0 and tokens["good"] == 0 and tokens["good_ratio"] == 0.0


def test_a_server_that_keeps_its_stream_back_is_told(server: StandIn, tmp_path: Path) -> None:
    """Users who wait for their answers: there is no time per token, and the reason stands beside it."""
    plan, _, tokens = loaded(
        server,
        tmp_path,
        "stand-in:ttft_ms=5,gap_ms=0.5,fault=buffered",
        arrivals="closed_loop:2",
        max_requests=20,
    )
    assert tokens["buffered"] == tokens["ttft_ms"]["count"] > 0
    assert tokens["tpot_ms"]["count"] == 0 and tokens["user_tokens_per_s"]["count"] == 0
    assert any(word.startswith("tpot_ms:") and "came at once" in word for word in words(plan, tokens))


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_a_server_that_closes_connections_without_a_word_loses_no_request(
    server: StandIn, tmp_path: Path, client: str
) -> None:
    """As llama.cpp's does after each stream, though it promises to keep them: that is told once, and no failure."""
    model = "stand-in:ttft_ms=5,gap_ms=0.5,keep=false"
    _, outcome, tokens = loaded(
        server, tmp_path, model, arrivals="closed_loop:2", max_requests=40, client=client
    )
    status, names = codes(outcome.table(), "status")
    assert Counter(names[code] for code in status) == {OK: len(status)}
    assert len(status) > 4 and tokens["ttft_ms"]["count"] > 0
    assert set(outcome.applied.explanations) <= {"kept_connection"}


def test_the_command_tells_figures_objective_and_where_the_records_are(
    server: StandIn, tmp_path: Path
) -> None:
    """Also that the server is no model; the model's name is asked for where only one is served."""
    command = [
        sys.executable, "-m", "inferbench_tasks.cli.main", "load", "run", "--protocol", "openai", "--url", server.url,
        "--arrivals", "constant:20", "--duration", "1", "--warmup", "0", "--output-tokens", "uniform:min=4,max=8",
        "--ttft-ms", "60000", "--tpot-ms", "60000", "--save", str(tmp_path / "load"), "-o", "json",
    ]  # fmt: skip
    environment = {**os.environ, "INFERBENCH_DATA_DIR": str(tmp_path / "data")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    document = json.loads(done.stdout)
    tokens = document["summary"]["tokens"]
    assert tokens["requests"] == 20 and 4 <= tokens["output_tokens_mean"] <= 8
    assert (tokens["each"], tokens["good_ratio"]) == ({"ttft_ms": 60000, "tpot_ms": 60000}, 1.0)
    assert document["summary"]["goodput_rps"] == 20.0
    (ceiling,) = [check for check in document["certificate"]["checks"] if check["name"] == "chunk_ceiling"]
    assert 0 < ceiling["value"] < ceiling["limit"] == 0.5
    assert document["ceiling"]["protocol"] == "openai" and document["ceiling"]["requests_per_s"] > 0
    assert any("no model" in warning for warning in document["certificate"]["warnings"])
    assert {path.name for path in (tmp_path / "load").glob("*.parquet")} == {
        "samples.parquet", "streams.parquet", "chunks.parquet"
    }  # fmt: skip
