"""AIPerf and GuideLLM as commands, beside ours: what each one says of a load, and the CPU time of the whole tool.

``python -m benchmarks.llm.peers`` makes their environments in ``build/llm-peers`` (1.5 GB); ``AIPERF`` and ``GUIDELLM``
name their commands where they are elsewhere. They are no part of the project's pins.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks.loadgen.token_records import STREAMS, read_table

PINS = {"aiperf": "aiperf==0.13.0", "guidellm": "guidellm==0.8.1"}
_HOME = Path("build/llm-peers")
_LIMIT_S = 300


@dataclass(frozen=True)
class Ask:
    """A load: ``users`` who wait for their answers, or ``rate_rps``; ``cores``: that it may use, None for all."""

    url: str
    requests: int
    tokens: int
    users: int | None = None
    rate_rps: float | None = None
    poisson: bool = True
    cores: str | None = None


@dataclass(frozen=True)
class Told:
    """What a tool says; times as {"p50": ms, "p99": ms}, from the send. ``cpu_s``: of all of its processes."""

    cpu_s: float
    tokens: int
    tokens_per_s: float
    ttft_ms: Mapping[str, float]
    tpot_ms: Mapping[str, float]
    latency_ms: Mapping[str, float]
    #: Of ours: p99 of how long chunks waited to be read.
    stamp_delay_ms: float | None = None


class PeerError(Exception):
    """A tool ended badly, or did not do what was asked."""


def ours(ask: Ask, folder: Path) -> Told:
    """``inferbench load run``; its data directory, and so the client's ceiling, stays for the next one."""
    arrivals = f"closed_loop:{ask.users}" if ask.users else f"{_law(ask)}:{ask.rate_rps:g}"
    # Longer than needed on average: Poisson arrivals may come late, and the count ends the load.
    duration_s = _LIMIT_S if ask.users else 1.5 * ask.requests / (ask.rate_rps or 1)
    binary = str(Path(sys.executable).with_name("inferbench"))
    text, cpu_s = _command(
        [
            binary, "load", "run", "--protocol", "openai", "--url", ask.url, "--model", "stand-in", "-o", "json",
            "--arrivals", arrivals, "--duration", f"{duration_s:g}", "--warmup", "0", "--max-requests",
            str(ask.requests), "--output-tokens", str(ask.tokens), "--input-tokens", "26", "--expect", "overload",
            "--allow-unsafe-load",
        ],
        ask, {"INFERBENCH_DATA_DIR": str(folder / "data")},
    )  # fmt: skip
    document = json.loads(text[text.index("{") :])
    tokens = document["summary"]["tokens"]
    streams, _ = read_table(Path(tokens["streams_path"]), STREAMS)
    count = int(streams["output_tokens"].clip(0).sum())
    _all(ask, len(streams["request_id"]), count)
    window = document["window"]
    seconds = (int(streams["last_token_ns"].max()) - window["start_ns"]) / 1e9
    return Told(
        cpu_s, count, count / seconds, _both(tokens["ttft_from_send_ms"]), _both(tokens["tpot_ms"]),
        _both(document["summary"]["e2e_latency_ms"]), document["certificate"]["figures"]["stamp_delay_p99_ms"],
    )  # fmt: skip


def aiperf(ask: Ask, folder: Path) -> Told:
    """AIPerf with its defaults, without telemetry of GPUs and servers; ITL is its word for the time per token."""
    prompts = folder / "aiperf.jsonl"
    prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in _prompts()))
    load = ["--concurrency", str(ask.users)] if ask.users else []
    if ask.rate_rps:  # with users: as many requests at once at most
        load += ["--request-rate", f"{ask.rate_rps:g}", "--arrival-pattern", _law(ask)]
    _, cpu_s = _command(
        [
            _binary("aiperf"), "profile", "-m", "stand-in", "--url", ask.url, "--endpoint-type", "chat", "--streaming",
            "--input-file", str(prompts), "--custom-dataset-type", "single_turn", "--use-server-token-count",
            "--tokenizer", str(_tokenizer(folder)), "--extra-inputs", f"max_completion_tokens:{ask.tokens}",
            "--request-count", str(ask.requests), *load, "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics",
            "--output-artifact-dir", str(folder / "aiperf"),
        ],
        ask,
    )  # fmt: skip
    told = json.loads((folder / "aiperf" / "profile_export_aiperf.json").read_text())
    count = int(told["total_output_tokens"]["avg"])
    _all(ask, int(told["request_count"]["avg"]), count)
    return Told(
        cpu_s, count, told["output_token_throughput"]["avg"], _both(told["time_to_first_token"]),
        _both(told.get("inter_token_latency", {})), _both(told["request_latency"]),
    )  # fmt: skip


