"""Traces of language models: moments, tokens, shared prefixes, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.arrivals.trace import Trace
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.requests.prompts import PromptSet, TraceFile, write_prompts
from inferbench_tasks.requests.token_trace import read_token_trace
from inferbench_tasks.submission.token_lengths import Fixed

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-15 09:00:00.5,130,7\n2026-01-15 09:00:01.25,13,2\n"
MOONCAKE = [
    {"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [1, 2, 3]},
    {"timestamp": 250, "input_length": 1100, "output_length": 6, "hash_ids": [1, 2, 4]},
    {"timestamp": 250, "input_length": 100, "output_length": 1, "hash_ids": [9]},
]


def lines(folder: Path, *documents: Any) -> str:
    """A file of JSON Lines in the folder."""
    text = [document if isinstance(document, str) else json.dumps(document) for document in documents]
    (folder / "t.jsonl").write_text("\n".join(text) + "\n")
    return "t.jsonl"


def offsets(folder: Path, path: str, **fields: Any) -> list[int]:
    """When its requests are meant to leave, ms."""
    trace = Trace(kind="trace", path=path, **fields).bind(folder)
    return [int(moment) // 1_000_000 for moment in trace.offsets_ns(60.0, np.random.default_rng(0))]


def prompts(folder: Path, path: str, count: int = 10, **fields: Any) -> tuple[list[list[str]], list[int]]:
    """The words of each prompt, and what each asks for."""
    fixed = Fixed(kind="fixed", value=1)
    trace = TraceFile(folder, path, **fields.pop("trace", {}))
    wanted = PromptSet("m", "chat", fixed, fixed, trace=trace, **{"salt": False, **fields})
    write_prompts(wanted, count, folder / "r.npz", seed=3)
    inputs = read_inputs(str(folder / "r.npz"))
    texts = [json.loads(body)["messages"][0]["content"].split() for body in inputs["request"]]
    return texts, inputs["max_tokens"].tolist()


def test_azures_columns_are_known(tmp_path: Path) -> None:
    """A word for 1.3 tokens, in the trace's order."""
    (tmp_path / "a.csv").write_text(AZURE)
    texts, asked = prompts(tmp_path, "a.csv")
    assert [len(text) for text in texts] == [100, 10] and asked == [7, 2]
    assert offsets(tmp_path, "a.csv") == [0, 750]


def test_mooncakes_columns_are_known_and_equal_ids_are_equal_words(tmp_path: Path) -> None:
    """Two of three blocks of 512 tokens are shared, and nothing behind them is; the salt stands before all."""
    path = lines(tmp_path, *MOONCAKE)
    texts, asked = prompts(tmp_path, path)
    assert asked == [5, 6, 1] and [len(text) for text in texts] == [1000, 846, 77]
    block = round(512 / 1.3)
    assert texts[0][: 2 * block] == texts[1][: 2 * block]
    assert texts[0][2 * block] == "3." and texts[1][2 * block] == "4." and texts[2][0] == "9."
    salted, _ = prompts(tmp_path, path, salt=True)
    assert salted[0][0] == salted[1][0] and salted[0][1 : 2 * block] == texts[0][: 2 * block - 1]
    assert [len(text) for text in salted] == [1000, 846, 77]
    assert offsets(tmp_path, path) == [0, 250, 250]
    assert offsets(tmp_path, path, column="timestamp", unit="s") == [0]  # the others are after the load's end


