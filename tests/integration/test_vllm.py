"""A real language model on vLLM and on llama.cpp, the same weights, from their YAML to PerfDB."""

from __future__ import annotations

import glob
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.backends.vllm import Vllm
from inferbench_tasks.perfdb.store import PerfDB
from tests.integration.test_llama_cpp import TEXT, run

BOTH = TEXT.replace("name: smol\n", "name: both\n").replace("duration_s: 4", "duration_s: 10")
BOTH += "sweep:\n  zip: {convert.format: [gguf, safetensors], serve.backend: [llama_cpp, vllm]}\n"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not os.environ.get("INFERBENCH_TEST_OPTIONAL"),
        reason="vLLM's environment takes 3.4 GB and minutes to install; INFERBENCH_TEST_OPTIONAL=1 runs it",
    ),
    pytest.mark.skipif(
        (why := Vllm.unavailable("process") if os.environ.get("INFERBENCH_TEST_OPTIONAL") else None)
        is not None,
        reason=str(why),
    ),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose environments are those of this machine's own, made once."""
    folder = tmp_path_factory.mktemp("data")
    envs = settings.data_dir() / "cache" / "envs"
    envs.mkdir(parents=True, exist_ok=True)
    (folder / "cache").mkdir()
    (folder / "cache" / "envs").symlink_to(envs, target_is_directory=True)
    return folder


def test_both_servers_say_what_is_known_of_the_model_and_count_the_same_tokens(
    tmp_path: Path, kept: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """Each run is stored, so that each server said the recorded sentence; prompts had exactly the tokens that were
    drawn, answers all that were asked for; vLLM's own counters have no more tokens than it was asked for. Nothing is
    left of it: no process, no shared memory, no link.
    """
    shared = set(glob.glob("/dev/shm/psm_*"))
    done = run(tmp_path, perfdb_uri, BOTH, kept)
    assert done.returncode in (0, 1), done.stderr
    results = {
        result.backend.kind: result
        for row in json.loads(done.stdout)
        for result in [perfdb.get_result(row["run_id"])]
    }
    assert results.keys() == {"llama_cpp", "vllm"}
    for kind, result in results.items():
        assert result.verdict.kind != "failed", (kind, result.verdict)
        figures = result.certificate["figures"]
        assert (figures["template_tokens"], figures["prompt_tokens_error_ratio"]) == (30, 0.0), kind
        assert tokens_of(result)["requests"] > 0 and tokens_of(result)["cached_ratio"] is not None
    vllm = results["vllm"]
    assert (vllm.model.precision, results["llama_cpp"].model.precision) == ("fp32", "q4_1")
    one, other = (result.model.model_dump()["source_digest"] for result in results.values())
    assert one == other
    assert vllm.backend.settings["slots"] == 2 and "vLLM 0.32.0" in (vllm.backend.label or "")
    counted = tokens_of(vllm)["server_counters"]
    assert counted["reason"] is None and counted["ttft_ms"] > 0 and counted["itl_ms"] > 0
    assert 0 <= counted["queue_ms"] < counted["ttft_ms"]
    assert tokens_of(vllm)["ttft_from_send_ms"]["mean"] > 0
    assert not [
        p for p in psutil.process_iter(["name"]) if p.info["name"].startswith("VLLM::") and of_ours(p, kept)
    ]
    assert set(glob.glob("/dev/shm/psm_*")) <= shared
    assert not glob.glob(f"{tempfile.gettempdir()}/ib-vl-*")


def test_a_context_that_the_model_does_not_have_is_refused_before_the_start(
    tmp_path: Path, kept: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """With the remedy; no server was there to end."""
    text = TEXT.replace("context_tokens: 512", "context_tokens: 9000").replace(
        "format: gguf", "format: safetensors"
    )
    refused = run(tmp_path, perfdb_uri, text.replace("llama_cpp", "vllm"), kept)
    assert refused.returncode in (1, 2)
    assert "set serve.context_tokens: 8192" in refused.stdout + refused.stderr
    assert not list(settings.servers_dir(kept).glob("*.json"))


def tokens_of(result: Any) -> dict[str, Any]:
    """The token figures of a result."""
    tokens: dict[str, Any] = result.summary.model_dump()["tokens"]
    return tokens


def of_ours(process: psutil.Process, data: Path) -> bool:
    """Whether a process is of a server of this data directory; one that ended meanwhile is not."""
    try:
        return process.cwd().startswith(str(data))
    except psutil.Error:
        return False
