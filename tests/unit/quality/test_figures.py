"""Each measure stands in the table of figures."""

from __future__ import annotations

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.figures_of_quality import QUALITY_FIGURES
from inferbench_tasks.quality.measures import MEASURES


def test_every_measure_of_ours_is_a_figure_and_the_other_way_round() -> None:
    """So that all of them can be ranked by, bounded and compared; which way is good is the measure's own word."""
    ours = [name for name in MEASURES if MEASURES.origin(name) == "built-in"]
    assert sorted(ours) == sorted(figure.name for figure in QUALITY_FIGURES)
    for name in ours:
        assert FIGURES[name].better == MEASURES.load(name).better, name
        assert FIGURES[name].evaluated