def test_other_columns_are_named(tmp_path: Path) -> None:
    """Of Parquet, with blocks of another size."""
    table = pa.table({"p": [20, 5], "a": [3, 4], "ids": [[1, 2], [1]]})
    pq.write_table(table, tmp_path / "t.parquet")
    names = {"input_tokens": "p", "output_tokens": "a", "hash_ids": "ids"}
    texts, asked = prompts(tmp_path, "t.parquet", trace={"names": names, "block_tokens": 13})
    assert asked == [3, 4] and [len(text) for text in texts] == [15, 4]
    assert texts[0][:4] == texts[1] and texts[0][10] == "2."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_length": 0}, "request 2: input_length is 0; tokens are whole numbers"),
        ({"input_length": 2.5}, "request 2: input_length is 2.5"),
        ({"input_length": 10**7}, r"request 2: input_length is 1e\+07"),
        ({"output_length": "many"}, "line 2: output_length is 'many', no number"),
        ({"output_length": None}, "line 2: output_length is 'None', no number"),
        ({"hash_ids": [1]}, "request 2: 1 hash_ids for 1100 tokens in blocks of 512"),
        ({"hash_ids": "1"}, "line 2: hash_ids is no list of whole numbers"),
        ({"hash_ids": [1, 2, "x"]}, "line 2: hash_ids is no list"),
    ],
)
def test_a_wrong_request_is_told_by_its_line(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Before anything is sent."""
    path = lines(tmp_path, MOONCAKE[0], {**MOONCAKE[1], **changes})
    with pytest.raises(InputError, match=words):
        read_token_trace(tmp_path, path, {}, 512)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 2: no JSON"),
        ("[]", "line 2: no 'input_length' in it; it has: no object"),
        ('{"timestamp": 3}', "line 2: no 'input_length' in it; it has: 'timestamp'"),
    ],
)
def test_a_broken_line_is_told(tmp_path: Path, text: str, words: str) -> None:
    """By its number, whatever it is."""
    with pytest.raises(InputError, match=words):
        read_token_trace(tmp_path, lines(tmp_path, MOONCAKE[0], text), {}, 512)


@pytest.mark.parametrize(
    ("moments", "words"),
    [
        ([5, 4], "row 2: timestamp is 4, before 5"),
        ([-1, 4], "row 1: timestamp is -1; a moment must be 0 or later"),
        ([0, 1e18], "longer than a hundred years"),
        ([0, 10**30], "line 2: timestamp is"),
        ([0, "later"], "line 2: timestamp is 'later', no number"),
    ],
)
def test_moments_that_can_not_be_are_told(tmp_path: Path, moments: list[Any], words: str) -> None:
    """Unsorted, negative, too late, too large, none."""
    path = lines(tmp_path, *({**MOONCAKE[0], "timestamp": moment} for moment in moments))
    with pytest.raises(InputError, match=words):
        offsets(tmp_path, path)


def test_prompts_that_do_not_fit_are_refused_before_they_are_made(tmp_path: Path) -> None:
    """Of a trace and of conversations: by their tokens alone."""
    path = lines(tmp_path, *[{"input_length": 1_000_000, "output_length": 1}] * 80)
    with pytest.raises(InputError, match=r"t.jsonl: about 352 MiB of prompts, more than 256; send fewer"):
        prompts(tmp_path, path, count=100)
    prompts(tmp_path, path, count=1)
    with pytest.raises(InputError, match=r"5,000 conversations: about .* MiB of prompts"):
        prompts(tmp_path, path, 5000, turns=Fixed(kind="fixed", value=90_000))


def test_files_that_are_no_trace_are_told(tmp_path: Path) -> None:
    """Another kind of file, none, an empty one, one outside of the folder, and one with other columns."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "e.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    (tmp_path / "t.txt").write_text("1\n")
    for path, words in (
        ("t.csv", "no column 'ContextTokens'; its columns: 'a', 'b'"),
        ("e.csv", "holds no request|no numbers of tokens"),
        ("none.csv", "there is no such file"),
        ("../x.csv", "no such file|leads out"),
        ("t.txt", "is no trace: allowed are"),
    ):
        with pytest.raises(InputError, match=words):
            read_token_trace(tmp_path, path, {}, 512)
    (tmp_path / "a.csv").write_text(AZURE)
    with pytest.raises(InputError, match="a CSV has no lists"):
        read_token_trace(tmp_path, "a.csv", {"hash_ids": "ContextTokens"}, 512)
