"""The gallery's pictures: each shows what its submission does, not that it is one."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from inferbench_tasks.provider.submit.request import names
from inferbench_tasks.provider.ui.drawings import drawing
from inferbench_tasks.provider.ui.new_page import _card

SHIPPED = Path(__file__).parents[3] / "configs" / "submissions"


def boxes(path: str) -> list[tuple[float, float, float, float]]:
    """x, y, width and height of each box of a path."""
    found = re.findall(r"M([-\d.]+) ([-\d.]+)h([-\d.]+)v([-\d.]+)h", path)
    return [(float(x), float(y), float(width), float(height)) for x, y, width, height in found]


def of_load(duration_s: float = 10.0, **arrivals: Any) -> str:
    return drawing({"load": {"arrivals": arrivals, "duration_s": duration_s}}).strong


@pytest.mark.parametrize("name", names(SHIPPED))
def test_every_shipped_submission_has_a_sentence_and_a_picture(name: str) -> None:
    """In the gallery nobody has to open a file to know what it does."""
    card = _card(SHIPPED, name)
    assert card is not None
    assert card.text.endswith((".", "?")) and len(card.text) > 20
    assert card.drawing.strong and card.drawing.words


def test_a_steady_load_s_requests_stand_where_the_process_draws_them() -> None:
    """Constant ones at equal gaps, 56 / 22 apart; those of Poisson arrivals vary as much as they are long."""
    constant = [x for x, *_ in boxes(of_load(kind="constant", rate_rps=800))]
    assert len(constant) == 22
    assert [b - a for a, b in pairwise(constant)] == pytest.approx([56 / 22] * 21, abs=0.11)
    poisson = [x for x, *_ in boxes(of_load(kind="poisson", rate_rps=800))]
    gaps = [b - a for a, b in pairwise(poisson)]
    assert 8 <= len(poisson) <= 36 and 0.5 < stdev(gaps) / mean(gaps) < 1.6


def test_a_load_that_changes_has_its_course() -> None:
    """A spike of 16 times the rate from 20 to 30 of 120 s stands in the fifth and sixth of 24 columns; a ramp rises."""
    spike = boxes(
        of_load(120, kind="spike", base_rate_rps=25, spike_rate_rps=400, spike_at_s=20, spike_for_s=10)
    )
    assert len(spike) == 24
    highest = sorted(range(24), key=lambda index: -spike[index][3])[:2]
    assert sorted(highest) == [4, 5] and spike[4][3] > 10 * spike[0][3]
    ramp = boxes(of_load(100, kind="ramp", start_rate_rps=10, end_rate_rps=100))
    assert mean(height for *_, height in ramp[16:]) > 2 * mean(height for *_, height in ramp[:8])


def test_a_closed_loop_has_a_lane_for_each_user() -> None:
    """Of more than five users five are drawn, and the words tell how many there are."""
    for users, lanes in ((1, 1), (4, 4), (100, 5)):
        made = drawing({"load": {"arrivals": {"kind": "closed_loop", "concurrency": users}}})
        assert len({y for _, y, *_ in boxes(made.strong)}) == lanes
        assert f"closed loop of {users} user" in made.words


def test_other_kinds_have_pictures_of_their_own() -> None:
    """Epochs by rank, bricks by model, spans, marks, a search, all at once: no two are alike."""
    training = {"kind": "training", "train": {"rounds": 7}, "sweep": {"zip": {"devices.processes": [1, 2]}}}
    load = {"load": {"arrivals": {"kind": "poisson", "rate_rps": 10}}}
    made = [
        drawing(training),
        drawing({"kind": "bricks", "models": [{}, {}, {}]}),
        drawing({"trace": {}, **load}),
        drawing({"evaluate": {}, **load}),
        drawing({"load": {"arrivals": {"kind": "max_rate", "start_rate_rps": 4}}}),
        drawing({"load": {"arrivals": {"kind": "offline", "requests": 10}}}),
        drawing({"load": {"arrivals": {"kind": "trace", "path": "x.csv"}}}),
        drawing(load),
    ]
    assert len({each.strong for each in made}) == len({each.words for each in made}) == len(made)
    assert all(each.strong for each in made)
    assert len(boxes(made[0].strong)) == len(boxes(made[0].pale)) == 7, "an epoch's two ranks"
    rows = {y for path in (made[1].strong, made[1].pale) for _, y, *_ in boxes(path)}
    assert len(rows) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"load": 3},
        {"load": {}},
        {"load": {"arrivals": "poisson"}},
        {"load": {"arrivals": {"kind": "nonsense"}}},
        {"load": {"arrivals": {"kind": "poisson"}}},
        {"load": {"arrivals": {"kind": "poisson", "rate_rps": "fast"}}},
        {"load": {"arrivals": {"kind": "closed_loop", "concurrency": "many"}}},
        {"load": {"arrivals": {"kind": "spike"}, "duration_s": []}},
        {"kind": "training", "train": 3},
        {"kind": "training", "train": {"epochs": "x"}},
        {"kind": "bricks", "models": "x"},
        {"kind": "nonsense"},
    ],
)
def test_what_is_wrong_is_drawn_as_little_as_it_says(wrong: dict[str, Any]) -> None:
    """The editor tells what is wrong; the gallery stands."""
    assert drawing(wrong).words
