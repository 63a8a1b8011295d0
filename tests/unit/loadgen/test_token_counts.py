"""The server's counts against a tokenizer's, by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_counts import TokenCounts
from inferbench_tasks.loadgen.token_records import STREAMS_WRITTEN, TableWriter


def counted(
    folder: Path,
    *,
    text: list[int],
    prompt: list[int],
    output: list[int] | None = None,
    said: list[int] | None = None,
    status: list[str] | None = None,
    numbers: list[int] | None = None,
    turn_step: int = 0,
    path: str = "/v1/chat/completions",
) -> TokenCounts:
    """Request i carries row n-1-i of the inputs, whose texts have ``text`` tokens; the other lists are by request."""
    count = len(prompt)
    numbers = numbers or list(range(count))
    write_archive(folder / "i.npz", {"text_tokens": np.array(text)})
    columns: dict[str, Any] = {name: np.zeros(count, np.int64) for name in STREAMS_WRITTEN.names}
    columns |= {
        "request_id": np.array(numbers),
        "prompt_tokens": np.array(prompt),
        "output_tokens": np.array(output or [-1] * count),
        "text_tokens": np.array(said or [-1] * count),
    }
    with TableWriter(folder / "s.parquet", STREAMS_WRITTEN) as writer:
        writer.add(*columns.values())
    records = pa.table(
        {
            "request_id": numbers,
            "sample_index": pa.array(range(count - 1, -1, -1), pa.int32()),
            "status": pa.array(status or ["ok"] * count).dictionary_encode(),
        }
    )
    plan = SimpleNamespace(
        inputs_path=str(folder / "i.npz"), turn_step=turn_step, stream=SimpleNamespace(path=path)
    )
    return TokenCounts.of(cast("LoadPlan", plan), records, folder / "s.parquet")


def failed(counts: TokenCounts) -> dict[str, float]:
    """The checks that do not hold."""
    return {check.name: check.value for check in counts.checks(Thresholds()) if not check.ok}


def test_the_template_is_told_apart_and_the_rest_is_an_error(tmp_path: Path) -> None:
    """Texts of 30, 20 and 10 tokens, 30 around each; 2 too many in one of them are 2 of 152 that the server counts."""
    right = counted(tmp_path, text=[10, 20, 30], prompt=[60, 50, 40])
    assert (right.template_tokens, right.prompt_error_ratio, failed(right)) == (30, 0.0, {})
    wrong = counted(tmp_path, text=[10, 20, 30], prompt=[60, 52, 40])
    assert wrong.template_tokens == 30 and failed(wrong) == {"prompt_token_counts": pytest.approx(2 / 152)}


@pytest.mark.parametrize(
    ("changes", "template", "error"),
    [
        (
            {"prompt": [60, 40, 20]},
            10,
            30,
        ),  # twice the text's: the differences are 30, 20 and 10; the least is taken
        ({"prompt": [330, 320, 310]}, 128, 3 * (300 - 128)),  # no template has 300 tokens
        ({"prompt": [25, 15, 5]}, 0, 15),  # fewer than the text
        (
            {"prompt": [60, 50, 40], "path": "/v1/completions"},
            1,
            3 * 29,
        ),  # no template, a token to begin with
        ({"prompt": [31, 21, 11], "path": "/v1/completions"}, 1, 0),
        ({"prompt": [60, 500, 40], "status": ["ok", "stream_error", "ok"]}, 30, 0),  # no answer, no count
        ({"prompt": [60, -1, 40]}, 30, 0),
        ({"prompt": [60, 50, 400], "numbers": [0, 1, 100], "turn_step": 100}, 30, 0),  # a later turn
    ],
)
def test_what_is_compared(tmp_path: Path, changes: dict[str, Any], template: int, error: int) -> None:
    """Good answers to first turns whose count both know."""
    found = counted(tmp_path, text=[10, 20, 30], **changes)
    assert (found.template_tokens, found.prompt_error_tokens) == (template, error)


@pytest.mark.parametrize(("said", "fails"), [([60, 50, 7], False), ([60, 51, 7], True), ([44, 45, 7], True)])
def test_answers_may_be_cut_otherwise_by_a_tenth(tmp_path: Path, said: list[int], fails: bool) -> None:
    """Of 100 tokens 10 may differ, 11 not; which way does not matter, and what is no text is left out."""
    found = counted(tmp_path, text=[-1] * 3, prompt=[9] * 3, output=[50, 50, -1], said=said)
    assert failed(found) == ({"answer_token_counts": 0.11} if fails else {}) and found.answer_tokens == 100
    assert found.template_tokens is None and found.figures()["prompt_tokens_error_ratio"] is None
