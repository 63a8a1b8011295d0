"""Files that a submission names are read when it is read: what is wrong in them has a line before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.submission.reader import read_submission
from tests.gguf_files import written

TEXT = """\
name: own
model: {model}
convert: {format: FORMAT}
serve: {serve}
requests: {requests}
load: {protocol: openai, arrivals: {kind: poisson, rate_rps: 1}, duration_s: 20}
"""
STAND_IN = {"model": "{kind: llm_stand_in}", "serve": "{backend: llm_stand_in}", "FORMAT": "llm_stand_in"}
TALK = json.dumps({"messages": [{"role": "user", "content": "hello"}]})


def submission(folder: Path, sweep: str = "", **parts: str) -> Path:
    """A file with these sections."""
    text = TEXT + sweep
    for name, value in parts.items():
        text = text.replace(name if name.isupper() else f"{{{name}}}", value)
    path = folder / "own.yaml"
    path.write_text(text)
    return path


def problems(path: Path) -> list[tuple[int | None, str, str]]:
    """Line, field and message of each."""
    with pytest.raises(SubmissionError) as caught:
        read_submission(path, INSTALLED)
    return [(problem.line, problem.field, problem.message) for problem in caught.value.problems]


def gguf(
    folder: Path, requests: str = "{kind: prompts}", serve: str = "{backend: llama_cpp}", sweep: str = ""
) -> Path:
    """A submission of m.gguf."""
    return submission(
        folder, sweep, model="{kind: file, path: m.gguf}", FORMAT="gguf", serve=serve, requests=requests
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [TALK, '{"messages": [{"role": "user", "content": " "}]}'],
            "line 2, message 1: no text of the user",
        ),
        (
            [TALK, TALK, '{"messages": [{"role": "system", "content": "a"}]}'],
            "line 3: no turn of a user (role: user)",
        ),
        ([TALK, "{"], "line 2: no JSON"),
        ([""], "talks.jsonl has no conversation"),
    ],
)
def test_conversations_that_are_none(tmp_path: Path, lines: list[str], message: str) -> None:
    """The submission's line and the file's."""
    (tmp_path / "talks.jsonl").write_text("\n".join(lines))
    path = submission(tmp_path, requests="{kind: conversations, path: talks.jsonl}", **STAND_IN)
    ((line, field, text),) = problems(path)
    assert (line, field) == (5, "requests.path") and message in text and text.startswith("talks.jsonl")


def test_a_file_that_was_mended_is_read_again(tmp_path: Path) -> None:
    """What was wrong a moment ago is not remembered for it."""
    talks = tmp_path / "talks.jsonl"
    talks.write_text("{")
    path = submission(tmp_path, requests="{kind: conversations, path: talks.jsonl}", **STAND_IN)
    assert problems(path)
    talks.write_text(TALK)
    assert read_submission(path, INSTALLED).name == "own"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b"llama", b"whisp", "m.gguf holds a model of the architecture 'whisp'; allowed"),
        (b"GGUF", b"GGML", "m.gguf is no GGUF file"),
    ],
)
def test_a_language_model_that_is_none(tmp_path: Path, before: bytes, after: bytes, message: str) -> None:
    """Its head says it."""
    model = written(tmp_path)
    model.write_bytes(model.read_bytes().replace(before, after))
    ((line, field, text),) = problems(gguf(tmp_path))
    assert (line, field) == (2, "model.path") and message in text


@pytest.mark.parametrize("left", [-1, 100, 0])
def test_a_language_model_that_is_cut_off(tmp_path: Path, left: int) -> None:
    """Whether of its values a byte is missing, of its fields, or all."""
    model = written(tmp_path)
    model.write_bytes(model.read_bytes()[:left])
    ((line, field, _),) = problems(gguf(tmp_path))
    assert (line, field) == (2, "model.path")


def test_slots_that_are_larger_than_the_models_context(tmp_path: Path) -> None:
    """The model was made for 512 tokens."""
    written(tmp_path)
    path = gguf(tmp_path, serve="{backend: llama_cpp, context_tokens: 1024}")
    assert problems(path) == [
        (4, "serve.context_tokens", "1,024 are more than the model takes, 512 for prompt and answer together")
    ]


def test_prompts_and_answers_that_the_model_does_not_take(tmp_path: Path) -> None:
    """400 and 113 are one too many; of a sweep each job that is so is told, once."""
    written(tmp_path)
    requests = "{kind: prompts, input_tokens: {kind: fixed, value: 400}, output_tokens: {kind: fixed, value: NUMBER}}"
    ((line, field, text),) = problems(gguf(tmp_path, requests.replace("NUMBER", "113")))
    assert (line, field) == (5, "requests.input_tokens")
    assert "are 513 tokens, more than the 512 that the model takes" in text
    assert read_submission(gguf(tmp_path, requests.replace("NUMBER", "112")), INSTALLED).name == "own"
    sweep = "sweep: {requests.input_tokens.value: [200, 500]}\n"
    ((line, _, text),) = problems(gguf(tmp_path, requests.replace("NUMBER", "20"), sweep=sweep))
    assert line == 7 and "are 520 tokens" in text
