"""The state on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.regression.bisect.answer import answer_of
from inferbench_tasks.regression.bisect.state import load, save
from inferbench_tasks.regression.bisect.text import as_mapping, sentences
from tests.unit.regression.bisect.builders import begun, finished, slower_from


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With its decisions and skipped steps; another task's and a broken one are refused, none begins anew."""
    path = tmp_path / "a" / "state.json"
    state = finished(begun(8), slower_from(5), unbuildable=(4,))
    assert load(path, state.task).comparisons == []
    save(path, state)
    assert load(path, state.task) == state
    with pytest.raises(InputError, match="another bisection"):
        load(path, begun(9).task)
    path.write_text("{")
    with pytest.raises(InputError, match="no state"):
        load(path, state.task)


def test_the_answer_in_words_and_as_data() -> None:
    """The culprit's name, its interval, its stage, and what was skipped."""
    state = finished(begun(8), slower_from(5), unbuildable=(2,))
    answer = answer_of(state)
    lines = sentences(state, answer)
    assert lines[0] == "culprit: c5" and "in inference" in lines[1] and "95%: +" in lines[1]
    assert any(line.startswith("skipped c2: does not build") for line in lines) == (2 in state.skipped)
    data = as_mapping(state, answer)
    assert (data["answer"], data["bad"], data["stage"]) == ("culprit", "c5", "inference")
    assert data["change"]["low_percent"] > 0
    nothing = finished(begun(8), lambda place: 1.0)
    assert sentences(nothing, answer_of(nothing))[0].startswith("no culprit: c0 and c8 do not differ by 3%")
