"""A submission of streamed tokens, from its YAML to PerfDB, against the stand-in whose pace is known."""

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
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment
from inferbench_tasks.stages.prompted import options_of, plan_of, prompted
from inferbench_tasks.submission.schema import JobSpec
from tests.load_servers import endpoint

pytestmark = pytest.mark.integration

TEXT = """
name: paced
model: {kind: llm_stand_in, ttft_ms: 30, gap_ms: 2, tokens_per_chunk: 2, slots: 1}
convert: {format: llm_stand_in}
serve: {backend: llm_stand_in}
requests:
  kind: prompts
  input_tokens: {kind: uniform, min: 20, max: 60}
  output_tokens: {kind: fixed, value: 16}
load:
  protocol: openai
  arrivals: {kind: closed_loop, concurrency: 2}
  duration_s: 2
  warmup_s: 0.2
  wait_for_quiet_s: 0
slo: {each: {ttft_ms: 5}, min_good_ratio: 0.5}
"""


def test_tokens_of_a_submission_are_stored(tmp_path: Path, perfdb: PerfDB, perfdb_uri: str) -> None:
    """Tokens as they were counted, no answer within what no answer can keep, streams beside the records, and the label
    that says that this is no model.
    """
    file = tmp_path / "paced.yaml"
    file.write_text(TEXT)
    env = {
        **os.environ,
        settings.PERFDB_URI: perfdb_uri,
        settings.DATA_DIR: str(tmp_path / "data"),
        MODE: "note",
    }
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    (row,) = json.loads(done.stdout)
    result = perfdb.get_result(row["run_id"])
    assert result.verdict.kind != "failed", result.verdict
    assert "not a language model" in (result.backend.label or "")
    tokens = result.summary.model_dump()["tokens"]
    assert tokens["requests"] > 0 and tokens["tokens_per_chunk"] == 2.0
    assert "streams_path" not in tokens  # paths of this machine mean nothing in a result
    assert tokens["good"] == 0 and tokens["good_ratio"] == 0.0
    check = result.summary.model_dump()["slo"]["checks"]["good_ratio"]
    assert (check["bound"], check["value"], check["met"]) == (0.5, 0.0, False)
    assert result.summary.model_dump()["slo"]["verdict"] == "missed"
    files = {name: Attachment.model_validate(f) for name, f in result.extensions["streams"].items()}
    streams = pq.read_table(pa.BufferReader(perfdb.files.get(files["streams"])))
    chunks = pq.read_table(pa.BufferReader(perfdb.files.get(files["chunks"])))
    assert set(streams.column("output_tokens").to_pylist()) == {16}
    assert chunks.num_rows >= 8 * streams.num_rows


#: What the stand-in's jobs generate: no vocabulary.
MODEL = ModelArtifact(
    name="m",
    framework="none",
    format="llm_stand_in",
    precision="fp32",
    path="m",
    digest="0",
    inputs=(),
    outputs=(),
)


def job(**requests: object) -> JobSpec:
    """A job with prompts."""
    return JobSpec.model_validate(
        {
            "name": "x",
            "model": {"kind": "llm_stand_in"},
            "convert": {"format": "llm_stand_in"},
            "serve": {"backend": "llm_stand_in"},
            "requests": {"kind": "prompts", **requests},
            "load": {"protocol": "openai", "arrivals": {"kind": "poisson", "rate_rps": 5}, "duration_s": 4},
        }
    )


def bodies(tmp_path: Path, spec: JobSpec, number: int) -> list[str]:
    """What the prompts of one run say."""
    plan = plan_of(spec, spec.traffic, endpoint("openai", 1, "m"), tmp_path / str(number), tmp_path)
    from inferbench_tasks.loadgen.payloads import read_inputs

    return [json.loads(body)["messages"][0]["content"] for body in read_inputs(plan.inputs_path)["request"]]


def test_what_is_shared_comes_first_and_what_is_of_the_run_behind_it(tmp_path: Path) -> None:
    """Both prefixes are found again in the next run; behind them each run has a word of its own."""
    spec = job(shared_prefix={"groups": 2, "tokens": 40}, input_tokens={"kind": "fixed", "value": 30})
    first, second = bodies(tmp_path, spec, 1), bodies(tmp_path, spec, 2)
    words = round(40 / 1.3)  # its number among them
    shared = {" ".join(text.split()[:words]) for text in first}
    assert len(shared) == 2 and shared == {" ".join(text.split()[:words]) for text in second}
    salts = [{text.split()[words] for text in texts} for texts in (first, second)]
    assert [len(salt) for salt in salts] == [1, 1] and salts[0] != salts[1]


def test_without_salt_two_runs_ask_the_same(tmp_path: Path) -> None:
    """The seed decides all, so that a cache can be measured on purpose."""
    spec = job(salt=False)
    assert bodies(tmp_path, spec, 1) == bodies(tmp_path, spec, 2)


def test_defaults_are_those_of_the_command_line() -> None:
    """A submission that says nothing of lengths asks what `load run --protocol openai` asks."""
    options = options_of(job())
    assert (options.input_tokens["value"], options.output_tokens["value"], options.salt) == (200, 64, True)


def test_a_file_of_conversations_is_read_before_a_server_is_started(tmp_path: Path) -> None:
    """A line that is none stops the run in its first stage; good ones are drawn anew for each run's salt."""
    spec = job(kind="conversations", path="talks.jsonl")
    talks = tmp_path / "talks.jsonl"
    talks.write_text(
        json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + '\n{"messages": []}\n'
    )
    with pytest.raises(InputError, match=r"requests.path: talks.jsonl, line 2: no turn of a user"):
        prompted(spec, tmp_path, MODEL)
    (tmp_path.parent / "outside.jsonl").write_text(talks.read_text())
    (tmp_path / "link.jsonl").symlink_to(tmp_path.parent / "outside.jsonl")
    with pytest.raises(InputError, match="leads out of the submission's folder"):
        prompted(job(kind="conversations", path="link.jsonl"), tmp_path, MODEL)
    talks.write_text(talks.read_text().splitlines()[0])
    prompted(spec, tmp_path, MODEL)
    (first,), (second,) = bodies(tmp_path, spec, 1), bodies(tmp_path, spec, 2)
    assert first.split()[1] == second.split()[1] == "hello" and first != second
