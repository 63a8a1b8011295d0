"""A real language model on llama.cpp, from its YAML to PerfDB: what the client counted against what the server did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.formats.token_counter import token_counter
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

TEXT = """
name: smol
model: {kind: zoo, name: smollm2-135m}
convert: {format: gguf}
serve: {backend: llama_cpp, slots: 2, context_tokens: 512}
requests:
  kind: prompts
  input_tokens: {kind: uniform, min: 10, max: 20}
  output_tokens: {kind: fixed, value: 8}
load:
  protocol: openai
  arrivals: {kind: closed_loop, concurrency: 1}
  duration_s: 4
  warmup_s: 0.5
  timeout_ms: 60000
  wait_for_quiet_s: 0
"""
#: What the model's own template puts around a prompt.
TEMPLATE = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
)


def run(
    tmp_path: Path, perfdb_uri: str, text: str, data: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """``inferbench run`` of a YAML, by default with a data directory of its own."""
    file = tmp_path / "smol.yaml"
    file.write_text(text)
    env = {
        **os.environ,
        settings.PERFDB_URI: perfdb_uri,
        settings.DATA_DIR: str(data or tmp_path / "data"),
        MODE: "note",
    }
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=1400)


def test_a_real_model_s_tokens_are_those_that_its_server_made(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """Each answer has all the tokens that were asked for, and llama.cpp's own counter made no more than those of the
    requests that it was sent; the model says what it is.

    A model whose context is shorter than what is asked for is refused with the remedy, and no server is left.
    """
    done = run(tmp_path, perfdb_uri, TEXT)
    assert done.returncode in (0, 1), done.stderr
    (row,) = json.loads(done.stdout)
    result = perfdb.get_result(row["run_id"])
    assert result.verdict.kind != "failed", result.verdict
    model, backend = result.model, result.backend
    assert (model.precision, model.parameters, model.task) == ("q4_1", 134_515_008, "text-generation")
    assert backend.settings["slots"] == 2 and "llama.cpp b" in (backend.label or "")
    tokens = result.summary.model_dump()["tokens"]
    assert tokens["requests"] > 0 and tokens["ttft_ms"]["min"] > 0
    files = {name: Attachment.model_validate(f) for name, f in result.extensions["streams"].items()}
    streams = pq.read_table(pa.BufferReader(perfdb.files.get(files["streams"]))).to_pydict()
    finished = [count for count in streams["output_tokens"] if count > 0]
    assert set(finished) == {8}
    # Exactly the tokens that were asked for, by the server's own count, and around them those of the template.
    (file,) = (tmp_path / "data").rglob("model.gguf")
    tokenizer = token_counter(file)
    assert tokenizer is not None and tokenizer.count([TEMPLATE]) == [30]
    sent = [count for count in streams["prompt_tokens"] if count >= 0]
    assert sent and all(10 + 30 <= count <= 20 + 30 for count in sent)
    counts = result.certificate["figures"]
    assert (counts["template_tokens"], counts["prompt_tokens_error_ratio"]) == (30, 0.0)
    assert counts["answer_tokens_error_ratio"] < 0.1
    (monitors,) = (tmp_path / "data" / "runs").glob("*/monitors.parquet")
    table = pq.read_table(monitors).to_pydict()
    made = [
        v
        for name, v in zip(table["metric"], table["value"], strict=True)
        if name.endswith("tokens_predicted_total")
    ]
    assert 0 < made[-1] - made[0] <= 8 * len(streams["output_tokens"])

    refused = run(tmp_path, perfdb_uri, TEXT.replace("context_tokens: 512", "context_tokens: 9000"))
    assert refused.returncode == 1
    assert "set serve.context_tokens: 8192" in json.dumps(json.loads(refused.stdout)) + refused.stderr
    assert not list(settings.servers_dir(tmp_path / "data").glob("*.json"))
