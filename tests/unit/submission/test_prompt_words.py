"""Prompts in words: equal for equal ones, and part of the load that a run was offered."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.perfdb.offered import offered
from inferbench_tasks.stages.collect import load_document
from inferbench_tasks.submission.prompt_words import prompt_words
from inferbench_tasks.submission.schema import JobSpec, RequestsSpec


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"kind": "dataset"}, None),
        ({"kind": "prompts"}, "input_tokens 200, output_tokens 64"),
        (
            {"kind": "prompts", "input_tokens": {"kind": "lognormal", "mean": 200, "cv": 0.8}, "salt": False,
             "shared_prefix": {"groups": 4}, "output_tokens": {"kind": "fixed", "value": 32}},
            "input_tokens lognormal mean 200 cv 0.8, output_tokens 32, shared_prefix groups 4, salt False",
        ),
        ({"kind": "trace", "path": "t.csv"}, "trace t.csv"),
        ({"kind": "conversations", "path": "c.jsonl"}, "conversations c.jsonl, output_tokens 64"),
    ],
)  # fmt: skip
def test_words(requests: dict[str, Any], words: str | None) -> None:
    """What is usual stands there as if it were given."""
    assert prompt_words(RequestsSpec.model_validate(requests)) == words


def test_as_is_usual_and_as_given_are_the_same() -> None:
    """The same prompts are the same load; a salt is usual."""
    given = {"kind": "prompts", "salt": True, "input_tokens": {"kind": "fixed", "value": 200}}
    assert prompt_words(RequestsSpec.model_validate(given)) == prompt_words(RequestsSpec(kind="prompts"))


def test_short_prompts_are_no_better_server() -> None:
    """Runs with prompts of 16 and of 4,000 tokens were offered different loads: nothing ranks or compares them."""

    def load(tokens: int) -> str:
        job = {
            "name": "llm", "model": {"kind": "llm_stand_in"}, "convert": {"format": "llm_stand_in"},
            "serve": {"backend": "llm_stand_in"},
            "requests": {"kind": "prompts", "input_tokens": {"kind": "fixed", "value": tokens}},
            "load": {"protocol": "openai", "arrivals": {"kind": "poisson", "rate_rps": 8.0}},
        }  # fmt: skip
        return offered(load_document(JobSpec.model_validate(job)))

    assert load(16) == "poisson, prompts input_tokens 16, output_tokens 64, 8 samples/s"
    assert load(16) != load(4000)


def test_short_texts_are_no_better_server() -> None:
    """Free inputs of 16 and of 512 tokens are two loads, equal ones one, in whatever order their axes are given;
    without sizes nothing is said."""

    def load(*sizes: dict[str, Any]) -> str:
        job: dict[str, Any] = {
            "name": "text", "model": {"kind": "zoo", "name": "digits"}, "requests": {"kind": "random"},
            "load": {"arrivals": {"kind": "closed_loop", "concurrency": 2}},
        }  # fmt: skip
        if sizes:
            job["requests"]["sizes"] = sizes
        return offered(load_document(JobSpec.model_validate(job)))

    short = load({"axes": ["ids.1", "mask.1"], "size": 16})
    assert short == "closed_loop, 2 samples in flight, sizes ids.1 mask.1 16"
    assert short == load({"axes": ["mask.1", "ids.1"], "size": 16})
    assert short != load({"axes": ["ids.1", "mask.1"], "size": 512})
    assert load() == "closed_loop, 2 samples in flight"
    drawn = {"kind": "uniform", "min": 8, "max": 16}
    two = load({"axes": ["ids.1"], "size": drawn}, {"axes": ["a.2"], "size": 4})
    assert two.startswith("closed_loop, 2 samples in flight, sizes a.2 4 and ids.1 uniform min 8 max 16")


def test_what_a_load_is_drawn_from_is_told_by_its_content() -> None:
    """The reader writes down each file's SHA-256: other moments, or other prompts, under the same name are another
    load; so is a trace that ends after so many requests.
    """
    job = {
        "name": "llm", "model": {"kind": "llm_stand_in"}, "convert": {"format": "llm_stand_in"},
        "serve": {"backend": "llm_stand_in"}, "requests": {"kind": "trace", "path": "p.jsonl"},
        "load": {"protocol": "openai", "arrivals": {"kind": "trace", "path": "a.csv"}, "duration_s": 30.0},
    }  # fmt: skip

    def load(**files: str) -> str:
        written = {path.replace("_", "."): digit * 64 for path, digit in files.items()}
        return offered(load_document(JobSpec.model_validate(job | {"files": written})))

    whole = load(a_csv="1", p_jsonl="2")
    assert "digest 111111111111, path a.csv" in whole and "prompts_digest 222222222222" in whole
    assert whole.endswith(", for 30 s")
    assert len({whole, load(a_csv="3", p_jsonl="2"), load(a_csv="1", p_jsonl="3"), load()}) == 4
    job["load"]["max_requests"] = 5  # type: ignore[index]
    assert "ended after 5 samples" in load(a_csv="1", p_jsonl="2")
