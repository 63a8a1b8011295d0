"""Times of one machine are told at one of its levels."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.brick_jobs.levels import Levels
from inferbench_tasks.brick_jobs.machines import Machines


def level(home: str, dense: float) -> dict[str, Any]:
    """A document of ``brick_levels``; of before hosts were kept without a home."""
    return {
        "_id": f"s/{home}" if home else "s",
        "home": home,
        "references_ns": {"dense": dense, "plain": 10.0},
    }


ALL = [level("", 25.0), level("a2", 100.0), level("a", 400.0), level("b", 900.0)]
MACHINES = Machines({"a": "a", "a2": "a", "b": "b"})


def test_a_machines_level_is_the_first_of_its_data_directories() -> None:
    """Of a machine that is not known there is none, and none is inherited."""
    levels = Levels("s", ALL, MACHINES)
    of = {machine: levels.of(machine) for machine in ("a", "b", "x", "")}
    assert {name: one and one.id for name, one in of.items()} == {
        "a": "s/a2",
        "b": "s/b",
        "x": None,
        "": None,
    }
    known = Levels("s", ALL, Machines(MACHINES.together, {}, {"s": "a"}))
    first = known.of("a")
    assert first is not None and first.id == "s"


@pytest.mark.parametrize(
    ("document", "apart"),
    [
        ({"home": "a2"}, 1.0),
        ({"home": "a"}, 2.0),
        ({"home": "a", "level": "s/a2"}, 1.0),
        ({"home": "b"}, 1.0),
        ({"home": ""}, 1.0),
        ({"home": "a", "level": "s"}, 0.5),
        ({"home": "x"}, 1.0),
    ],
    ids=[
        "the first",
        "its own",
        "at the first",
        "another's",
        "not known",
        "at one of nobody",
        "without a level",
    ],
)
def test_what_was_stored_at_another_level_is_brought_to_the_machines(
    document: dict[str, Any], apart: float
) -> None:
    """By the geometric mean of the references, sqrt(400 / 100) = 2, as a session is brought to a base; never to that of
    another machine, or of one that nobody knows."""
    assert Levels("s", ALL, MACHINES).apart(document) == pytest.approx(apart)
