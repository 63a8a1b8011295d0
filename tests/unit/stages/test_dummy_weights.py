"""Weights that are not the model's: no result has the model's own name."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.stages.convert import _of_texts
from inferbench_tasks.submission.schema import JobSpec

MODEL = ModelArtifact(
    name="m", framework="gguf", format="safetensors", path="m", digest="0", inputs=(), outputs=()
)


def served(**serve: Any) -> ModelArtifact:
    """What is served of m, and stands in the result."""
    job = JobSpec.model_validate(
        {
            "name": "x", "model": {"kind": "zoo", "name": "smollm2-135m"}, "convert": {"format": "safetensors"},
            "serve": {"backend": "vllm", **serve}, "requests": {"kind": "prompts"},
            "load": {"protocol": "openai", "arrivals": {"kind": "constant", "rate_rps": 1}},
        }
    )  # fmt: skip
    return _of_texts(job, MODEL, cached=True).model


def test_a_model_with_dummy_weights_has_another_name_and_no_accuracy() -> None:
    """Wherever models are told apart by their names; the model itself keeps its own."""
    dummy = served(dummy_weights=True)
    assert dummy.name == "m-dummy-weights" and "random" in (dummy.accuracy_reason or "")
    assert served() == MODEL