def guidellm(ask: Ask, folder: Path) -> Told:
    """GuideLLM with its defaults over HTTP/1.1, which is what the stand-in speaks."""
    prompts, output = folder / "guidellm.jsonl", folder / "guidellm.json"
    rows = ({"prompt": text, "output_tokens_count": ask.tokens} for text in _prompts())
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    profile = (
        f"kind=concurrent,streams={ask.users}" if ask.users else f"kind={_law(ask)},rate={ask.rate_rps:g}"
    )
    _, cpu_s = _command(
        [
            _binary("guidellm"), "run", "--backend", f"kind=openai_http,target={ask.url},model=stand-in,http2=false",
            "--profile", profile, "--constraint", f"kind=max_requests,count={ask.requests}",
            "--tokenizer", f"kind=hf_auto,model={_tokenizer(folder)}", "--data", f"kind=json_file,path={prompts}",
            "--output", f"kind=json,path={output}", "--disable-progress",
        ],
        ask,
    )  # fmt: skip
    (benchmark,) = json.loads(output.read_text())["benchmarks"]
    metrics = {
        name: value["successful"]
        for name, value in benchmark["metrics"].items()
        if value and "successful" in value
    }
    count = int(metrics["output_token_count"]["total_sum"])
    _all(ask, benchmark["metrics"]["request_totals"]["successful"], count)
    return Told(
        cpu_s, count, count / benchmark["duration"], _both(metrics["time_to_first_token_ms"]),
        _both(metrics["inter_token_latency_ms"]), _both(metrics["request_latency"], 1e3),
    )  # fmt: skip


TOOLS: dict[str, Callable[[Ask, Path], Told]] = {"ours": ours, "AIPerf": aiperf, "GuideLLM": guidellm}


def _command(arguments: list[str], ask: Ask, env: dict[str, str] | None = None) -> tuple[str, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ask.cores is not None:
        arguments = ["taskset", "--cpu-list", ask.cores, *arguments]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
        env={**os.environ, **(env or {})},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):  # 1: its load is not valid, which is judged by what it did
        raise PeerError(f"{arguments[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-800:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _all(ask: Ask, requests: int, tokens: int) -> None:
    """A tool that did less than it was asked is not compared."""
    if requests < ask.requests or tokens < requests * ask.tokens:
        raise PeerError(
            f"{requests} requests with {tokens} tokens, {ask.requests} of {ask.tokens} were asked for"
        )


def _both(told: Mapping[str, Any], factor: float = 1.0) -> dict[str, float]:
    values = told.get("percentiles", told)
    return {name: values[name] * factor for name in ("p50", "p99") if values.get(name) is not None}


def _law(ask: Ask) -> str:
    return "poisson" if ask.poisson else "constant"


def _prompts() -> list[str]:
    """Twenty-six words each, of which the stand-in counts each as a token; a tool that repeats none needs so many."""
    return [f"{number} " + "word " * 25 for number in range(1000)]


def _binary(name: str) -> str:
    path = Path(os.environ.get(name.upper(), _HOME / name / "bin" / name))
    if not path.exists():
        raise PeerError(f"{path} is not there: python -m benchmarks.llm.peers")
    return str(path)


def _tokenizer(folder: Path) -> Path:
    """A tokenizer of words, which both ask for though the server counts: they would fetch one from a hub."""
    path = folder / "tokenizer"
    path.mkdir(exist_ok=True)
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "word": 1}, "unk_token": "<unk>"}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    split = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    (path / "tokenizer.json").write_text(json.dumps({**empty, **split}))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "pad_token": "<unk>"}
    template = "{% for m in messages %}{{m['content']}} {% endfor %}"
    (path / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    return path


def main() -> None:
    """Make the environments that are missing."""
    for name, pin in PINS.items():
        place = _HOME / name
        if not (place / "bin" / name).exists():
            started = time.monotonic()
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            subprocess.run([str(place / "bin" / "pip"), "install", "--quiet", pin], check=True)
            print(f"{pin}: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
