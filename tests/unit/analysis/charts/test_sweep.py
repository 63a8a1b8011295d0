"""What the pictures of a sweep say of figures that are of unlike things."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.grid import axes_of, fold
from inferbench_tasks.analysis.charts.heatmap import heat_map
from inferbench_tasks.analysis.charts.sweep import bars
from inferbench_tasks.analysis.charts.tradeoffs import pareto_table
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.builders import named, records, view

ENERGY = FIGURES["joule_per_sample"]
SAID = "(energies by different methods: rapl, tdp_estimate)"


def drawn(*methods: str) -> list[RunView]:
    """Four runs of two batch sizes and two numbers of threads, with an energy by each of these methods."""
    views = named(
        *(
            view(
                records(4.0 + batch + threads, batch_size=batch),
                f"r.{batch}{threads}",
                job={"load__batch_size": batch, "serve": {"threads": threads}},
            )
            for batch in (1, 2)
            for threads in (1, 2)
        )
    )
    for place, (run, method) in enumerate(zip(views, methods, strict=True)):
        run.summary["energy"] = {"joule_per_sample": 0.1 + place / 10, "method": method}
    return views


def test_energies_of_two_methods_are_not_drawn_as_one_thing() -> None:
    """0.1 J by a counter of the whole processor beside 0.2 J by an estimate of a server's share: bars, map and front
    say that they are of different methods. Of one method, and of other figures, nothing is said."""
    mixed = drawn("rapl", "tdp_estimate", "rapl", "rapl")
    bar = bars(mixed, ENERGY)
    heat = heat_map(mixed, *fold(axes_of(mixed)), ENERGY)
    (table,) = pareto_table(mixed)
    assert bar is not None and heat is not None
    for title in (bar["layout"]["title"]["text"], heat["layout"]["title"]["text"], table["title"]):
        assert SAID in title
    same = drawn("rapl", "rapl", "rapl", "rapl")
    for views, figure in ((same, ENERGY), (mixed, FIGURES["throughput_samples_per_s"])):
        plain = bars(views, figure)
        assert plain is not None and plain["layout"]["title"]["text"] == figure.title
    assert "methods" not in pareto_table(same)[0]["title"]
