"""How much is in the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
#: One server that sends without end is asked by each client: it counts as one input, whoever asks.
MANY_ASKERS = "test_answers_without_end.py"


def test_there_are_a_hundred_inputs_and_more(request: pytest.FixtureRequest) -> None:
    """Of all files of the corpus; those of hypothesis count as one each."""
    items = [item for item in request.session.items if item.path.parent == FOLDER]
    if {item.path for item in items} != set(FOLDER.glob("test_*.py")) or request.config.option.keyword:
        pytest.skip("the corpus is counted where all of it is run")
    inputs = {item.nodeid for item in items if item.path.name != MANY_ASKERS}
    inputs |= {item.nodeid.rpartition(", ")[2] for item in items if item.path.name == MANY_ASKERS}
    assert len(inputs) >= 100
