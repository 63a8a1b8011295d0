"""What becomes of a stand-in with faults, counted by hand."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from pydantic import ValidationError

from inferbench_tasks.contracts.stand_in_faults import StandInFaults
from inferbench_tasks.servers.llm_stand_in.answer import Asked, pieces_of
from inferbench_tasks.servers.llm_stand_in.course import Course
from inferbench_tasks.servers.llm_stand_in.pace import Pace
from inferbench_tasks.submission.model import StandInModel

S = 1_000_000_000


def course(**faults: Any) -> Course:
    """A server's that starts at 0."""
    return Course(StandInFaults.model_validate(faults), 0)


def test_it_loads_from_its_start_and_once_more() -> None:
    """For so long each time, the second from the answer that was named."""
    life = course(loading_s=2, reloads_after_answers=3)
    assert [life.loading(moment) for moment in (0, 2 * S - 1, 2 * S)] == [True, True, False]
    for moment in (3 * S, 4 * S):
        life.answered(moment)
    assert not life.loading(4 * S)
    life.answered(5 * S)
    assert [life.loading(moment) for moment in (5 * S, 7 * S - 1, 7 * S)] == [True, True, False]
    life.answered(8 * S)
    assert not life.loading(8 * S)


def test_each_nth_answer_is_wrong() -> None:
    """The third, the sixth, no other."""
    life = course(answers={"kind": "cut", "every": 3})
    assert [life.next_pace(Pace()).fault for _ in range(7)] == [
        "none", "none", "cut", "none", "none", "cut", "none",
    ]  # fmt: skip


def test_a_stall_is_one_pause_in_the_middle() -> None:
    """Chunks before it come when they would, those after it so much later."""
    life = course(answers={"kind": "stall", "every": 2, "stall_ms": 500})
    life.next_pace(Pace())
    asked = Asked(chat=False, model="m", prompt_tokens=1, output_tokens=4, stream=True, usage=True)
    pieces = pieces_of(asked, life.next_pace(Pace(ttft_ms=50, gap_ms=20)))
    assert [piece.due_ms for piece in pieces if piece.tokens] == [50, 70, 590, 610]


def test_it_dies_with_the_answer_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By SIGKILL, neither sooner nor by another way."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    life = course(dies_after_answers=2)
    life.answered(1)
    assert sent == []
    life.answered(2)
    assert sent == [(os.getpid(), signal.SIGKILL)]


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({}, "nothing goes wrong"),
        ({"reloads_after_answers": 5}, "needs loading_s"),
        ({"answers": {"kind": "stall", "every": 2}}, "needs stall_ms"),
        ({"answers": {"kind": "cut", "every": 2, "stall_ms": 5}}, "not for cut"),
        ({"answers": {"kind": "cut", "every": 1}}, "greater than or equal to 2"),
        ({"dies_after_answers": 1}, "greater than or equal to 2"),
        ({"loading_s": 0}, "greater than 0"),
    ],
)
def test_faults_that_make_no_sense_are_refused(faults: dict[str, Any], message: str) -> None:
    """With words, before anything is started."""
    with pytest.raises(ValidationError, match=message):
        StandInFaults.model_validate(faults)


def test_a_stand_in_without_faults_is_what_it_was() -> None:
    """Its fields, and with them its digest, have no trace of faults."""
    assert "faults" not in StandInModel(kind="llm_stand_in").model_dump()
    faulty = StandInModel(kind="llm_stand_in", faults=StandInFaults(loading_s=2.0))
    assert faulty.model_dump(mode="json")["faults"]["loading_s"] == 2.0


def test_faults_are_told_in_words() -> None:
    """All of them: they stand in the label of every result."""
    faults = {
        "loading_s": 2, "reloads_after_answers": 60, "dies_after_answers": 101,
        "answers": {"kind": "stall", "every": 5, "stall_ms": 2000},
    }  # fmt: skip
    assert StandInFaults.model_validate(faults).words() == (
        "503 for 2 s from its start, and again after 60 answers; stall of 2000 ms in one of 5 answers; "
        "killed after 101 answers"
    )
