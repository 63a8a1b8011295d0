"""The page of traced models across the stack, from made-up spans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inferbench_tasks.analysis.stack.base import ANALYSES, Subject
from inferbench_tasks.analysis.stack.document import labelled, outlined, summary
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.ui.render import page
from inferbench_tasks.provider.ui.stack_page import MOST_ROWS, _parts, _shown, cells
from tests.unit.analysis.stack.spans import layer, profile

pytestmark = pytest.mark.airflow
#: A layer's name that a page must show as text.
NASTY = "<script>alert(1)</script>"


def subjects(**slower: float) -> list[Subject]:
    """Stacks of one model by these labels, each with a layer of 100 us and one of so many."""
    made = []
    for label, us in slower.items():
        layers = [layer(NASTY, "Conv", 100, (1, 8), output_bytes=64), layer("s", "Softmax", us, (1, 8))]
        about = {"model": "m", "verdict": "valid"}
        made.append(Subject(replace(profile([layers] * 3, label=label), run_id=f"run-{label}", about=about)))
    return labelled(made)


def shown(found: list[Subject], *runs: str, left_out: tuple[str, ...] = ()) -> str:
    """The page of these stacks."""
    outline = outlined(found, left_out)
    sides = _shown(found, outline, runs)
    values: dict[str, Any] = {
        "model": "m", "by": "stack", "ways": ("stack", "version"), "traced": [], "problem": None, "csv": "c",
        "json": "j", "rows": summary(outline), "comparisons": outline["comparisons"], "sides": sides,
        "parts": _parts(sides), "left_out": outline["left_out"],
    }  # fmt: skip
    return bytes(page("stack.html", here="stack", **values).body).decode()


def test_the_fastest_stands_beside_another_by_each_analysis() -> None:
    """The quick one first; a part for each analysis, each with a sentence or what is missing on both sides; what makes
    the difference is said, and a name of a model's file is no markup.
    """
    text = shown(subjects(slow=70, quick=30))
    assert text.count('<details class="part"') == len(list(ANALYSES)) == 15
    assert text.count('<div class="side">') == 30
    assert text.index("m, quick</p>") < text.index("m, slow</p>")
    assert "/api/traces/run-quick/analyses/layers?format=csv" in text
    assert "Missing: " in text and "times as long" in text
    assert NASTY not in text and "&lt;script&gt;alert(1)" in text


def test_one_stack_is_asked_for_by_its_run() -> None:
    """Alone, without another's; of one model alone there is nothing to choose. Another run is refused with those there
    are.
    """
    found = subjects(slow=70, quick=30)
    text = shown(found, "run-slow")
    assert text.count('<div class="side">') == 15 and "run-slow/analyses" in text
    assert "run-quick/analyses" not in text and 'name="run"' in text
    assert 'name="run"' not in shown(subjects(quick=30))
    with pytest.raises(InputError, match="run-x is none of these stacks; they are run-slow, run-quick"):
        _shown(found, outlined(found), ["run-x"])


def test_a_run_that_does_not_count_is_faint_and_the_others_are_compared_with_a_valid_one() -> None:
    """However fast it is; runs that can't be analysed are named."""
    quick, slow, slower = subjects(quick=30, slow=70, slower=90)
    quick = replace(
        quick, profile=replace(quick.profile, about=quick.profile.about | {"verdict": "invalid: late"})
    )
    found = [quick, slow, slower]
    assert [(each["left"], each["right"]) for each in outlined(found)["comparisons"]] == [
        ("run-slow", "run-slower"),
        ("run-slow", "run-quick"),
    ]
    assert [row["layers"] for row in summary(outlined(found))] == [2, 2, 2]
    text = shown(found, left_out=("run-x: no layers",))
    assert text.count('<td class="n soft">') == 2 and "Left out: run-x: no layers." in text


def test_a_long_table_is_cut_and_says_of_how_many_rows() -> None:
    """Columns of numbers are known by any of their values; a truth is none."""
    rows: list[dict[str, Any]] = [
        {"layer": f"l{at}", "ms": None if at < 2 else 0.5, "best": at == 3} for at in range(MOST_ROWS + 5)
    ]
    cut = cells(rows)
    assert list(cut.columns) == [("layer", False), ("ms", True), ("best", False)]
    assert (len(cut.rows), cut.of, list(cut.rows[2])) == (MOST_ROWS, MOST_ROWS + 5, ["l2", 0.5, False])
    assert cells([]).columns == []
