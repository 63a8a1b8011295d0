"""Impossible combinations; that each is found, and that its neighbour on the right side is not."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.submission.check import MAX_PARAMETERS, check, parameters, unknown_names
from inferbench_tasks.submission.model import CnnModel, MlpModel, RnnModel, TransformerModel
from inferbench_tasks.submission.schema import JobSpec
from tests.unit.submission.narrow import NarrowAbilities

POISSON = {"kind": "poisson", "rate_rps": 50}


def spec(load: dict[str, Any] | None = None, **more: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "check",
            "model": {"kind": "zoo", "name": "digits"},
            "load": {"arrivals": POISSON, **(load or {})},
            **more,
        }
    )


BEFORE = {"before": [{"kind": "image", "settings": {"size": 8}}]}
WHOLE = {"before": [{"kind": "image", "settings": {"size": 8, "squeezed": True}}]}
IN_SERVER = {"side": "server", "before": [{"kind": "image", "settings": {"size": 8}}]}
STREAMS: dict[str, Any] = {
    "model": {"kind": "llm_stand_in"},
    "convert": {"format": "llm_stand_in"},
    "serve": {"backend": "llm_stand_in"},
    "requests": {"kind": "prompts"},
}
TALKS: dict[str, Any] = {
    **STREAMS,
    "requests": {
        "kind": "prompts",
        "turns": {"kind": "fixed", "value": 3},
        "think_time_ms": {"kind": "fixed", "value": 9},
    },
}
CHAT: dict[str, Any] = {
    "model": {"kind": "zoo", "name": "smollm2-135m"},
    "convert": {"format": "gguf"},
    "serve": {"backend": "llama_cpp", "slots": 2, "context_tokens": 512, "prefix_cache": False},
    "requests": {
        "kind": "prompts",
        "input_tokens": {"kind": "uniform", "min": 1, "max": 200},
        "output_tokens": {"kind": "fixed", "value": 212},
        "shared_prefix": {"groups": 1, "tokens": 100},
    },
}
LONG: dict[str, Any] = {
    **CHAT,
    "requests": {**CHAT["requests"], "output_tokens": {"kind": "fixed", "value": 213}},
}
TALKING: dict[str, Any] = {
    **CHAT,
    "requests": {
        "kind": "prompts",
        "input_tokens": {"kind": "uniform", "min": 1, "max": 90},
        "output_tokens": {"kind": "fixed", "value": 70},
        "turns": {"kind": "uniform", "min": 1, "max": 3},
        "shared_prefix": {"groups": 1, "tokens": 32},
    },
}
REPLAY: dict[str, Any] = {**STREAMS, "requests": {"kind": "trace", "path": "a.csv"}}
POSSIBLE: list[JobSpec] = [
    spec({"protocol": "openai"}, **TALKS),
    spec({"protocol": "openai", "arrivals": {"kind": "trace", "path": "a.csv"}}, **REPLAY),
    spec({"protocol": "openai", "arrivals": {"kind": "trace", "path": "a.csv"}}, **TALKS),
    spec({"protocol": "openai"}, **{**STREAMS, "requests": {"kind": "conversations", "path": "talks.jsonl"}}),
    spec({"protocol": "openai"}, **STREAMS, slo={"each": {"ttft_ms": 100}, "min_good_ratio": 0.9}),
    spec({"protocol": "openai", "endpoint": "completions", "client": "reference"}, **STREAMS),
    spec({"protocol": "openai"}, **CHAT),
    spec({"protocol": "openai"}, **TALKING),
    spec(
        {"protocol": "openai"}, **{**CHAT, "serve": {"backend": "llama_cpp"}, "requests": {"kind": "prompts"}}
    ),
    spec(),
    spec(evaluate={}, trace={}),
    spec(trace={"deepest": "library"}, serve={"device": "gpu"}),
    spec(evaluate={"dataset": "digits-png"}, processors=BEFORE),
    spec(evaluate={"dataset": "shapes", "measures": ["mean_iou"]}, slo={"mean_iou": 0.5}),
    spec(
        model={"kind": "canonical", "family": "mlp", "training": {"epochs": 0}},
        evaluate={"dataset": "digits"},
    ),
    spec(evaluate={"dataset": "coco", "path": "c"}, processors={**WHOLE, "after": [{"kind": "nms"}]}),
    spec(slo={"top1_ratio": 0.9, "auc": 0.9}, evaluate={"measures": ["auc", "top1_ratio"]}),
    spec({"arrivals": {"kind": "single_stream"}, "engine": "mlperf_loadgen"}, evaluate={}),
    spec(processors=IN_SERVER),
    spec(processors=IN_SERVER, evaluate={"dataset": "digits-png"}),
    spec(processors={**IN_SERVER, "side": "client"}, serve={"backend": "triton"}),
    spec(processors={"after": [{"kind": "labels"}]}, requests={"kind": "random"}),
    spec({"batch_size": 8}, serve={"batching": {"max_batch_size": 8, "preferred_batch_sizes": [4, 8]}}),
    spec({"batch_size": 64}),
    spec({"timeout_ms": 100}, serve={"batching": {"max_delay_ms": 99}}),
    spec({"timeout_ms": 100}, slo={"p99_ms": 99.9}),
    spec(slo={"p50_ms": 10, "p99_ms": 10, "throughput_rps": 50}),
    spec({"arrivals": {"kind": "closed_loop", "concurrency": 4}, "shards": 4, "connections": 4}),
    spec({"duration_s": 60, "warmup_s": 5}, expected_duration_s=65, deadline_s=65),
    spec({"duration_s": 60, "max_requests": 10}, deadline_s=10),
    spec({"arrivals": {"kind": "closed_loop", "concurrency": 1}}, slo={"throughput_rps": 1e6}),
    spec({"max_error_ratio": 0.1}, slo={"error_ratio": 0.1}),
    spec({"client": "tritonclient"}),
    spec({"client": "tritonclient", "protocol": "grpc"}, serve={"backend": "triton"}),
]
TFS: dict[str, Any] = {"serve": {"backend": "tfs_protocol"}, "convert": {"format": "savedmodel"}}
IMPOSSIBLE: list[tuple[JobSpec, str, str]] = [
    (
        spec({"protocol": "openai", "arrivals": {"kind": "poisson", "rate_rps": 10_000}}, **TALKS),
        "requests.turns",
        "conversations of 3.0 turns are more than 400,000 requests",
    ),
    (spec({"protocol": "openai"}, **LONG), "requests.input_tokens", "are 513 tokens, more than a slot's 512"),
    (
        spec({"protocol": "openai"}, **{**TALKING, "serve": {"backend": "llama_cpp", "context_tokens": 511}}),
        "requests.input_tokens",
        "up to 90 input_tokens and 70 output_tokens in each of 3 turns and 32 of a shared prefix are 512 tokens",
    ),
    (
        spec({"protocol": "openai"}, **{**CHAT, "serve": {"backend": "llama_cpp", "context_tokens": 263},
             "requests": {"kind": "prompts"}}),
        "requests.input_tokens",
        "up to 200 input_tokens and 64 output_tokens are 264 tokens, more than a slot's 263",
    ),
    (
        spec({"protocol": "openai"}, **{**CHAT, "serve": {"backend": "llama_cpp"},
             "requests": {"kind": "prompts", "output_tokens": {"kind": "fixed", "value": 3897}}}),
        "requests.input_tokens",
        "are 4,097 tokens, more than a slot's 4,096 (the backend's default; set serve.context_tokens)",
    ),
    (
        spec({"protocol": "openai"}, **{**STREAMS, "serve": {"backend": "llm_stand_in", "instances": 2}}),
        "serve.instances",
        "has one copy of its model; leave serve.instances out",
    ),
    (spec(serve={"slots": 2}), "serve.slots", "has no such setting"),
    (spec(serve={"context_tokens": 512}), "serve.context_tokens", "has no such setting"),
    (spec(serve={"prefix_cache": True}), "serve.prefix_cache", "has no such setting"),
    (spec({"protocol": "openai"}), "requests.kind", "are sent with load.protocol: openai"),
    (spec(requests={"kind": "prompts"}), "requests.kind", "are sent with load.protocol: openai"),
    (spec({"protocol": "openai", "endpoint": "completions"}, **TALKS), "load.endpoint", "use chat"),
    (
        spec({"protocol": "openai", "arrivals": {"kind": "trace", "path": "b.csv"}}, **REPLAY),
        "load.arrivals.path",
        "one file",
    ),
    (spec({"protocol": "openai", "max_requests": 50}, **TALKS), "load.max_requests", "leave it out"),
    (
        spec({"protocol": "openai", "arrivals": {"kind": "offline", "requests": 90}}, **TALKS),
        "load.arrivals",
        "no beginnings of conversations",
    ),
    (spec({"endpoint": "chat"}), "load.endpoint", "openai only"),
    (spec(slo={"each": {"ttft_ms": 9}, "min_good_ratio": 0.9}), "slo.each", "only streamed tokens"),
    (spec({"protocol": "openai", "batch_size": 2}, **STREAMS), "load.batch_size", "one prompt"),
    (spec({"protocol": "openai", "client": "tritonclient"}, **STREAMS), "load.client", "use fast or reference"),
    (spec({"protocol": "openai", "arrivals": {"kind": "max_rate"}}, **STREAMS), "load.arrivals", "does not search"),
    (spec({"protocol": "openai"}, **STREAMS, evaluate={}), "evaluate", "does not go with streams"),
    (spec(slo={"top1_ratio": 0.9}), "slo.top1_ratio", "add `evaluate: {}`"),
    (spec(slo={"answer_f1": 0.9}, evaluate={"measures": ["auc"]}), "slo.answer_f1", "not among evaluate.measures"),
    (
        spec(model={"kind": "canonical", "family": "mlp", "training": {"epochs": 0}}, evaluate={"measures": ["auc"]}),
        "evaluate.measures",
        "its weights are random",
    ),
    (
        spec(model={"kind": "canonical", "family": "cnn"}, evaluate={"dataset": "fashion-mnist"}),
        "evaluate.dataset",
        "class 0 of fashion-mnist is 'T-shirt/top', and '0' of cnn-",
    ),
    (
        spec(evaluate={}, processors={**IN_SERVER, "after": [{"kind": "labels"}]}),
        "evaluate",
        "beside the source model's own",
    ),
    (
        spec(evaluate={"dataset": "digits-png", "vary": {"resize": ["box"]}}, processors=BEFORE),
        "evaluate.vary",
        "processors.before takes the place of",
    ),
    (spec(evaluate={"dataset": "digits"}, processors=BEFORE), "processors.before", "samples of digits are grey"),
    (
        spec(evaluate={"dataset": "coco", "path": "c"}, processors=BEFORE),
        "processors.before",
        "take image with squeezed: true",
    ),
    (
        spec(evaluate={"dataset": "squad", "path": "d.json"}, processors={"after": [{"kind": "nms"}]}),
        "processors.after",
        "out of the model's own outputs",
    ),
    (spec({"arrivals": {"kind": "max_rate"}}, slo={"p99_ms": 9}, evaluate={}), "evaluate", "at a given one"),
    (
        spec({"arrivals": {"kind": "poisson", "rate_rps": 9}, "engine": "mlperf_loadgen"}, evaluate={}),
        "load.engine",
        "MLPerf LoadGen does not make 'poisson'",
    ),
    (spec(trace={}, serve={"backend": "torchserve"}), "trace", "tells nothing of single requests"),
    (spec(trace={"one_in": 20}, serve={"backend": "triton"}), "trace.one_in", "sends spans of every request"),
    (
        spec(trace={"deepest": "layer"}, serve={"backend": "torch_export"}, convert={"format": "aotinductor"}),
        "trace.deepest",
        "tells of: model, framework. Code that AOTInductor compiled",
    ),
    (
        spec(trace={"deepest": "library"}, serve={"backend": "torch_export"}, convert={"format": "aotinductor"}),
        "trace.deepest",
        "convert.format: pt2 runs the same exported program",
    ),
    (spec(trace={}, serve={"launcher": "container"}), "trace", "serve.launcher: process only"),
    (spec({"protocol": "grpc", "client": "tritonclient"}, **TFS), "load.client", "use fast or reference"),
    (spec({"batch_size": 9}, serve={"batching": {"max_batch_size": 8}}), "load.batch_size", "9 samples per request"),
    (
        spec({"arrivals": {"kind": "closed_loop", "concurrency": 16}, "max_requests": 16}),
        "load.max_requests",
        "all sent at once by 16 users",
    ),
    (
        spec(
            {"arrivals": {"kind": "multi_stream", "samples_per_query": 16}},
            serve={"batching": {"max_batch_size": 8}},
        ),
        "load.arrivals",
        "16 samples per request",
    ),
    (
        spec(serve={"batching": {"max_batch_size": 8, "preferred_batch_sizes": [4, 16]}}),
        "serve.batching.preferred_batch_sizes",
        "16 is above",
    ),
    (
        spec({"timeout_ms": 100}, serve={"batching": {"max_delay_ms": 100}}),
        "serve.batching.max_delay_ms",
        "given up after",
    ),
    (spec({"timeout_ms": 100}, slo={"p99_ms": 100}), "slo.p99_ms", "never be exceeded"),
    (spec(processors=IN_SERVER, serve={"backend": "triton"}), "processors.side", "runs no processors"),
    (spec(processors=IN_SERVER, serve={"launcher": "container"}), "processors.side", "image holds no processors"),
    (spec(processors=IN_SERVER, requests={"kind": "random"}), "requests.kind", "needs raw data"),
    (spec(processors={"before": [{"kind": "x"}]}), "processors.before.0.kind", "unknown processor"),
    (spec(slo={"p50_ms": 11, "p99_ms": 10}), "slo.p50_ms", "are they swapped"),
    (spec(slo={"throughput_rps": 50.1}), "slo.throughput_rps", "sends 50 requests per second"),
    (
        spec({"arrivals": {"kind": "closed_loop", "concurrency": 3}, "shards": 4}),
        "load.shards",
        "more than there are users",
    ),
    (spec({"shards": 4, "connections": 3}), "load.connections", "too few for 4 shards"),
    (spec({"duration_s": 60, "warmup_s": 5}, expected_duration_s=64.9), "expected_duration_s", "shorter than"),
    (spec({"duration_s": 60, "warmup_s": 5}, deadline_s=64.9), "deadline_s", "shorter than"),
    (spec({"max_error_ratio": 0.1}, slo={"error_ratio": 0.2}), "slo.error_ratio", "ends early"),
    (spec({"arrivals": {"kind": "poisson", "rate_rps": 0.01}}), "load.arrivals", "requests are expected"),
    (
        spec({"arrivals": {"kind": "constant", "rate_rps": 1e7}, "duration_s": 100}),
        "load.arrivals",
        "one load can hold",
    ),
    (spec(serve={"backend": "vlm"}), "serve.backend", "unknown serving backend 'vlm'; did you mean 'vllm'? known: "),
    (spec(convert={"format": "onx"}), "convert.format", "unknown model format 'onx'; did you mean 'onnx'?"),
    (spec({"network": "pigeon"}), "load.network", "unknown network"),
    (spec(convert={"format": "sklearn"}), "convert.format", "does not serve the format 'sklearn'"),
    (spec(serve={"image": "a:1"}), "serve.image", "launcher: container"),
    (spec(model={"kind": "zoo", "name": "digits", "framework": "torch"}), "model.framework", "scikit-learn"),
    (spec(convert={"precision": "bf16"}), "convert.precision", "not possible in bf16"),
    (
        spec(model={"kind": "canonical", "family": "mlp", "neurons": 65536, "layers": 9}),
        "model",
        "billion parameters",
    ),
]  # fmt: skip


@pytest.mark.parametrize("possible", POSSIBLE)
def test_what_is_possible_is_not_refused(possible: JobSpec) -> None:
    """Right at its bound each value is still fine."""
    assert check(possible, INSTALLED) == []


@pytest.mark.parametrize(
    ("impossible", "field", "words"), IMPOSSIBLE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_is_impossible_is_refused(impossible: JobSpec, field: str, words: str) -> None:
    """With the field and a reason; nothing else is said."""
    findings = [f for f in check(impossible, INSTALLED) if f.fields[0] == field]
    assert len(findings) == 1
    assert words in findings[0].message


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        (spec(convert={"format": "sklearn"}), "convert.format", "serve the format 'sklearn'; it does: onnx"),
        (spec({"protocol": "grpc"}), "load.protocol", "speak 'grpc'; it does: http"),
        (
            spec(serve={"launcher": "container"}),
            "serve.launcher",
            "start by the launcher 'container'; it does: process",
        ),
        (spec(serve={"device": "gpu:t4"}), "serve.device", "run on the device 'gpu'; it does: cpu"),
        (spec(serve={"batching": {}}), "serve.batching", "has no dynamic batching; remove serve.batching"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_backend_is_asked_for_no_more_than_it_says_it_can(asked: JobSpec, field: str, words: str) -> None:
    """Format, protocol, launcher, device, batching."""
    (finding,) = check(asked, NarrowAbilities())
    assert finding.fields == (field, "serve.backend")
    assert words in finding.message


def test_names_are_checked_in_data_that_is_wrong_otherwise() -> None:
    """Values of a wrong type are the schema's business, and bring nothing down."""
    data: dict[str, Any] = {
        "serve": {"backend": "vlm"},
        "convert": [1],
        "load": None,
        "model": {"kind": "zoo", "name": 5},
    }
    assert [f.fields for f in unknown_names(data, INSTALLED)] == [("serve.backend",)]


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (
            MlpModel(kind="canonical", family="mlp", input_size=10, neurons=20, layers=3),
            10 * 20 + 2 * 20 * 20,
        ),
        (CnnModel(kind="canonical", family="cnn", channels=8, layers=2), 2 * 2 * 9 * 64),
        (
            RnnModel(kind="canonical", family="rnn", input_size=6, hidden_size=5, layers=2),
            4 * 5 * 11 + 8 * 25,
        ),
        (
            TransformerModel(kind="canonical", family="transformer", hidden_size=8, heads=2, layers=2),
            12 * 2 * 64,
        ),
    ],
)
def test_the_size_of_a_model_is_its_blocks_leading_terms(model: Any, count: int) -> None:
    """A model is refused by its size before it is made."""
    assert parameters(model) == count < MAX_PARAMETERS
