"""The rows of the training benchmarks: which of them count, and what the straggler's gates say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.training import peers, straggler
from benchmarks.training.rows import BY, Rows, conditions, due, options_of
from inferbench_tasks.training.diagnosis.runs import straggler as rule
from tests.unit.training.diagnosis.runs.test_ranks import COUNT, steps, two


@pytest.mark.parametrize("name", ["commit", "cpu", "cores", "torch", "options"])
def test_rows_of_another_commit_machine_torch_or_option_do_not_count(tmp_path: Path, name: str) -> None:
    """They stay in the file, as do rows of before, which say nothing of all that."""
    by = conditions(pairs=40)
    assert (
        by["cpu"] and by["cores"] >= 1 and by["options"] == {"pairs": 40} and set(by) >= {"commit", "torch"}
    )
    kept = Rows(tmp_path / "rows.jsonl", by)
    assert kept.read() == []
    Rows(kept.path, {**by, name: "other"}).add({"case": "stale"})
    with kept.path.open("a") as file:
        file.write(json.dumps({"case": "before"}) + "\n")
    kept.add({"case": "mine"})
    assert kept.read() == [{"case": "mine", BY: by}] and len(kept.path.read_text().splitlines()) == 3


def test_a_stale_row_decides_no_case(tmp_path: Path) -> None:
    """A kept one of 40 pairs is none of 10."""
    row = {"network": "resnet-18", "processes": 1, "wall": (1.0, 0.99, 1.01)}
    Rows(tmp_path / "r", conditions(pairs=40)).add(row)
    states = [
        peers.state_of(peers.newest(Rows(tmp_path / "r", conditions(pairs=pairs)).read(), "resnet-18", 1))
        for pairs in (40, 10)
    ]
    assert states == [peers.KEPT, "not run"]


def test_what_is_due_is_run_in_turns_until_it_is_valid(tmp_path: Path) -> None:
    """All once, then again what has no valid row, as often as tries say; rows of before count as tries."""
    kept = Rows(tmp_path / "r", {})
    kept.add({"case": "b", "verdict": "disturbed"})
    options = options_of("", "x").parse_args(["--tries", "3"])
    began = []
    for case in due("abc", kept, lambda work, row: row["case"] == work, options):
        began.append(case)
        valid = case == "a" or began.count(case) == 2
        kept.add({"case": case, "verdict": "valid" if valid else "disturbed"})
    assert began == ["a", "c", "b", "c", "b"]


def test_nothing_is_begun_after_the_minutes(tmp_path: Path) -> None:
    """A row's own time is not cut short; the next work is not begun."""
    options = options_of("", "x").parse_args(["--minutes", "1e-9"])
    assert list(due("ab", Rows(tmp_path / "r", {}), lambda work, row: False, options)) == []


def held(named: list[str], rank: int | None) -> dict[str, Any]:
    return {
        "case": straggler.HELD,
        "verdict": "valid",
        "named": named,
        "rank": rank,
        "steps": 48,
        "sentence": "",
    }


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (held(["straggler"], 1), "passed"),
        (held(["straggler", "exchange"], 1), "passed"),
        (held(["straggler"], 0), "FAILED"),
        (held(["exchange", "straggler"], 1), "FAILED"),
        (held([], None), "FAILED"),
    ],
)
def test_the_rank_that_was_held_back_has_to_be_named_first(row: dict[str, Any], word: str) -> None:
    """By its number, whatever the sentence is; without enough runs nothing has passed."""
    assert straggler.gates([row, row], 2)[0][0] == word
    assert straggler.gates([held(["straggler"], 1)], 2)[0][0] == "undecided"


def test_the_rule_says_which_rank_it_names() -> None:
    """The gate looks at this field."""
    slow = two(steps(np.full(COUNT, 4.0), 5.0, 4.0, 1), steps(np.full(COUNT, 5.0), 5.0, 5.0, 2))
    (cause,) = rule.find(slow)
    assert cause.rank == 1 and cause.sentence.startswith("Rank 1 is a straggler")
